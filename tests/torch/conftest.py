# tests/torch/conftest.py: what PyTorch measures at each capture is left out; graphs are looked at by same_memory.py
import logging
import sys
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path += [str(BENCH / "conformance"), str(BENCH / "shared")]  # where there is no pyproject.toml too
import same_memory  # noqa: E402
from harness import BACKEND  # noqa: E402

# What PyTorch measures and writes down at each capture costs the tests a sixth of their time.
torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # a measurement, behind a flush of the caches
logging.getLogger("torch.__trace").addHandler = lambda _: None  # pytest's, for which graphs would be written

WATCHED = same_memory.watch(BACKEND)

OURS = """archived_layers attention autocast backend code_size convolution cuda cuda_attention cuda_branches cuda_freeze cuda_memory
cuda_models cuda_precision cuda_products cuda_scatter cuda_sort custom_op cut devices direct distributed draws freeze generation indices
long_runs memory optimizers page parts precision products profiling quantize quantized recurrent release saved start_bars symbols
training""".split()  # files of tests of this backend alone
collect_ignore = [f"test_{name}.py" for name in OURS if BACKEND != "hologram"]


@pytest.fixture
def unwatched():
    """For tests that measure what compiled graphs take: none of them is looked at."""
    if WATCHED is None:
        yield
        return
    every, WATCHED.every = WATCHED.every, 0
    yield
    WATCHED.every = every


@pytest.fixture
def strict(monkeypatch):
    """A graph that does not compile is an error; none is there yet."""
    torch._dynamo.reset()
    monkeypatch.setenv("HOLOGRAM_STRICT", "1")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder, which becomes the cache of the runtimes made from here on."""
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def setting():
    """Sets the precision of float32 products, for the test alone."""
    before = torch.get_float32_matmul_precision()
    yield torch.set_float32_matmul_precision
    torch.backends.mkldnn.matmul.fp32_precision = torch.backends.cuda.matmul.fp32_precision = "ieee"
    torch.set_float32_matmul_precision(before)


@pytest.fixture(autouse=True)
def memory_is_shared_as_in_eager():
    yield
    if WATCHED is not None:
        found, WATCHED.found = WATCHED.found, []
        assert not found, "\n".join(found)
