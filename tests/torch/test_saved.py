# tests/torch/test_saved.py: compiled graphs in PyTorch's caches and files: aot_compile, AOTAutograd's cache, mega-cache
import os

import forks
import pytest
import torch
from harness import backend_stats, compile_fresh, module
from torch._functorch import config

from hologram_torch import saved

CACHED = {"options": {"cache": True}}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch.compiler._cache.CacheArtifactManager.clear()


def cache_counts():
    counted = torch._dynamo.utils.counters["aot_autograd"]
    return {name: counted[f"autograd_cache_{name}"] for name in ("hit", "miss", "saved", "bypass")}


class Mlp(torch.nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.second = torch.nn.Linear(width, 32), torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.first(x)))


@module(lstm=lambda: torch.nn.LSTM(8, 12, batch_first=True))
def Recurrent(self, x):
    return self.lstm(x)[0]


class LeftToPyTorch(torch.nn.Module):
    """With an operator that has no kernel, between native ones."""

    def forward(self, x):
        return torch.linalg.matrix_exp((x @ x.mT).softmax(-1)) * 2


class Constants(torch.nn.Module):
    def forward(self, x):
        return x * torch.tensor([1.0, 2.0, 3.0, 4.0]), x.view(-1, 2)


def saved_and_loaded(model, inputs):
    """The same compiled function before a file and after it."""
    options = {"guard_filter_fn": torch.compiler.keep_portable_guards_unsafe}
    compiled = compile_fresh(model.forward, fullgraph=True, options=options)
    with torch.no_grad():
        before = compiled.aot_compile((inputs, {}))
        path = os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "compiled")
        before.save_compiled_function(path)
        with open(path, "rb") as file:
            after = torch.compiler.load_compiled_function(file)
    return before, after


@pytest.mark.parametrize(
    "make, shape",
    [(Mlp, (8, 16)), (LeftToPyTorch, (3, 4, 4)), (Constants, (2, 4))],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_compiled_function_file_gives_the_same_bits(make, shape):
    model, x = make().eval(), torch.randn(shape)
    before, after = saved_and_loaded(model, (x,))
    with torch.no_grad():
        expected, actual = before(model, x), after(model, x)
        torch.testing.assert_close(actual, model(x))
    for a, b in zip(*map(torch.utils._pytree.tree_leaves, (expected, actual)), strict=True):
        assert torch.equal(a, b)
    assert backend_stats()["failed_graphs"] == 0


def test_compiled_function_file_of_symbolic_sizes():
    model, x = Mlp().eval(), torch.randn(8, 16)
    torch._dynamo.mark_dynamic(x, 0)
    _, after = saved_and_loaded(model, (x,))
    with torch.no_grad():
        for n in (3, 50):
            x = torch.randn(n, 16)
            torch.testing.assert_close(after(model, x), model(x))


def test_compiled_function_file_follows_the_precision_of_the_caller():
    """All treatments of products travel, whatever the machine made of the permission when it saved."""
    model, x = Mlp(256).eval(), torch.randn(256, 256)
    products = torch.backends.mkldnn.matmul
    before, products.fp32_precision = products.fp32_precision, "bf16"
    try:
        _, after = saved_and_loaded(model, (x,))
        with torch.no_grad():
            torch.testing.assert_close(after(model, x), model(x), rtol=2e-2, atol=2e-2)
            products.fp32_precision = "ieee"
            assert torch.equal(after(model, x), compile_fresh(model)(x))
    finally:
        products.fp32_precision = before


def test_file_of_another_version_is_refused(monkeypatch):
    model, x = Mlp().eval(), torch.randn(8, 16)
    saved_and_loaded(model, (x,))
    monkeypatch.setattr(saved, "version", lambda: "9.9.9-another")
    path = os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "compiled")
    with open(path, "rb") as file, pytest.raises(RuntimeError, match="hologram 9.9.9-another cannot run .* compile the model again"):
        torch.compiler.load_compiled_function(file)


@pytest.mark.parametrize("make, shape", [(Mlp, (8, 16)), (Recurrent, (2, 5, 8))], ids=lambda x: getattr(x, "__name__", None))
def test_second_compilation_takes_the_graph_from_the_cache(make, shape, monkeypatch):
    model, x = make().eval(), torch.randn(shape)
    with torch.no_grad():
        first = compile_fresh(model, **CACHED)(x)
        assert cache_counts() == {"hit": 0, "miss": 1, "saved": 1, "bypass": 0}
        second = compile_fresh(model, **CACHED)(x)
        assert cache_counts() == {"hit": 1, "miss": 0, "saved": 0, "bypass": 0}
        assert torch.equal(first, second) and backend_stats()["graphs"] == 1
        monkeypatch.setattr(saved, "version", lambda: "9.9.9-another")
        third = compile_fresh(model, **CACHED)(x)
        assert cache_counts()["miss"] == 1 and torch.equal(first, third)


