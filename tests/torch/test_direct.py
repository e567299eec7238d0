# tests/torch/test_direct.py: graphs that are called without AOTAutograd's wrapper, and those that need it
import pytest
import torch
from harness import check, normal
from hologram import _core

hologram_torch = pytest.importorskip("hologram_torch")

from hologram_torch import holders  # noqa: E402


def compiled(function, *inputs, **options):
    """→ (the compiled function after a checked call, whether its one graph is called directly)"""
    from hologram_torch.backend import hologram

    graphs = []

    def backend(graph, arguments):
        graphs.append(hologram(graph, arguments))
        return graphs[-1]

    torch._dynamo.reset()
    call = torch.compile(function, backend=backend, **options)
    clones = [[t.clone() if isinstance(t, torch.Tensor) else t for t in inputs] for _ in range(2)]
    check(call(*clones[0]), function(*clones[1]))
    check(*([t for t in c if isinstance(t, torch.Tensor)] for c in clones))
    assert len(graphs) == 1
    return call, graphs[0]._torchdynamo_orig_callable.__qualname__ == "TorchCall.direct"


X = normal(4, 6)


def views(x):
    y = x * 2
    return y, y.t()


@pytest.mark.parametrize("grad", [False, True])
def test_plain_graphs_are_called_directly(grad):
    layer = torch.nn.Linear(6, 3).requires_grad_(False)
    with torch.set_grad_enabled(grad):
        for function in (lambda x: x + 1, lambda x: (x * 2, x.sum(0), x), lambda x: (x * 2).t(), views, layer):
            _, direct = compiled(function, X)
            assert direct
        call, direct = compiled(lambda x, n: x[:n] * n, X, 3, dynamic=True)
        assert direct
        check(call(X, 2), X[:2] * 2)
        assert not call(X, 2).requires_grad


def test_parameters_that_want_gradients_may_be_used_without():
    layer = torch.nn.Linear(6, 3)
    with torch.no_grad():
        call, direct = compiled(layer, X)
        assert direct
        layer.weight.mul_(2)
        check(call(X), layer(X))
        assert not call(X).requires_grad
    assert call(X).requires_grad  # another graph, with gradients


@torch.no_grad()
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.t(),  # a view of an argument
        lambda x: torch.special.airy_ai(x),  # runs in PyTorch
    ],
)
def test_graphs_that_need_the_wrapper_keep_it(function):
    _, direct = compiled(function, X)
    assert not direct


@torch.no_grad()
@pytest.mark.parametrize("known", [True, False])
def test_writes_move_versions(known, request):
    request.addfinalizer(holders.watch)
    if not known:
        _core.forget_tensor_words()  # Python moves them
    layer = torch.nn.Linear(6, 4)
    first, _ = compiled(layer, X)
    call, direct = compiled(lambda w, x: w.mul_(2) @ x, layer.weight, X[0])
    assert direct
    before, x = layer.weight._version, X[0].clone()
    wanted = (layer.weight * 2) @ x
    check(call(layer.weight, x), wanted)
    assert (layer.weight._version, x._version) == (before + 1, 0)
    check(first(X), layer(X))  # its packed weight was made before


def test_training_keeps_the_wrapper():
    x = X.clone().requires_grad_()
    _, direct = compiled(lambda x: (x * 2).sum(), x)
    assert not direct
