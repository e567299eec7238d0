# tests/torch/test_webgpu.py: compiled graphs on WebGPU; skipped where wgpu-native finds no adapter
import copy
import importlib.util
import sys
from pathlib import Path

import hologram
import hologram_torch
import numpy as np
import pytest
import torch
from harness import backend_stats, check, compile_fresh, module, run_eager
from hologram_torch import runtimes
from torch import nn
from zoo import ZOO

from hologram.cli import main

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import webgpu  # noqa: E402

pytestmark = pytest.mark.skipif(hologram.device_count("webgpu") == 0, reason="no adapter: install mesa-vulkan-drivers")


def test_without_an_adapter_everything_else_works(monkeypatch, tmp_path, caplog):
    library = tmp_path / "libwgpu.so"  # another path has an instance of its own, for which drivers are looked for anew
    library.symlink_to(Path(importlib.util.find_spec("wgpu").origin).parent / "resources" / "libwgpu_native-release.so")
    for name, value in {"HOLOGRAM_WEBGPU_LIBRARY": library, "VK_ICD_FILENAMES": "/nowhere", "VK_DRIVER_FILES": "/nowhere"}.items():
        monkeypatch.setenv(name, str(value))
    layer, x = nn.Linear(3, 2).requires_grad_(False), torch.ones(3)
    with pytest.raises(Exception, match='backend "webgpu" is not available: .*libwgpu.so finds no adapter'):
        compile_fresh(layer, options={"device": "webgpu:8"})(x)
    with pytest.raises(RuntimeError, match='backend "vulkan" is not available: .*libwgpu.so finds no such adapter'):
        hologram_torch.freeze(layer, (x,), device="vulkan:8")
    torch.testing.assert_close(compile_fresh(layer)(x), layer(x))
    assert backend_stats()["failed_graphs"] == 0 and "report it" not in caplog.text


@pytest.mark.parametrize("name", ["resnet", "lstm", "gpt2_cached", "llama"])
def test_models_of_the_zoo(name):
    """HOLOGRAM_BACKEND=webgpu runs all of test_zoo.py there."""
    case = ZOO[name]()
    compiled = compile_fresh(copy.deepcopy(case.module), options={"device": "webgpu"}, dynamic=False)
    counts = lambda: runtimes.runtime("cpu", "webgpu").counts["dispatches"]  # noqa: E731
    with torch.no_grad():
        for _ in range(2):
            check(compiled(*case.inputs), run_eager(case.module, case.inputs))
        before = counts()
        check(compiled(*case.inputs), run_eager(case.module, case.inputs))
    assert counts() > before + 4
    assert backend_stats()["failed_graphs"] == 0 and not backend_stats()["fallback_ops"]


def test_reproducible_sums_are_refused(strict):
    with pytest.raises(Exception, match="reassociate sums"):
        compile_fresh(lambda x: x + 1, options={"reproducible": True, "device": "webgpu"})(torch.ones(3))


def test_steps_are_dispatches_of_one_submission():
    call, x = webgpu.chain(7, "webgpu"), torch.tensor([2, 0, 1])
    assert call(x).tolist() == [1, 2, 0]
    before = webgpu.counts("webgpu")
    call(x)
    after = webgpu.counts("webgpu")
    assert {name: after[name] - before[name] for name in webgpu.COUNTS} == {"dispatches": 8, "submissions": 1, "host_runs": 0}


def test_weights_stay_on_the_device():
    model, x = nn.Sequential(nn.Linear(64, 96), nn.Tanh(), nn.Linear(96, 16)).requires_grad_(False), torch.randn(4, 64)
    compiled = torch.compile(model, backend="hologram", options={"device": "webgpu"})
    counts = lambda: runtimes.runtime("cpu", "webgpu").counts["uploaded_bytes"]  # noqa: E731

    def uploaded():
        before = counts() if called else 0
        called.append(compiled(x))
        torch.testing.assert_close(called[-1], model(x))
        return counts() - before

    called, weights = [], [p.nbytes for p in model.parameters()]
    assert uploaded() >= sum(weights)
    assert uploaded() == x.nbytes  # weights are there
    model[0].weight.mul_(2)
    assert uploaded() == x.nbytes + weights[0]
    model[2].bias.data = torch.ones(16)
    assert uploaded() == x.nbytes + weights[3]
    assert uploaded() == x.nbytes
    there = runtimes.runtime("cpu", "webgpu")
    assert there.counts["staged_bytes"] == 0 or "memory of the host: no" in there.description


