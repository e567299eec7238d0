#!/usr/bin/env python3
# tools/check_imports.py: fails when modules of python/ import in a circle or from a part below them
"""Imports under python/ point one way.

A module may import from its own part and from the parts above it in ORDER, and no chain of imports leads back to where
it began. Imports inside functions count, and so do names given to `import_module` and its like, as far as they are
written out; those under `if TYPE_CHECKING:` do not.
"""

import ast
import sys
import tempfile
from pathlib import Path

ORDER = [
    "hologram",
    "hologram_ffi",
    "hologram_torch.options",
    "hologram_torch.owners",
    "hologram_torch.lines",
    "hologram_torch.counters",
    "hologram_torch.runtimes",
    "hologram_torch.precision",
    "hologram_torch.dlpack",
    "hologram_torch.memory",
    "hologram_torch.parameters",
    "hologram_torch.holders",
    "hologram_torch.writes",
    "hologram_torch.profiling",
    "hologram_torch.graph",
    "hologram_torch.lowering",
    "hologram_torch.translate",
    "hologram_torch.capture",
    "hologram_torch.program",
    "hologram_torch.pieces",
    "hologram_torch.compiler",
    "hologram_torch.functions",
    "hologram_torch.direct",
    "hologram_torch.saved",
    "hologram_torch.twice",
    "hologram_torch.backend",
    "hologram_torch.accelerator",
    "hologram_torch.device",
    "hologram_torch.released",
    "hologram_torch.frozen",
    "hologram_torch.archive",
    "hologram_torch.generation",
    "hologram_torch.huggingface",
    "hologram_torch.quantized",
    "hologram_torch.explain",
    "hologram_torch.eager",
    "hologram_torch.functional",
    "hologram_torch.nn",
    "hologram_torch.autograd",
    "hologram_torch.library",
    "hologram_torch.optim",
    "hologram_torch.training",
    "hologram_torch.utils",
    "hologram_torch",  # its __init__.py: the public names
    "hologram_torch.demo",
]


def part(name):
    """The longest entry of ORDER that the dotted name is or lies below; None for a module of no part."""
    fits = [p for p in ORDER if name == p or name.startswith(p + ".")]
    if fits and fits != ["hologram_torch"]:
        return max(fits, key=len)
    return name if name in ORDER else None


def modules(root):
    """Dotted name → file of every module below `root`."""
    found = {}
    for path in sorted(root.rglob("*.py*"), reverse=True):  # a stub alone stands for a native module
        if path.suffix not in (".py", ".pyi"):
            continue
        names = path.relative_to(root).with_suffix("").parts
        found[".".join(names[:-1] if names[-1] == "__init__" else names)] = path
    return found


def _statements(tree):
    """All nodes but those under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _statements(node)


LATE = {"import_module", "__import__", "find_spec", "run_module", "resolve_name"}  # functions of importlib, runpy and pkgutil


def _written(node, name):
    """What of a string is written out: (the text, whether that is all of it)."""
    if isinstance(node, ast.Constant):
        return str(node.value), True
    if isinstance(node, ast.Name) and node.id == "__name__":
        return name, True
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else getattr(node, "values", None)
    if isinstance(node, ast.FormattedValue):
        return _written(node.value, name)
    text = ""
    for part in parts or ():
        more, whole = _written(part, name)
        text += more
        if not whole:
            return text, False
    return text, parts is not None


def late(node, name, known):
    """The known module that a call imports by its name, or the nearest package that is certain; None where it is no such call."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    function = getattr(node.func, "attr", getattr(node.func, "id", None))
    if function not in LATE:
        return None
    text, whole = _written(node.args[0], name)
    text = text.split(":")[0]
    if text.startswith("."):
        text = name.rpartition(".")[0] + text
    while text not in known and "." in text:
        text, whole = text.rpartition(".")[0], False
    return text if text in known else None


def imports(name, path, known):
    """{dotted name of a known module: line} that the module imports."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = {}
    if path.suffix == ".pyi":
        return found
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        target = late(node, name, known)
        if target and target != name:  # of its own modules a package may import any
            found.setdefault(target, node.lineno)
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            targets = [f"{base}.{a.name}" if f"{base}.{a.name}" in known else base for a in node.names]
        else:
            continue
        for target in targets:
            if target in known:
                found.setdefault(target, node.lineno)
    return found


def circles(edges):
    """Lists of modules that import one another, by Tarjan's algorithm for strongly connected components."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in edges[name]:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            members = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(members) > 1 or name in edges[name]:
                found.append(sorted(members))

    for name in edges:
        if name not in index:
            visit(name)
    return found


