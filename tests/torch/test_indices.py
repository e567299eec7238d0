# tests/torch/test_indices.py: indices out of range and negative ones, and histograms, as in eager
import math

import hologram_torch
import pytest
import torch
from harness import check, compile_fresh

X = torch.arange(12.0).reshape(4, 3)
ROW = torch.ones(1, 3)

OPERATORS = {  # that take an index along axis 0 of X
    "index": lambda x, i: x[i],
    "index_put": lambda x, i: x.clone().index_put((i,), ROW),
    "index_put_pair": lambda x, i: x.clone().index_put((i, i), ROW[0, :1]),
    "index_fill": lambda x, i: x.index_fill(0, i, 7.0),
    "take": lambda x, i: x.take(i * 3),
    "put": lambda x, i: x.put(i * 3, ROW[0, :1]),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "embedding_of_rows": lambda x, i: torch.nn.functional.embedding(i[None], x),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_copy": lambda x, i: x.index_copy(0, i, ROW),
    "index_copy_of_int32": lambda x, i: x.repeat(1 << 15, 1).index_copy(0, i.int(), ROW),  # what eager refuses, of any size
    "index_add": lambda x, i: x.index_add(0, i, ROW),
    "index_reduce": lambda x, i: x.index_reduce(0, i, ROW, "amax"),
    "index_reduce_of_other_sizes": lambda x, i: x.index_reduce(0, i, x[:3, :1], "amax"),
    "max_unpool": lambda x, i: torch.nn.functional.max_unpool2d(x[None, :1, :1], i.reshape(1, 1, 1), 2),
    "gather": lambda x, i: x.gather(0, i[:, None].expand(1, 3)),
    "gather_row": lambda x, i: x[:, 0].gather(0, i),
    "scatter": lambda x, i: x.scatter(0, i[:, None].expand(1, 3), ROW),
    "scatter_add": lambda x, i: x[:, 0].contiguous().scatter_add(0, i, ROW[0, :1]),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[:, None].expand(1, 3), ROW, "amax"),
}


def outcome(function, *inputs):
    """The result, or what was raised."""
    try:
        return function(*inputs)
    except (IndexError, RuntimeError) as error:
        return error


def test_few_rows_train_a_table_without_one_of_float32():
    rows, at = torch.randn(10, 8).bfloat16(), torch.randint(0, 7, (10,))

    def trained(rows, at):
        return torch.ops.aten.embedding_dense_backward(rows, at, 3000, 2, False)

    assert torch.equal(compile_fresh(trained)(rows, at), trained(rows.float(), at).bfloat16())
    assert int(hologram_torch.explain(trained, rows, at).graphs[0].plan["arena_bytes"]) < 3000 * 8 * 4


@pytest.mark.parametrize("function", OPERATORS.values(), ids=OPERATORS)
def test_an_index_is_right_or_refused_where_eager_refuses_it(function):
    compiled = compile_fresh(function, dynamic=False)
    for number in (0, 3, -1, -4, 4, -5, 1 << 40, -(1 << 40), 2, 1.0):
        index = torch.tensor([number])
        expected, found = outcome(function, X, index), outcome(compiled, X, index)
        assert isinstance(found, Exception) == isinstance(expected, Exception), (number, found, expected)
        if isinstance(expected, Exception):
            assert type(number) is float or isinstance(found, type(expected)), (number, found, expected)  # Dynamo's own kind
        else:
            check(found, expected)


@pytest.mark.parametrize("n", (0, 7, 5000, 1 << 14))
def test_histograms_count_as_eager_does(n):
    """Both ends belong to the range, what is beyond it and NaN to no part; rounding decides between parts as in eager."""
    x = torch.randn(n) * 2
    x[:5] = torch.tensor([math.nan, math.inf, -math.inf, -3.0, 2.7])[:n]

    def function(x):
        return x.histc(100, -3, 2.7), x.double().histc(37, -3, 2.7), x.round().histc(8, 0, 7), x.bfloat16().histc(500, -3, 2.7)

    for found, expected in zip(compile_fresh(function, dynamic=False)(x), function(x), strict=True):
        assert torch.equal(found, expected)
    assert not hologram_torch.stats()["fallback_ops"]


def test_indices_that_the_call_writes_itself_are_looked_at_each_time():
    def add(x, i):
        return x.scatter_add_(1, i, torch.full_like(i, 1 << 40))

    call = torch.compile(add, backend="hologram")
    x = (torch.arange(64)[None] + 1) % 64
    check(call(x.clone(), x), add(x.clone(), x))
    with pytest.raises((IndexError, RuntimeError)):  # eager refuses such memory
        call(x, x[:])
