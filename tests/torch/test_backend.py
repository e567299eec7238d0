# tests/torch/test_backend.py: the backend's own behaviour: options, statistics, dtypes, regions, failures
import os
import re
from pathlib import Path

import pytest
import torch
from checks import refuses
from harness import check, compile_fresh, normal

hologram_torch = pytest.importorskip("hologram_torch")


def native(function, *inputs, fallbacks=(), **options):
    """Runs compiled and eager on clones, compares results and inputs, and checks what was left to PyTorch."""
    clones = [[t.clone() if isinstance(t, torch.Tensor) else t for t in inputs] for _ in range(2)]
    with torch.no_grad():
        expected = function(*clones[0])
        actual = compile_fresh(function, **options)(*clones[1])
    check(actual, expected)
    torch.testing.assert_close(clones[1], clones[0], equal_nan=True)
    assert set(hologram_torch.stats()["fallback_ops"]) == set(fallbacks)
    assert hologram_torch.stats()["failed_graphs"] == 0
    return actual


# --- options and statistics
def test_unknown_mode_and_options_are_refused():
    for arguments, message in (
        ({"mode": "quick"}, "mode 'quick' is none of"),
        (
            {"options": {"speed": True}},
            "option 'speed' is none of 'cache', 'cudagraphs', 'device', 'fast', 'native_products', 'pack_weights', "
            "'recompute', 'reproducible'",
        ),
        ({"options": {"fast": 3}}, "option 'fast' takes True or False, got 3"),
    ):
        refuses(Exception, message, lambda: compile_fresh(torch.sin, **arguments)(normal(3)))


@pytest.mark.parametrize("mode", [None, "default", "max-autotune", "reproducible", "fast"])
def test_modes_run(mode):
    native(lambda x: torch.softmax(x, -1), normal(4, 9), mode=mode)


def test_stats_count_graphs_kernels_and_fallbacks():
    name = "aten.igamma.default"
    native(lambda x: torch.igamma(x * 2, x) + 1, normal(7).abs(), fallbacks=[name])
    stats = hologram_torch.stats()
    assert stats["graphs"] == 1 and stats["fallback_ops"] == {name: 1}
    assert stats["kernels"] == stats["kernel_cache_hits"] + stats["kernel_cache_misses"] == 2
    assert {"trace", "canon", "schedule", "codegen", "total"} <= set(stats["compile_ms"])
    assert stats["ops_before"] >= stats["ops_canonical"] > 0
    hologram_torch.reset_stats()
    assert hologram_torch.stats()["graphs"] == 0 and hologram_torch.stats()["fallback_ops"] == {}


def test_a_fallback_is_named_once_with_its_reason_and_line(caplog):
    for _ in range(2):
        native(lambda x: torch.special.airy_ai(x), normal(5), fallbacks=["aten.special_airy_ai.default"])
    (said,) = (r.message for r in caplog.records if "aten.special_airy_ai.default" in r.message)
    assert "it has no native kernel" in said and f"{__file__}:" in said and "torch.special.airy_ai(x)" in said
    native(lambda x: torch.mode(x).values, normal(2, 3000), fallbacks=["aten.mode.default"])
    assert "its native kernel refuses rows too long to compare all pairs" in caplog.text


def test_an_older_pytorch_is_refused(monkeypatch):
    from hologram_torch import compiler

    monkeypatch.delattr(torch.Tensor, compiler.EXCHANGE)
    refuses(ImportError, r"needs PyTorch 2\.10 or later.* this is 2", compiler.check_pytorch)


def test_a_failing_compile_runs_in_pytorch_and_says_which_graph(monkeypatch, caplog):
    from hologram_torch import compiler

    def broken(*_):
        raise RuntimeError("no luck")

    monkeypatch.setattr(compiler, "Translator", broken)
    monkeypatch.setenv("HOLOGRAM_STRICT", "0")
    x = normal(3)
    torch.testing.assert_close(compile_fresh(torch.sin)(x), torch.sin(x))
    assert hologram_torch.stats()["failed_graphs"] == 1
    assert "no luck" in caplog.text and "inference_" in caplog.text and "please report" in caplog.text
    monkeypatch.setenv("HOLOGRAM_STRICT", "1")
    refuses(Exception, "no luck", lambda: compile_fresh(torch.sin)(x))


def test_dump_writes_the_stages(monkeypatch, tmp_path):
    monkeypatch.setenv("HOLOGRAM_DUMP", "graph,plan")
    monkeypatch.setenv("HOLOGRAM_DUMP_DIR", str(tmp_path))
    native(torch.sin, normal(3))
    texts = {path.name.split(".")[1]: path.read_text() for path in tmp_path.iterdir()}
    assert " = sin %0" in texts["graph"] and "step 0 kernel" in texts["plan"]


@pytest.mark.parametrize("variables, words", [
    ({"HOLOGRAM_DUMP": "graph", "HOLOGRAM_DUMP_DIR": "{}/file/below"}, "HOLOGRAM_DUMP_DIR={}/file/below: the folder cannot be made: Not a"),
    ({"HOLOGRAM_BACKEND": "gpu"}, "HOLOGRAM_BACKEND=gpu: expected one of cpu, .*interp, null"),
    ({"HOLOGRAM_BACKEND": "webgpu:9", "HOLOGRAM_WEBGPU_LIBRARY": "off"}, "not available: HOLOGRAM_WEBGPU_LIBRARY is off"),
    ({"HOLOGRAM_CPU_TERMS": "always"}, "HOLOGRAM_CPU_TERMS=always: expected measured, model or never"),
    ({"HOLOGRAM_STRICT": "perhaps"}, "HOLOGRAM_STRICT=perhaps: expected on or off"),
])  # fmt: skip
def test_settings_that_cannot_be_are_errors_and_nothing_to_report(variables, words, monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    with pytest.raises(Exception, match=re.escape(words.format(tmp_path)).replace(r"\.\*", ".*")) as raised:
        compile_fresh(torch.sin)(normal(3))
    assert "report it" not in str(raised.value) and "report it" not in caplog.text


class Bessel(torch.nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x)


def test_explain_tells_operations_kernels_and_fallbacks(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), Bessel()).eval()
    found = hologram_torch.explain(model, normal(2, 4, 8))
    text = str(found)
    assert "canonical" in text and "aten.special_airy_ai.default ×1" in text and "dot_general" in text
    for name in ("plan.svg", "plan.html"):
        found.save(os.fsencode(tmp_path / name))
        assert "<svg" in (tmp_path / name).read_text()
    refuses(ValueError, "should end in", lambda: found.save("plan.txt"))
    refuses(IndexError, "no graph 7", lambda: found.svg(7))


