# tests/torch/test_same_memory.py: the oracle of same_memory.py sees what backends do wrong
import pytest
import same_memory
import torch


def function(x):
    a = x * 2
    return a, x.cos(), a[1:3], x.t()


def own(t):
    return torch.empty_like(t).copy_(t)


def write(x):
    torch.autograd.graph.increment_version(x)
    return x


WRONG = {
    "result 2: memory of: result 2": lambda x, a, b, c, d: (a, b, own(c), d),
    "result 2: offset: 0": lambda x, a, b, c, d: (a, b, a[:2], d),
    "result 2: size": lambda x, a, b, c, d: (a, b, c[1:], d),
    "result 2: versions that move with its own: ['result 2']": lambda x, a, b, c, d: (a, b, c.data, d),
    "result 0: as it is written, these change: {'result 1'": lambda x, a, b, c, d: (a, a.detach().view_as(a), c, d),
    "result 0: as it is written, these change": lambda x, a, b, c, d: (a, torch.from_dlpack(a.detach()), c, d),
    "result 1: is: argument 0": lambda x, a, b, c, d: (a, x, c, d),
    "result 1: strides: (1, 4)": lambda x, a, b, c, d: (a, b.t().contiguous().t(), c, d),
    "result 1: type": lambda x, a, b, c, d: (a, b.double(), c, d),
    "result 1: requires_grad, grad_fn, leaf": lambda x, a, b, c, d: (a, b.detach(), c, d),
    "result 3: memory of: result 3": lambda x, a, b, c, d: (a, b, c, d.contiguous().t().contiguous().t()),
    "argument 0: written: True": lambda x, a, b, c, d: (a, b, c, d, write(x))[:4],
}


@pytest.mark.parametrize("what", WRONG)
def test_what_a_backend_does_wrong_is_seen(what):
    def backend(graph, examples):
        return lambda x: WRONG[what](x, *graph(x))

    torch._dynamo.reset()
    watched = same_memory.Watched(backend, 1)
    torch.compile(function, backend=watched)(torch.randn(4, 4, requires_grad=True))
    assert any(line.startswith(what) for line in watched.found), watched.found


@pytest.mark.parametrize("gradients", [False, True])
def test_what_is_as_in_eager_is_left_as_it_is(gradients):
    x = torch.randn(4, 4, requires_grad=gradients)
    torch._dynamo.reset()
    watched = same_memory.Watched(lambda graph, examples: graph, 1)
    results = torch.compile(function, backend=watched)(x)
    assert watched.calls == 1 and not watched.found
    for actual, expected in zip((x, *results), (x, *function(x)), strict=True):
        assert torch.equal(actual, expected) and actual._version == 0


def test_overlaps():
    x = torch.zeros(4, 4)
    assert same_memory.overlaps([x, x[1:], x[0], torch.zeros(2), x[:2].numpy()]) == [(0, 1), (0, 2), (0, 4), (1, 4), (2, 4)]
