# tests/python/shared/checks.py: what many tests say in a line
import importlib.util
import subprocess
import sys

import numpy as np
import pytest


def refuses(error, words, call):
    """The call raises this error; its message has what the regular expression `words` finds (None: anything)."""
    with pytest.raises(error, match=words):
        call()


def same(got, wanted, **tolerances):
    """As many arrays, with the same elements; with tolerances, with near ones."""
    compare = np.testing.assert_allclose if tolerances else np.testing.assert_array_equal
    for g, w in zip(got, wanted, strict=True):
        compare(g, w, **tolerances)


def run(*command, **options):
    """What a program printed, which ended well."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}{done.stderr[-6000:]}"
    return done.stdout


def python(*arguments, **options):
    return run(sys.executable, *arguments, **options)


def load(path, name=None):
    """The module that a file is, whatever else has its name."""
    name = name or path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