# --- results and arguments
# --- dtypes
def test_arguments_are_written_in_place():
    def function(x, y):
        x.add_(y)
        x[1:3].mul_(2)
        y[0] = 7
        return x.sum(), y * 2

    native(function, normal(5, 3), normal(5, 3, seed=1))
    for width in (12, 24, 40, 48, 96, 112):  # some are three, five or seven vectors, each written once
        native(lambda x, y: x.add_(y), normal(9, width), normal(width, seed=1))


def test_a_host_call_with_sizes():
    compiled = compile_fresh(lambda x: torch.topk(x * 2, x.shape[0] // 2).values, dynamic=True)
    for n in (6, 10):
        check(compiled(normal(n)), torch.topk(normal(n) * 2, n // 2).values)


def test_floats_become_integers_as_in_eager():
    x = torch.tensor([1.9, -1.9, 300.5, -300.5, 3e9, -3e9, 1e20, float("inf"), float("nan")])
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool):
        native(lambda x, dtype=dtype: x.to(dtype), x)


def test_integer_division_by_zero_raises():
    compiled = compile_fresh(lambda x, y: x // y)
    check(compiled(torch.tensor([7, -7]), torch.tensor([2, 2])), torch.tensor([3, -4]))
    refuses(RuntimeError, r"floor_divide|div.*ZeroDivisionError.*x // y", lambda: compiled(torch.tensor([7, 7]), torch.tensor([2, 0])))
    check(compiled(torch.tensor([7, -7]), torch.tensor([2, 2])), torch.tensor([3, -4]))


NAMED = {  # what a call that fails says: the index where it can be had, the operator and the line always
    "plain": (lambda x, i: x[i], r"index: index 7 is out of bounds for dimension 0 with size 5 (?=.*x\[i\])"),
    "computed": (lambda x, i: torch.nn.functional.embedding(i - 2, x[:, None]), "embedding: index -2 .* dimension 0 with size 5 "),
    "which": (lambda x, i: x[i.abs() % 5] + x[i + 1], "index: index 8 .* size 5 "),
    "written": (lambda x, i: (i.add_(1), x[i])[1], "index: index out of range in a compiled graph"),
    "random": (lambda x, i: x[torch.randint_like(i, 9, 10)] * 2, "index: index out of range in a compiled graph"),
    "sizes": (lambda x, i: x.repeat(2)[i * x.shape[0]], "index: index 35 .* size 10 "),
    "axis": (lambda x, i: x.reshape(1, 5).gather(1, i[None]), "gather: index 7 .* dimension 1 with size 5 "),
    "parts": (lambda x, i: torch.nn.functional.nll_loss(x.expand(2, 5), i), "nll_loss.*: index 7 .* dimension 1 with size 5 "),
    "constant": (lambda x, i: x[torch.full((2,), 7)] + i, "index: index 7 .* size 5 "),
    "list": (lambda x, i: x[[2, 6]] + i, "index: index 6 .* size 5 "),
    "positions": (lambda x, i: x[torch.arange(6 + i.shape[0])].sum() + i, "index: index 5 .* size 5 "),
    "writing": (lambda x, i: x.index_add(0, i, x[:2]), "index_add: index 7 .* dimension 0 with size 5 "),
}


@pytest.mark.parametrize("name", NAMED)
def test_an_index_out_of_range_is_named(name):
    function, words = NAMED[name]
    i = torch.tensor([0, 7])
    refuses((IndexError, RuntimeError), words + rf".*{Path(__file__).name}:\d+", lambda: compile_fresh(function)(normal(5), i))


def test_regions():
    @torch.compiler.nested_compile_region
    def block(x):
        return torch.relu(x) * 2

    native(lambda x: block(block(x)) + 1, normal(6))


def cache_update(cache, keys, values, position):
    cache[0].index_copy_(1, position, keys)
    cache[1].index_copy_(1, position, values)
    return cache[0] @ cache[1].transpose(-1, -2)


@pytest.mark.parametrize("update", [
    cache_update,
    lambda c, k, v, p: (cache_update(c, k, v, p), c.clone()),
    lambda c, k, v, p: (c.sum(), cache_update(c, k, v, p)),
    lambda c, k, v, p: c[1].index_copy_(1, p, c[0][:, :2] * 2),
    lambda c, k, v, p: (c.select(2, 3).index_copy_(1, p[1:], v[:2, :1]), c * 1),
    lambda c, k, v, p: (c.select(1, 2).index_copy_(2, p[1:], v[:2, :1, :1].expand(2, 8, 1)), c * 1),
])  # fmt: skip
def test_parts_of_an_argument_are_written_in_place(update):
    native(update, normal(2, 3, 8, 4), normal(3, 2, 4, seed=1), normal(3, 2, 4, seed=2), torch.tensor([5, 2]))
