# tests/conftest.py: the Python tests keep their kernels apart from the user's
import atexit
import os
import shutil
import tempfile

if "HOLOGRAM_CACHE_DIR" not in os.environ:
    os.environ["HOLOGRAM_CACHE_DIR"] = tempfile.mkdtemp(prefix="hologram-tests-")
    atexit.register(shutil.rmtree, os.environ["HOLOGRAM_CACHE_DIR"], ignore_errors=True)