def test_gradients_of_attention_stay_on_the_device():
    """Heads that share keys, some keys hidden from all but the last queries; float64 tells what is right."""
    q, k, v = torch.randn(2, 4, 70, 24), torch.randn(2, 2, 70, 24), torch.randn(2, 2, 70, 40)

    def gradients(attention, dtype):
        given = [x.to(dtype, copy=True).requires_grad_() for x in (q, k, v)]
        attention(*given).square().sum().backward()
        return [x.grad.float() for x in given]

    attention = lambda *x: nn.functional.scaled_dot_product_attention(*x, is_causal=True, enable_gqa=True)  # noqa: E731
    compiled = compile_fresh(attention, options={"device": "webgpu"})
    gradients(compiled, torch.float32)
    before = webgpu.counts("webgpu")
    torch.testing.assert_close(gradients(compiled, torch.float32), gradients(attention, torch.float64), atol=1e-5, rtol=1e-4)
    after = webgpu.counts("webgpu")
    assert after["dispatches"] > before["dispatches"] and after["host_runs"] == before["host_runs"]


def test_a_long_epilogue_is_written_out_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLOGRAM_DUMP", "wgsl")
    monkeypatch.setenv("HOLOGRAM_DUMP_DIR", str(tmp_path))
    model, x = nn.Sequential(nn.Linear(24, 40), nn.GELU()).requires_grad_(False), torch.randn(37, 24)
    got = torch.compile(model, backend="hologram", options={"device": "webgpu"})(x)
    torch.testing.assert_close(got, model(x), atol=1e-6, rtol=1e-5)
    texts = [path.read_text() for path in tmp_path.iterdir()]
    assert texts and [text.count(" epilogue(") for text in texts if "fn epilogue" in text] == [2]  # drivers inline each call


@module(first=lambda: nn.Linear(16, 24), second=lambda: nn.Linear(24, 8))
def Mixed(self, x):
    """Products, rows and, in float64, something that WGSL has no type for."""
    scores = self.second(nn.functional.gelu(self.first(x))).softmax(-1)
    return scores, scores.double().cumsum(-1) * 0.1


def test_archives_hold_kernels_as_text(tmp_path, capsys):
    model, x, path = Mixed().eval(), torch.randn(5, 16), tmp_path / "m.holo"
    report = hologram_torch.export(model, (x,), path, dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},), isas=["wgsl"])
    assert report.targets == ("webgpu wgsl",)
    texts = hologram.load(path).info()["wgsl"]["forward"]
    assert texts["kernels"] > len(texts["host"]) > 0
    assert set(texts["host"].values()) == {"f64 is no type of WGSL"}
    stored, planned = (hologram.load(path, backend="webgpu", trust=trust) for trust in (True, False))
    for rows in (5, 3):
        for got, same, wanted in zip(stored(x[:rows].numpy()), planned(x[:rows].numpy()), model(x[:rows])):
            np.testing.assert_array_equal(got, same)
            np.testing.assert_allclose(got, wanted.detach(), atol=1e-6)
    assert [a.methods["forward"]._made.function().precompiled for a in (stored, planned)] == [True, False]
    hologram.load(path).verify_code()
    assert main(["archive", "info", str(path)]) == 0
    assert f"WGSL: {texts['kernels']} kernels, {len(texts['host'])} of them left to the host: f64" in capsys.readouterr().out


def test_texts_are_added_and_damage_is_refused(tmp_path):
    path, x = tmp_path / "m.holo", np.arange(6, dtype=np.float32)
    hologram_torch.export(nn.Softmax(-1), (torch.from_numpy(x),), path, isas=())
    hologram.load(path).write_with_targets(path, ["wgsl"])
    content = path.read_bytes()
    np.testing.assert_allclose(hologram.load(path, backend="webgpu", trust=True)(x), torch.from_numpy(x).softmax(-1), atol=1e-6)
    path.write_bytes(content.replace(b"@compute", b"@Compute"))
    with pytest.raises(hologram.HologramError, match="m.holo"):
        hologram.load(path, backend="webgpu", trust=True)(x)
    with pytest.raises(NotImplementedError, match="reassociate"):
        hologram_torch.export(nn.Softmax(-1), (torch.from_numpy(x),), path, isas=["wgsl"], reproducible=True)


