# tests/torch/test_symbols.py: sizes and integers that are symbols, their signs, and what is made of them
from types import SimpleNamespace

import pytest
import sympy
import torch
from harness import BACKEND, backend_stats, check, compile_fresh, graph_count
from opinfo_direct import SymbolicGraph
from zoo import normal

from hologram_torch.graph.symbols import Symbols


def agree(function, *calls):
    """Runs with symbolic sizes on each call's arguments and compares with eager."""
    compiled = compile_fresh(function, dynamic=True)
    for arguments in calls:
        check(compiled(*arguments), function(*arguments))
    assert backend_stats()["failed_graphs"] == 0


def test_negative_integers():
    x = torch.arange(24.0).reshape(8, 3)
    agree(lambda x, n: (x[n:], x + n, x.new_full((4,), n)), (x, -3), (x, -5), (x, 2), (x, 4))


def test_pieces_of_a_size_that_comes_later():
    """The size of the tensor is an expression of an integer that is a later argument."""
    agree(lambda x, n: [part * 2 for part in x.split(n)], (torch.randn(5, 5), 2), (torch.randn(7, 7), 3))


def sized(*sizes, grad=False):
    return tuple(torch.randn(2, 3, *size, requires_grad=grad) for size in sizes)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_interpolation_by_a_fraction(mode):
    """Truncated shares of a size are no expressions of the graph: each call computes them."""

    def function(x):
        return torch.nn.functional.interpolate(x, scale_factor=(0.6, 1.7), mode=mode) + 1

    agree(function, *[(x,) for x in sized((10, 13), (17, 8), (33, 9))])
    assert (backend_stats()["graphs"], backend_stats()["fallback_ops"]) == (1, {})


def test_a_share_of_a_size_in_a_view_and_a_number():
    def function(x):
        n = int(x.shape[0] * 0.37)
        return x[:n] * n, x.new_zeros(n + 1, 2 * n)

    agree(function, *[(torch.randn(n, 3),) for n in (10, 29, 64)])
    assert graph_count() == 1


HALVES = {
    "stack": lambda x, y: torch.stack([x, y], -1) * 2, "cat": lambda x, y: torch.cat([x, y]) * 2, "add": lambda x, y: x + y,
    "where": lambda x, y: torch.where(x > 0, y, 0.0), "product": lambda x, y: x @ y.T, "copy": lambda x, y: x.clone().copy_(y),
    "norm": lambda x, y: torch.nn.functional.layer_norm(x, (y.shape[1],), y[0]), "gather": lambda x, y: x.gather(1, y.argsort(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", HALVES)
def test_halves(name):
    """Of sizes n // 2 and (n + 1) // 2, which are equal by a guard alone."""
    agree(lambda x: HALVES[name](x[:, ::2], x[:, 1::2]), *[(torch.randn(3, n),) for n in (8, 20)])
    assert backend_stats()["fallback_ops"] == {}


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding_and_its_gradients(mode, rank):
    """Of sizes known at run time, by what is cut away on some sides."""
    pad = (2, 3, 1, -1, -2, 2)[: 2 * rank]

    def function(x):
        return torch.nn.functional.pad(x, pad, mode=mode).sin()

    compiled = compile_fresh(function, dynamic=True)
    for n in (5, 8, 7):
        (x,) = sized(range(n, n + rank), grad=True)
        (expected, gradient), (actual, back) = ((y, torch.autograd.grad(y.sum(), x)[0]) for y in (function(x), compiled(x)))
        check((actual, back), (expected, gradient))
    assert backend_stats()["fallback_ops"] == {}


def test_a_size_equal_to_a_symbol_that_was_replaced_since():
    """n equals a * b by a guard, and PyTorch has replaced it by a ** 2 since: no argument gives n itself any more."""
    a, b, n = sympy.symbols("a b n", integer=True, positive=True)
    environment = SimpleNamespace(guards=[SimpleNamespace(expr=sympy.Eq(n, a * b))], replace=lambda e: e.xreplace({n: a**2}))
    symbols = Symbols(None)
    symbols.environment = environment
    symbols.known |= {a: 3, b: 3}
    assert symbols.expr(a * b) == symbols.expr(environment.replace(n)) == 9


def test_a_size_whose_bytes_do_not_fit_64_bits_is_an_error():
    compiled = compile_fresh(lambda a, n: a.expand(n) + 1, dynamic=True)
    one = torch.ones(1)
    for _ in range(2):
        assert compiled(one, 5).shape == (5,)
        for n in (2**61, 2**62, 2**63 - 1, 2**63 - 1):
            with pytest.raises(MemoryError):
                compiled(one, n)


def test_a_gradient_of_sizes_that_the_forward_graph_alone_names():
    """The gradient's middle size is rows // blocks, which guards make equal to a number that only the forward graph takes."""

    def function(x, sizes):
        return torch.view_copy(x, sizes)

    failed = backend_stats()["failed_graphs"]
    for rows, blocks, length, columns in ((25, 5, 5, 5), (12, 3, 4, 6)):
        x = normal(rows, columns).requires_grad_()
        graph = SymbolicGraph(function, ((x, (blocks, length, columns)), {}), BACKEND, True)
        graph(x, (blocks, length, columns)).mul(normal(blocks, length, columns, seed=2)).sum().backward()
        check(x.grad, normal(blocks, length, columns, seed=2).view(rows, columns))
    assert backend_stats()["failed_graphs"] == failed