def test_entry_that_cannot_be_loaded_is_compiled_again(monkeypatch):
    model, x = Mlp().eval(), torch.randn(8, 16)

    def refuse(*_):
        raise RuntimeError("written by another version")

    with torch.no_grad():
        first = compile_fresh(model, **CACHED)(x)
        monkeypatch.setattr(saved.Code, "post_compile", refuse)
        assert torch.equal(compile_fresh(model, **CACHED)(x), first)
    assert cache_counts()["bypass"] == 1 and backend_stats()["graphs"] == 1


def test_options_have_entries_of_their_own():
    model, x = Mlp().eval(), torch.randn(8, 16)
    with torch.no_grad():
        compile_fresh(model, **CACHED)(x)
        compile_fresh(model, options={"cache": True, "reproducible": True})(x)
    assert cache_counts() == {"hit": 0, "miss": 1, "saved": 1, "bypass": 0}


def test_cache_is_left_alone_unless_asked(monkeypatch):
    model, x = Mlp().eval(), torch.randn(8, 16)
    with torch.no_grad():
        compile_fresh(model)(x)
        assert cache_counts() == {"hit": 0, "miss": 0, "saved": 0, "bypass": 0}
        monkeypatch.setenv("HOLOGRAM_AUTOGRAD_CACHE", "1")
        compile_fresh(model)(x)
    assert cache_counts()["saved"] == 1


def train(model, x, **options):
    compiled = compile_fresh(model, **options)
    model.zero_grad()
    loss = compiled(x).square().sum()
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters()]


def test_training_graphs_are_taken_from_the_cache():
    """Also those whose backward graph was compiled later, when the first gradient was asked for."""
    model, x = Mlp(), torch.randn(8, 16)
    first = train(model, x, **CACHED)
    assert cache_counts() == {"hit": 0, "miss": 1, "saved": 1, "bypass": 0}
    assert not config.bundled_autograd_cache  # as it was before
    second = train(model, x, **CACHED)
    assert cache_counts() == {"hit": 1, "miss": 0, "saved": 0, "bypass": 0} and backend_stats()["graphs"] == 2
    assert torch.equal(first[0], second[0]) and all(map(torch.equal, first[1], second[1]))


PROCESS = """
import sys, torch, hologram_torch
sys.path.insert(0, sys.argv[1])
from test_saved import CACHED, Mlp, cache_counts, saved_and_loaded, train
first, folder = sys.argv[2] == "first", sys.argv[3]
torch.manual_seed(0)
model, x = Mlp(), torch.randn(8, 16)
if first:
    loss, gradients = train(model, x, **CACHED)
    with open(folder + "/artifacts", "wb") as file:
        file.write(torch.compiler.save_cache_artifacts()[0])
    compiled, _ = saved_and_loaded(model, (x,))
    with torch.no_grad():
        torch.save((loss, gradients, compiled(model, x)), folder + "/results")
else:
    with open(folder + "/artifacts", "rb") as file:
        torch.compiler.load_cache_artifacts(file.read())
    loss, gradients = train(model, x, **CACHED)
    assert cache_counts() == {"hit": 1, "miss": 0, "saved": 0, "bypass": 0}, cache_counts()
    with torch.no_grad(), open(folder + "/compiled", "rb") as file:
        result = torch.compiler.load_compiled_function(file)(model, x)
    expected = torch.load(folder + "/results")
    assert torch.equal(loss, expected[0]) and all(map(torch.equal, gradients, expected[1])) and torch.equal(result, expected[2])
    assert hologram_torch.stats()["kernel_cache_misses"] == 0
print("done")
"""


@pytest.mark.parametrize("kernels", ["shared", "off"])
def test_another_process_needs_no_tracing_and_compiles_nothing(tmp_path, kernels):
    """Artifacts in a file (torch.compiler.save_cache_artifacts) and a compiled function, in a process with empty caches; of
    kernels also with those of the first one, and with none."""
    (tmp_path / "first").mkdir()
    for process in ("first", "second"):
        folder = {"shared": tmp_path / "kernels", "own": tmp_path / f"{process}_kernels", "off": "off"}[kernels]
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / process), "HOLOGRAM_CACHE_DIR": str(folder)}
        done = forks.run(PROCESS, os.path.dirname(__file__), process, tmp_path / "first", env=environment)
        assert done.returncode == 0 and "done" in done.stdout, done.stderr[-3000:]
