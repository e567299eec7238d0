# tests/torch/test_random_graphs.py: interpreter == every instruction set == PyTorch, on random graphs
import hologram
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from random_graphs import graphs, run, runtime


def instruction_sets():
    found = []
    for isa in ("sse42", "avx2", "avx512"):
        try:
            runtime("cpu", isa)
            found.append(isa)
        except RuntimeError:
            pass  # this machine lacks it
    return found


def assert_same_bits(actual, expected, what):
    """Equal bits, NaNs apart: their payloads and signs are not promised."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if actual.dtype.is_floating_point:
        integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[actual.element_size()]
        same = (actual.view(integer) == expected.view(integer)) | (actual.isnan() & expected.isnan())
    else:
        same = actual == expected
    if not bool(same.all()):
        where = (~same).nonzero()[0].tolist()
        raise AssertionError(f"{what}: element {where} is {actual[tuple(where)]!r}, expected {expected[tuple(where)]!r}")


def assert_close(pair, actual, expected):
    """Exact operations give the values expected; sums and transcendental functions come close to them."""
    if not pair.rough or not expected.dtype.is_floating_point:
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
        return
    both = expected.isfinite() & actual.isfinite()  # an overflow may come one rounding earlier
    rtol = {torch.float32: 1e-4, torch.float64: 1e-8}.get(expected.dtype, 5e-2)
    scale = expected[both].abs().max().item() if both.any() else 0.0
    torch.testing.assert_close(actual[both], expected[both], rtol=rtol, atol=rtol * max(scale, 1e-30))


ordinary = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@ordinary
@given(graphs())
def test_interpreter_equals_every_instruction_set(case):
    graph, inputs, outputs = case
    expected = run(runtime("interp"), graph, inputs, len(outputs))
    for isa in instruction_sets():
        for i, (got, want) in enumerate(zip(run(runtime("cpu", isa), graph, inputs, len(outputs)), expected)):
            assert_same_bits(got, want, f"output {i} on {isa}")


@ordinary
@given(graphs(special=False))
def test_native_code_equals_pytorch(case):
    graph, inputs, outputs = case
    for pair, got in zip(outputs, run(runtime("cpu"), graph, inputs, len(outputs))):
        assert_close(pair, got, pair.tensor)


@pytest.mark.skipif(hologram.device_count("webgpu") == 0, reason="no adapter: install mesa-vulkan-drivers")
@settings(ordinary, max_examples=12)
@given(graphs(special=False))
def test_webgpu_equals_the_interpreter(case):
    graph, inputs, outputs = case
    expected = run(runtime("interp"), graph, inputs, len(outputs))
    got = run(runtime("webgpu"), graph, inputs, len(outputs), host_operands=True)
    for pair, value, wanted in zip(outputs, got, expected):
        assert_close(pair, value, wanted)
