# tests/conftest.py: the Python tests keep their kernels and trusted archives apart from the user's, and see the same numbers in every run
import atexit
import os
import shutil
import sys
import tempfile

import pytest

if "HOLOGRAM_CACHE_DIR" not in os.environ:
    os.environ["HOLOGRAM_CACHE_DIR"] = tempfile.mkdtemp(prefix="hologram-tests-")
    atexit.register(shutil.rmtree, os.environ["HOLOGRAM_CACHE_DIR"], ignore_errors=True)
if "HOLOGRAM_TRUSTED" not in os.environ:
    os.environ["HOLOGRAM_TRUSTED"] = os.path.join(tempfile.mkdtemp(prefix="hologram-trusted-"), "trusted")
    atexit.register(shutil.rmtree, os.path.dirname(os.environ["HOLOGRAM_TRUSTED"]), ignore_errors=True)


@pytest.fixture(autouse=True)
def same_numbers():
    """Every test draws its random numbers from the start, whatever ran before it."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