def arrows(root):
    """{part: the other parts that its modules import from}, in ORDER."""
    known = modules(root)
    found = {}
    for name, path in known.items():
        targets = {part(t) for t in imports(name, path, known)} - {None, part(name)}
        found.setdefault(part(name), set()).update(targets)
    return {p: sorted(found[p], key=ORDER.index) for p in ORDER if p in found}


def check_tree(root):
    """All faults below the folder `root`, and the number of modules read."""
    known = modules(root)
    edges = {name: imports(name, path, known) for name, path in known.items()}
    faults = [f"{' ↔ '.join(members)} import one another" for members in circles(edges)]
    for name, targets in edges.items():
        where = known[name].relative_to(root).as_posix()
        if part(name) is None:
            faults.append(f"{where}: in no part of the list in tools/check_imports.py")
            continue
        for target, line in targets.items():
            if part(target) and ORDER.index(part(target)) > ORDER.index(part(name)):
                faults.append(f"{where}:{line}: imports {target}, which comes after {part(name)}")
    return faults, len(known)


SELF_TEST = [
    ({"hologram/a.py": "from hologram import b", "hologram/b.py": "import numpy"}, True),
    ({"hologram/a.py": "from hologram import b", "hologram/b.py": "def f():\n    from hologram.a import g"}, False),
    ({"hologram/a.py": "from hologram.b import c", "hologram/b.py": "import hologram.c", "hologram/c.py": "import hologram.a"}, False),
    ({"hologram/a.py": "if TYPE_CHECKING:\n    import hologram.b", "hologram/b.py": "import hologram.a"}, True),
    ({"hologram/a.py": "import hologram_torch.options", "hologram_torch/options.py": ""}, False),
    ({"hologram_torch/graph/a.py": "from ..lowering import views", "hologram_torch/lowering/views.py": ""}, False),
    ({"hologram_torch/lowering/views.py": "from ..graph.a import b", "hologram_torch/graph/a.py": ""}, True),
    ({"hologram_torch/lowering/views.py": "from . import lower", "hologram_torch/lowering/__init__.py": ""}, True),
    ({"hologram_torch/lowering/views.py": "from . import lower", "hologram_torch/lowering/__init__.py": "from .views import x"}, False),
    ({"hologram/__init__.py": "from hologram import a", "hologram/a.py": "from hologram import _n", "hologram/_n.pyi": ""}, True),
    ({"hologram_torch/strange.py": ""}, False),
    ({"hologram/a.py": "import_module('hologram_torch.options')", "hologram_torch/options.py": ""}, False),
    ({"hologram/a.py": "def f(n):\n    return i.import_module(f'hologram_torch.{n}')", "hologram_torch/__init__.py": ""}, False),
    ({"hologram/a.py": "i.import_module('hologram_torch.' + x)", "hologram_torch/__init__.py": ""}, False),
    ({"hologram/a.py": "i.import_module('hologram.b')", "hologram/b.py": "def f():\n    from hologram import a"}, False),
    ({"hologram/__init__.py": "i.import_module(f'{__name__}.{n}')", "hologram/a.py": "import hologram"}, True),
    ({"hologram_torch/runtimes.py": "i.import_module('hologram_torch.accelerator')", "hologram_torch/accelerator.py": ""}, False),
    ({"hologram_torch/device.py": "from .accelerator import use", "hologram_torch/accelerator.py": "def use(): ..."}, True),
    ({"hologram_torch/nn.py": "i.import_module('hologram.a')", "hologram/a.py": ""}, True),
]


def self_test():
    """Checks every row of SELF_TEST in a scratch tree; returns the number of wrong answers."""
    wrong = 0
    for files, good in SELF_TEST:
        with tempfile.TemporaryDirectory() as scratch:
            for name, text in files.items():
                path = Path(scratch) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text + "\n", encoding="utf-8")
            faults, _ = check_tree(Path(scratch))
        if (not faults) != good:
            wrong += 1
            print(f"{files}: expected {'no fault' if good else 'a fault'}, got {faults}")
    print(f"check_imports: {len(SELF_TEST) - wrong} of {len(SELF_TEST)} cases as expected")
    return wrong


def main():
    if "--self-test" in sys.argv[1:]:
        return 1 if self_test() else 0
    faults, count = check_tree(Path(__file__).resolve().parent.parent / "python")
    for fault in faults:
        print(fault)
    print(f"check_imports: {count} modules, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
