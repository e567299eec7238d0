# tests/torch/test_host_strides.py: operators left to PyTorch get operands stored as tracing showed them
import os

import opinfo
import opinfo_worker
import pytest
import torch
from harness import BACKEND, compile_fresh

OPERATORS = sorted(n for n, s in opinfo.read_expected().items() if s in ("fallback", "nondet"))
DEFAULT = 10  # operators of the database in one run

seen = []


@torch.library.custom_op("hologram_tests::strides", mutates_args=())
def strides(x: torch.Tensor) -> torch.Tensor:
    seen.append(x.stride())
    return x.clone(memory_format=torch.contiguous_format)


@strides.register_fake
def _(x):
    return torch.empty(x.shape, dtype=x.dtype)


@torch.library.custom_op("hologram_tests::promised_more", mutates_args=())
def promised_more(x: torch.Tensor) -> torch.Tensor:
    return x[: x.shape[0] // 2].clone()


@promised_more.register_fake
def _(x):
    return torch.empty(x.shape, dtype=x.dtype)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_result_smaller_than_tracing_promised_is_an_error(dynamic):
    compiled = compile_fresh(lambda x: promised_more(x) + 1, dynamic=dynamic)
    with pytest.raises(RuntimeError, match="tracing promised"):
        compiled(torch.zeros(100, 50))


LAYOUTS = {
    "row-major": lambda x: x * 2,
    "transposed": lambda x: (x * 2).transpose(1, 3),
    "channels last": lambda x: (x * 2).contiguous(memory_format=torch.channels_last),
    "slice": lambda x: (x * 2)[:, ::2, 1:],
    "slice of the argument": lambda x: x[:, ::2, 1:],
    "copied slice": lambda x: x[:, ::2, 1:].contiguous(),
    "argument": lambda x: x,
    "permuted argument": lambda x: x.permute(3, 0, 2, 1),
    "repeated": lambda x: (x + 1)[:, :1].expand(-1, 5, -1, -1),
    "empty": lambda x: x[:, :0].transpose(0, 1),
    "one row": lambda x: x[:1, :1].transpose(0, 3),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_operands_have_the_strides_that_tracing_showed(name, dynamic):
    def function(x):
        return strides(LAYOUTS[name](x)) + 1

    compiled = compile_fresh(function, dynamic=dynamic)
    for shape in (2, 4, 6, 8), (3, 4, 5, 7):
        x = torch.randn(shape)
        seen.clear()
        expected, actual = function(x), compiled(x)
        torch.testing.assert_close(actual, expected)
        assert seen[0] == seen[-1]
        assert len(seen) == 2 or expected.numel() == 0  # then nothing need be called


def chosen() -> list[str]:
    wanted = os.environ.get("HOLOGRAM_OPINFO", str(DEFAULT))
    if wanted == "all":
        return OPERATORS
    return opinfo.select(OPERATORS, () if wanted.isdigit() else wanted.split(","), int(wanted) if wanted.isdigit() else 0)


def test_operators_left_to_pytorch_with_strided_operands():
    table, wrong = opinfo_worker.operators(), []
    request = {**opinfo_worker.DEFAULTS, "backend": BACKEND}
    for name in chosen():
        op = table.get(name)
        samples = list(op.sample_inputs("cpu", torch.float32)) if op else []
        checker = opinfo_worker.Checker(op, request)
        for sample in samples[:: max(1, len(samples) // 4)][:4]:
            torch.manual_seed(0)
            strided = sample.noncontiguous()
            status, message = checker.sample(op.op, ((strided.input, *strided.args), strided.kwargs), None)
            if status in opinfo.BAD:
                wrong.append(f"{name}: {status}: {message[:200]}")
    assert not wrong, "\n".join(wrong)
