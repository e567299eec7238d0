# tests/torch/test_empty.py: tensors without elements
import pytest
import torch
from harness import BACKEND


def empties(function, *shapes):
    """Values and gradients of `function`, compiled and eager, on inputs of these shapes."""
    torch.manual_seed(0)
    inputs = [torch.randn(s) for s in shapes]
    results = []
    for f in (function, torch.compile(function, backend=BACKEND)):
        torch._dynamo.reset()
        leaves = [x.clone().requires_grad_() for x in inputs]
        y = f(*leaves)
        y.sum().backward()
        results.append([y.detach(), *(x.grad for x in leaves)])
    for wanted, got in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize(("m", "k", "n"), [(0, 0, 5), (0, 3, 5), (4, 0, 5), (4, 3, 0), (1, 0, 1)])
def test_products_and_their_gradients(m, k, n):
    empties(lambda a, b: torch.bmm(a[None], b[None]), (m, k), (k, n))
    empties(lambda a, b: (a @ b).relu(), (2, m, k), (2, k, n))


@pytest.mark.parametrize("shape", [(0, 2, 4, 8), (2, 0, 4, 8), (2, 2, 0, 8), (2, 2, 4, 0)])
def test_attention_and_its_gradients(shape):
    attention = torch.nn.functional.scaled_dot_product_attention
    empties(lambda q, k, v: attention(q, k, v), shape, shape, shape)


def test_dropout_gives_them_back():
    x = torch.randn(3, 0)
    assert torch.compile(torch.dropout, backend=BACKEND)(x, 0.5, True) is torch.dropout(x, 0.5, True) is x
    empties(lambda x: torch.dropout(x, 0.5, True) * 2, (3, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_moments_of_nothing(dtype):
    """Which eager gives as a mean of 0 and a deviation that is not a number."""
    x = torch.zeros(3, 0, dtype=dtype)
    compiled = torch.compile(torch.native_layer_norm, backend=BACKEND)
    torch.testing.assert_close(compiled(x, [0], None, None, 1e-5), torch.native_layer_norm(x, [0], None, None, 1e-5), equal_nan=True)


@pytest.mark.parametrize("name", ["median", "nanmedian", "mode", "kthvalue", "amax", "argmin"])
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_orders_of_as_many_values_as_a_call_finds(name):
    torch._dynamo.reset()
    options = (1, -1) if name == "kthvalue" else (-1,)

    def find(x):
        return getattr(x[x > 0] * 2, name)(*options)

    compiled = torch.compile(find, backend=BACKEND, dynamic=True)
    for x in (torch.randn(20), torch.ones(1), torch.tensor([1.0, -1])):
        torch.testing.assert_close(compiled(x), find(x))
    for function in (find, compiled):
        with pytest.raises((IndexError, RuntimeError)):
            function(-torch.ones(3))
