# tests/torch/test_symbols.py: sizes and integers that are symbols, their signs, and what is made of them
import pytest
import torch
from harness import BACKEND, backend_stats, check, compile_fresh, graph_count

pytestmark = pytest.mark.skipif(BACKEND != "hologram", reason="tests of this backend alone")


def agree(function, *calls):
    """Runs with symbolic sizes on each call's arguments and compares with eager."""
    compiled = compile_fresh(function, dynamic=True)
    for arguments in calls:
        check(compiled(*arguments), function(*arguments))
    assert backend_stats()["failed_graphs"] == 0


def test_a_range_of_either_direction():
    def function(start, stop, step):
        return torch.arange(start, stop, step, dtype=torch.float32) * 2

    agree(function, (2, 11, 3), (3, 40, 4), (20, 2, -3), (30, 4, -5), (-9, 8, 2))


def test_negative_integers():
    x = torch.arange(24.0).reshape(8, 3)
    agree(lambda x, n: (x[n:], x + n, x.new_full((4,), n)), (x, -3), (x, -5), (x, 2), (x, 4))


def test_pieces_of_a_size_that_comes_later():
    """The size of the tensor is an expression of an integer that is a later argument."""
    agree(lambda x, n: [part * 2 for part in x.split(n)], (torch.randn(5, 5), 2), (torch.randn(7, 7), 3))


@pytest.mark.parametrize("name", ["max", "var", "prod", "argmax"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_reductions_of_everything(name, rank):
    function = getattr(torch, name)
    agree(lambda x: function(x), *[(torch.randn([n] * rank),) for n in (5, 9, 21)])


def test_a_kernel_of_the_second_size():
    """Its own numbers of the symbols differ from the graph's."""

    def function(x, weight, target):
        return torch.nn.functional.cross_entropy(weight @ x, target)

    agree(function, *[(torch.randn(n), torch.randn(m, n), torch.tensor(1)) for n, m in ((5, 7), (8, 5000), (3, 4))])


def test_the_float32_precision_is_no_guard():
    x, y = torch.randn(40, 50), torch.randn(50, 30)
    compiled = compile_fresh(lambda x, y: x @ y, dynamic=False)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("high", "medium", "high"):  # Dynamo itself guards the step from "highest"
            torch.set_float32_matmul_precision(precision)
            check(compiled(x, y), (x.double() @ y.double()).float())
    finally:
        torch.set_float32_matmul_precision(before)
    assert graph_count() == 1