def arithmetic(x, y):
    """Neighbours that share words: lengths are odd, and what is stored begins within one."""
    bits = () if x.is_floating_point() else (x & y, x ^ y)
    numbers = () if x.dtype == torch.bool else (x * y, x.cumsum(0), x.sort().values, torch.maximum(x, y))
    return x + y, torch.where(x > y, x, y), x.flip(0)[1:], x[1:] == y[:-1], x.int(), torch.cat([x, y, x[:1]]), *bits, *numbers


def wide(x, y):
    n = torch.arange(x.shape[0])  # known to fit into 32 bits
    return x // y, x % y, x << (n % 64), x >> 3, x * y, x.clamp(-9, 2**40), x.float(), n * 2 - 3, x.argmax(), (x + n).amin()


STEP = 2**33 + 12345
OPERANDS = {
    "float16": (torch.arange(37) / 2 - 7).half(),  # sums of these are exact
    "bfloat16": (torch.arange(37) / 2 - 7).bfloat16(),
    "int8": torch.arange(-128, 128, 7).to(torch.int8),
    "uint8": torch.arange(0, 256, 7).to(torch.uint8),
    "int16": torch.arange(-32768, 32768, 1777).to(torch.int16),
    "int32": torch.arange(-(2**31), 2**31, 2**27 + 11).to(torch.int32),
    "bool": torch.arange(37) % 3 == 0,
    "int64": torch.arange(-9, 10) * STEP,
    "float64": torch.arange(37).double() / 2 - 7,
}


def on_webgpu(function, *arguments):
    torch._dynamo.reset()
    return torch.compile(function, backend="hologram", options={"device": "webgpu"})(*arguments)


@pytest.mark.parametrize("name", OPERANDS)
def test_each_type_has_the_hosts_values(name):
    x = OPERANDS[name]
    y = x.roll(5) | 1 if name == "int64" else x.roll(5)
    counts = lambda: runtimes.runtime("cpu", "webgpu").counts["host_runs"]  # noqa: E731
    on_webgpu(lambda x: x + 1, torch.ones(3))
    before = counts()
    for function in (arithmetic, wide) if name == "int64" else (arithmetic,):
        torch.testing.assert_close(on_webgpu(function, x, y), function(x, y), rtol=0, atol=0)
    assert (counts() > before) == (name == "float64")
    if name == "float64":
        assert "\nwebgpu: kernels run on the host: f64 is no type of WGSL" in runtimes.runtime("cpu", "webgpu").description


TOO_LARGE = {
    "of 70000 rounds of loops": lambda: (lambda x: x.sort()[0], torch.arange(70000) * 7919 % 70000),
    "maxStorageBufferBindingSize": lambda: (lambda x: x + 1, torch.arange(2**27 + 8, dtype=torch.uint8)),
}


@pytest.mark.parametrize("words", TOO_LARGE)
def test_what_exceeds_a_limit_runs_on_the_host(words):
    runtime = runtimes.runtime("cpu", "webgpu")
    if "llvmpipe" not in runtime.description:
        pytest.skip("an adapter of other limits")
    function, x = TOO_LARGE[words]()
    before = runtime.counts["host_runs"]
    assert torch.equal(on_webgpu(function, x), function(x)) and runtime.counts["host_runs"] > before
    note = next(n for n in runtime.description.splitlines() if words in n)
    assert note.startswith("webgpu: ") and note.endswith(": it runs on the host")


FAR = torch.tensor([0, 5, 1])
OUT_OF_RANGE = {
    "x[i]": lambda x: x[FAR],
    "x[-i]": lambda x: x[-FAR],
    "gather": lambda x: x.gather(0, FAR),
    "index_select": lambda x: x.index_select(0, FAR),
    "embedding": lambda x: nn.functional.embedding(FAR, x.unflatten(0, (4, 1))),
    "index_put": lambda x: torch.index_put(x, (FAR,), x[:3]),
    "scatter": lambda x: x.scatter(0, FAR, x),
    "index_add": lambda x: x.index_add(0, FAR, x[:3]),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_out_of_range_raises(name):
    said = []
    for options in ({}, {"device": "webgpu"}):
        torch._dynamo.reset()
        with pytest.raises((IndexError, RuntimeError)) as raised:
            torch.compile(OUT_OF_RANGE[name], backend="hologram", options=options)(torch.ones(4))
        said.append((raised.type, str(raised.value)))
    assert said[0] == said[1]
