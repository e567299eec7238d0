# tests/torch/test_library.py: torch.ops.hologram.* are proper operators of PyTorch
import hologram_torch.library
import pytest
import torch

REFERENCE = dict(
    add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, relu=torch.relu, sigmoid=torch.sigmoid, tanh=torch.tanh,
    gelu=torch.nn.functional.gelu, softmax=torch.softmax,
)  # fmt: skip


def arguments(name, **options):
    x = torch.randn(3, 4, **options)
    if name in ("add", "sub", "mul", "div"):
        return (x, (torch.randn(4) + 4).to(x.dtype).requires_grad_(x.requires_grad))
    return (x, -1) if name == "softmax" else (x,)


@pytest.mark.parametrize("name", hologram_torch.library.OPERATORS)
def test_operator(name):
    operator = getattr(torch.ops.hologram, name)
    given = arguments(name, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(operator(*given), REFERENCE[name](*given))
    assert torch.autograd.gradcheck(operator, given)
    assert torch.autograd.gradgradcheck(operator, given)
    axes = tuple(0 if isinstance(v, torch.Tensor) and v.dim() > 1 else None for v in given)
    torch.testing.assert_close(torch.func.vmap(operator, axes)(*given), torch.func.vmap(REFERENCE[name], axes)(*given))
    torch.library.opcheck(operator, given)
