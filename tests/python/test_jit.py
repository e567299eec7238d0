# tests/python/test_jit.py: hologram.jit gives NumPy's results, with few kernels and few compilations
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import hologram
import numpy as np
import pytest
from checks import python, refuses, same
from hologram._jit import Jitted
from hologram.trace import TraceError
from hypothesis import given, settings
from hypothesis import strategies as st

rng = np.random.default_rng(0)
X = rng.standard_normal((5, 7)).astype(np.float32)
Y = rng.standard_normal((7, 3)).astype(np.float32)
V = rng.standard_normal(7).astype(np.float32)
I = rng.integers(-9, 9, (5, 7)).astype(np.int32)
B = X > 0
TIES = np.where(np.isin(np.arange(35).reshape(5, 7), (2, 3, 9)), np.float32(np.nan), np.round(X))
strided = np.lib.stride_tricks.as_strided
NUMPY_1 = int(np.__version__.split(".")[0]) < 2  # hologram.jit promotes as NumPy 2 with every NumPy


def check(function, *arguments, rtol=2e-5, jitted=None):
    with np.errstate(all="ignore"):
        want = function(*arguments)
    got = (jitted or hologram.jit(function))(*arguments)
    assert type(got) is type(want) or np.ndim(want) == 0
    for w, g in zip(want if isinstance(want, tuple) else [want], got if isinstance(got, tuple) else [got]):
        w, g = np.asarray(w), np.asarray(g)
        assert w.shape == g.shape and (w.dtype == g.dtype or (NUMPY_1 and not (w.shape and g.shape)))
        if w.dtype.kind == "V":  # bfloat16, which NumPy 1 cannot compare
            w, g = w.astype(np.float32), g.astype(np.float32)
        np.testing.assert_allclose(g, w, rtol=1e-3 if w.dtype == np.float16 else rtol, atol=1e-6)


CASES = {
    "dense": (lambda x, y: np.tanh(x @ y).sum(axis=-1), X, Y), "broadcast": (lambda x, v: x * 2 + v - 1.5, X, V),
    "float": (lambda x, a: x * a, X, 2.5), "mean": (lambda x: (x.mean(0), x.mean(), np.mean(x, dtype=np.float64)), X),
    "mean of ints": (lambda i: i.mean(axis=1), I), "mean of halves": (lambda x: x.mean(), X.astype(np.float16)),
    "std": (lambda x: (x.std(axis=1, keepdims=True), np.var(x, ddof=1)), X),
    "sum of ints": (lambda i: (i.sum(), i.astype(np.int8).sum(0)), I), "sum of bools": (lambda b: b.sum(axis=0), B),
    "floor": (lambda i: i // 3 + i % 4, I), "negative floor": (lambda i: (i // -4, i % -4), I),
    "floor of floats": (lambda x: (x // 0.3, x % 0.3), X), "ints to floats": (lambda i: np.exp(i) + i / 2, I),
    "int powers": (lambda i: i**3, I), "powers": (lambda x: np.abs(x) ** 0.5 + x**2 + 2**x, X),
    "where": (lambda x: np.where(x > 0, x, 0.0), X), "clip": (lambda x: np.clip(x, -1, 1), X),
    "slices": (lambda x: (x[1:, ::2], x[-1], x[:, None, 2:5], x[::-1], x[..., -3:], x[10:]), X),
    "take": (lambda x: (x[[0, 2]], np.take(x, np.array([[0, -1]]), axis=1)), X), "indices": (lambda x, i: x[i], X, np.array([4, 0, -1])),
    "reshape": (lambda x: (x.reshape(-1), x.reshape(7, 5), x.ravel()[:, None]), X), "transpose": (lambda x: x.T @ x, X),
    "vectors": (lambda x, v: (x @ v, v @ v, np.dot(v, v), np.outer(v, v)), X, V),
    "batches": (lambda a, y: a @ y, rng.standard_normal((2, 4, 5, 7)).astype(np.float32), Y), "int product": (lambda i: i @ i.T, I),
    "extrema": (lambda x: (x.max(1), x.argmin(1), x.min(), x[0, 0].argmax(), x[0, 0].sum(0)), X),
    "sizes": (lambda x: x / x.shape[0] + x.size, X), "join": (lambda x: (np.concatenate([x, x * 2], axis=1), np.stack([x, x + 1])), X),
    "scan": (lambda x: np.cumsum(x, 1), X), "truth": (lambda x: ((x > 0).any(1), (x > -9).all(), np.logical_not(x > 0) | np.isnan(x)), X),
    "truth of nothing": (lambda x: (x[:0].any(), x[:, :0].all(1)), X), "mixed": (lambda x, i: np.maximum(x, i), X, I),
    "hypot": (lambda x: np.hypot(x, 3) + np.sign(x) + np.logaddexp(x, x), X), "constants": (lambda x: x + V, X),
    "accumulate": (lambda x, i: (np.add.accumulate(x, 1), np.maximum.accumulate(x), np.minimum.accumulate(i, axis=-1)), X, I),
    "accumulate products": (lambda i: (np.multiply.accumulate(i), np.add.accumulate(i > 0)), I),
    "reduce": (lambda x, i: (np.add.reduce(x), np.maximum.reduce(x, 1), np.add.reduce(i, None), np.logical_or.reduce(i > 2)), X, I),
    "outer": (lambda x, v: (np.subtract.outer(x, v), np.maximum.outer(v, 1.5), np.add.outer(v[0], v)), X, V),
    "scalars": (lambda x: x + np.float32(2) * np.int8(3), X), "identity": (lambda x: x, X),
    "moves": (lambda x: (np.expand_dims(x, 1), np.squeeze(x[None], 0), np.swapaxes(x, 0, 1), np.moveaxis(x, 0, 1)), X),
    "like": (lambda x: np.zeros_like(x) + np.ones_like(x) * np.full_like(x, 3), X),
    "bits": (lambda i: (i & 3) | (i ^ 5) + (i << 2) - (i >> 1) + ~i, I),
    "unary": (lambda x: np.sqrt(np.square(x)) + np.cbrt(x) + np.floor(x) - np.ceil(x) + np.rint(x) - np.trunc(x), X),
    "trigonometry": (lambda x: np.sin(x) + np.cos(x) * np.arctan2(x, 2) + np.arcsinh(x) + np.expm1(x), X),
    "powers by roots": (lambda x: (x**1.5, x**-1.5, x**-3.0), np.array([0, -0.0, 1, 2, 3.7, np.inf, -np.inf, np.nan, -2, 1e-9, 1e9])),
    "places of extremes": (lambda x: (x.argmax(1), np.argmin(x, axis=-1, keepdims=True), x.argmax(0), np.argmax(x)), TIES),
    "places of extreme ints": (lambda x: (x.argmax(1), np.argmin(x, axis=-1, keepdims=True), x.argmin(0)), I.astype(np.uint64) % 4),
    "round": (lambda x, i: (np.round(x, 2), np.round(i), i.astype(np.int8).round(-1)), X.astype(np.float64), I * 7),
    "f64": (lambda x: np.log1p(np.abs(x)).sum(), X.astype(np.float64)), "f16": (lambda x: np.exp(x) * 2, X.astype(np.float16)),
    "where=": (lambda x, b: (x.sum(where=b), x.mean(1, where=b), x.max(0, initial=-9, where=b), (x > 1).any(1, where=b)), X, B),
    "where= of variance": (lambda x, b: (x.var(where=b, ddof=1), x.std(axis=0, where=b | (x < -1))), np.abs(X), B),
    "initial": (lambda x: (x.sum(initial=2), x.prod(1, initial=3), x.min(0, initial=-0.5)), X),
    "selection": (lambda x, b: (x[b].sum(), x[b].mean(), x[b].max(), x[b].min(), x[b].std(), (x[b] > 1).any()), X, B),
    "selection of ints": (lambda i: (i[i > 2].sum(), i[i > 2].max(), i[i > 2].prod(), np.count_nonzero(i[i > -3])), I),
    "arithmetic of selections": (lambda x, i: (np.exp(x[x > 0] * 2) - x[x > 0]).sum() / x[x > 0].size, X, I),
    "nothing selected": (lambda x: x[x > 99].sum(), X), "sort": (lambda x: (np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None)), X),
    "argsort": (lambda i: (np.argsort(i, kind="stable"), i.argsort(0, kind="stable")), I),
    "sort with NaN": (lambda x: (np.sort(x), np.argsort(x, kind="stable")), np.where(B, X, np.float32(np.nan))),
    "sort of one dimension": (lambda v: v[np.argsort(v)], V),
    "median": (lambda x, i: (np.median(x), np.median(x, axis=0), np.median(i, axis=1, keepdims=True)), X, I),
    "median with NaN": (lambda x: (np.median(x, axis=1), np.median(x)), np.where(X > -0.7, X, np.float32(np.nan))),
    "layer norm": (lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5), X),
}  # fmt: skip


@pytest.mark.parametrize("function", [lambda x: x * x.T, lambda x: (np.unique(x).sum(), x.T * x)[1]])
def test_arrays_with_operations_of_their_own_are_numpys(function):
    x, jitted = X[:5, :5], hologram.jit(function)
    np.testing.assert_array_equal(jitted(x), function(x))
    for own in (np.ma.masked_array(x, x > 0), np.asmatrix(x)):
        got, want = jitted(own), function(own)
        assert type(got) is type(want) and np.ma.allclose(got, want)
        np.testing.assert_array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(want))


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_numpy(name):
    check(*CASES[name])


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_one_kernel_and_one_graph_for_all_sizes():
    jitted = hologram.jit(softmax)
    for shape in ((4, 9), (30, 100), (5, 2), (1000, 3)):
        check(softmax, rng.standard_normal(shape).astype(np.float32), jitted=jitted)
    (report,) = jitted.reports()
    assert report["kernels"] == 1 and "1 graphs" in repr(jitted)
    check(softmax, rng.standard_normal((7, 7)).astype(np.float32), jitted=jitted)  # equal sizes fit as well
    assert len(jitted.reports()) == 1
    check(softmax, rng.standard_normal((4, 1)).astype(np.float32), jitted=jitted)
    check(softmax, rng.standard_normal((4, 9)), jitted=jitted)
    assert len(jitted.reports()) == 3 and "loop" in jitted.dump("atlas")[0].lower()


def test_graphs_that_were_used_longest_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr("hologram._jit._MOST_GRAPHS", 3)
    monkeypatch.setattr("hologram._jit._MOST_IN_ALL", 5)
    x, traced = np.arange(4.0), []

    @hologram.jit
    def scaled(n, arrays):
        traced.append(n)
        return sum(arrays.values() if isinstance(arrays, dict) else [arrays]) * n

    def traces(*calls):
        traced.clear()
        for n, arrays in calls:
            np.testing.assert_array_equal(scaled(n, arrays), x * n)
        return list(traced)

    assert traces((2, x), (3, x), (4, x), (2, x), (5, x)) == [2, 3, 4, 5]
    assert traces((2, x), (4, x), (5, x)) == [] and traces((3, x)) == [3]  # 3 was used longest ago
    assert len(scaled.reports()) == 3

    def named(name):  # with a nesting of its own
        return 2, {name: x}

    assert traces(named("a"), named("b"), named("a"), named("c")) == [2, 2, 2]
    assert len(scaled.reports()) == 5
    assert traces(named("a"), named("c"), (3, x)) == [] and traces(named("b")) == [2]
    for i in range(12):
        assert traces(named(f"n{i}")) == [2]
    assert len(scaled.reports()) == 5 and len(scaled._graphs) <= 5

    def wrong(x):
        return undefined  # noqa: F821

    failing = hologram.jit(wrong)
    refuses(NameError, None, lambda: failing({"a": x}))
    assert not failing._graphs


def test_sizes_that_the_function_looks_at():
    @hologram.jit
    def halves(x):
        if x.shape[0] > 10:
            return x * 2
        return -x[: x.shape[0] // 2]

    for n in (4, 9, 11, 500, 10, 7):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(halves(x), x * 2 if n > 10 else -x[: n // 2])
    assert len(halves.reports()) == 2

    @hologram.jit
    def unrolled(x):
        total = 0
        for i in range(x.shape[0]):
            total = total + x[i] * i
        return total

    for n in (3, 4, 3):
        x = rng.standard_normal((n, 6)).astype(np.float32)
        np.testing.assert_allclose(unrolled(x), sum(x[i] * i for i in range(n)), rtol=1e-5)
    assert len(unrolled.reports()) == 2


def test_equal_sizes_that_part():
    add = hologram.jit(lambda a, b: a.sum() + b.sum())
    ones = np.ones
    assert add(ones(4), ones(4)) == 8
    assert add(ones(4), ones(5)) == 9  # another graph
    broadcast = hologram.jit(lambda a, b: a + b)
    np.testing.assert_array_equal(broadcast(ones((3, 4)), ones(4)), 2 * ones((3, 4)))
    refuses(ValueError, "broadcast", lambda: broadcast(ones((3, 4)), ones(3)))
    np.testing.assert_array_equal(broadcast(ones((3, 4)), ones(1)), 2 * ones((3, 4)))


def test_arguments_that_are_part_of_the_program():
    @hologram.jit
    def f(x, axis, mode="sum", *, scale=1.0):
        return getattr(x, mode)(axis=axis) * scale

    np.testing.assert_allclose(f(X, 0), X.sum(0), rtol=1e-5)
    np.testing.assert_allclose(f(X, 1), X.sum(1), rtol=1e-5)
    np.testing.assert_allclose(f(X, 1, mode="max", scale=3.0), X.max(1) * 3, rtol=1e-5)
    np.testing.assert_allclose(f(X, 1, mode="max", scale=4.0), X.max(1) * 4, rtol=1e-5)
    assert len(f.reports()) == 3  # a float is no part of the program


def test_numpy_scalars_are_arguments():
    scale = hologram.jit(lambda x, s: x * s)
    for value in (np.float32(2), np.float32("nan"), np.float32(3)):
        np.testing.assert_array_equal(scale(V, value), V * value)
    assert len(scale.reports()) == 1
    assert scale(V, np.float64(2)).dtype == np.float64


def test_bfloat16():
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    check(lambda x: np.exp(x) * 2 + 1, X.astype(bf16), rtol=2e-2)
    assert hologram.jit(lambda x, y: x + y)(X.astype(bf16), X).dtype == np.float32


def test_nested_arguments_and_results():
    @hologram.jit
    def f(weights, pair):
        a, b = pair
        return {"sum": a + b, "scaled": [weights["w"] * a, 3, None]}

    out = f({"w": V}, (V, V * 2))
    np.testing.assert_allclose(out["sum"], V * 3, rtol=1e-6)
    np.testing.assert_array_equal(out["scaled"][0], V * V)
    assert out["scaled"][1:] == [3, None]


def test_views_and_layouts():
    double = hologram.jit(lambda x: x * 2)
    for x in (X[:, ::2], X.T, X[::-1], np.broadcast_to(V, (3, 7))):
        np.testing.assert_array_equal(double(x), x * 2)
    odd = np.zeros(29, np.uint8)[1:].view(np.float32)
    np.testing.assert_array_equal(double(odd), odd)
    for x in (np.zeros((0, 3), np.float32), np.float32(3) * np.ones(()), np.ones(1)):
        check(lambda x: x * 2, np.asarray(x))


def test_buffers_and_out():
    executor = hologram.Executor()
    a, c = executor.from_numpy(V), executor.allocate(7)
    double = hologram.jit(lambda x: x * 2)
    np.testing.assert_array_equal(double(a), V * 2)
    assert double(a, out=c) is not None
    np.testing.assert_array_equal(c.to_numpy(), V * 2)
    out = np.empty_like(X)
    assert double(X, out=out) is out
    np.testing.assert_array_equal(out, X * 2)
    for wrong in (np.empty(3, np.float32), np.empty_like(X, dtype=np.float64), X.T, [1]):
        refuses((ValueError, TypeError), "out", lambda: double(X, out=wrong))
    row = np.arange(20.0)
    for part in (row[:10], row[3:13], row[10:]):  # over the operand, and as NumPy does it where they meet in part
        want = row.copy()
        part_of_want = want[(part.ctypes.data - row.ctypes.data) // 8 :][:10]
        part_of_want[:] = want[:10][::-1] * 2 + want[:10].sum()
        turned = hologram.jit(lambda x: x[::-1] * 2 + x.sum())
        assert turned(row[:10], out=part) is part
        np.testing.assert_array_equal(row, want)
    a.free()
    refuses(hologram.HologramError, None, lambda: double(a))


def test_sorts_of_rows_of_any_length_share_a_graph():
    def order(x):
        return np.sort(x, axis=1), np.argsort(x, axis=1, kind="stable")

    jitted = hologram.jit(order)
    for shape in ((3, 100), (40, 17), (2, 100_000)):
        x = rng.integers(0, 30, shape).astype(np.float32)
        x[0, 3], x[-1, 7] = np.nan, -np.inf
        check(order, x, jitted=jitted)
    assert len(jitted.reports()) == 1


WRONG = [
    (TraceError, "not known", lambda x: x if x.sum() > 0 else -x, [V]),
    (TraceError, "not known", lambda x: float(x[0]), [V]),
    (TraceError, "not known", lambda x: x[x > 0] if x[x > 0] else 0, [V]),
    (ValueError, "broadcast", lambda x: x[x > 0] + x, [np.float32([1, -2, 3])]),
    (ValueError, "initial", lambda x: np.max(x, where=x > 0), [V]),
    (ZeroDivisionError, "by zero", lambda a, b: a // b, [np.array([1, 2]), np.array([1, 0])]),
    (IndexError, "ind", lambda x, i: x[i], [V, np.array([70, 1])]),
    (IndexError, "ind", lambda x: x[9], [V]),
    (IndexError, "boolean index did not match", lambda x, m: x[m].sum(), [V, np.array([True, False])]),
]


@pytest.mark.parametrize("error, words, function, arguments", WRONG)
def test_errors(error, words, function, arguments):
    refuses(error, words, lambda: hologram.jit(function)(*arguments))


def test_methods_and_decorators():
    class Model:
        scale = 3

        @hologram.jit(reproducible=True)
        def call(self, x):
            """Scaled."""
            return x * self.scale

    np.testing.assert_array_equal(Model().call(V), V * 3)
    assert Model.call.__doc__ == "Scaled."


def test_results_stay_apart():
    f = hologram.jit(lambda x: x + 1)
    large = np.zeros(100_000, np.float32)
    first, second = f(large), f(first_input := large + 1)
    assert first[0] == 1 and second[0] == 2 and first.ctypes.data != second.ctypes.data
    assert first_input[0] == 1 and first.flags.writeable


BINARY = [np.add, np.subtract, np.multiply, np.true_divide, np.maximum, np.minimum, np.less, np.equal]
TYPES = ["bool", "uint8", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64"]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(BINARY), st.sampled_from(TYPES), st.sampled_from(TYPES), st.integers(0, 2**31))
def test_promotion(ufunc, left, right, seed):
    values = np.random.default_rng(seed).integers(1, 9, (2, 6))
    a, b = values[0].astype(left), values[1].astype(right)
    try:
        want = ufunc(a, b)
    except TypeError:
        refuses(TypeError, None, lambda: hologram.jit(lambda x, y: ufunc(x, y))(a, b))
        return
    got = hologram.jit(lambda x, y: ufunc(x, y))(a, b)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-3)


_PYTHON = dict(less="lt", less_equal="le", greater="gt", greater_equal="ge", equal="eq", not_equal="ne")


@pytest.mark.parametrize("ufunc", [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal])
def test_signed_and_unsigned_words_compare_exactly(ufunc):
    a = np.array([-1, 0, 2, 2**62, -(2**63), 2**62 + 1])
    b = np.array([2**64 - 1, 0, 3, 2**62, 2**63, 2**62], np.uint64)
    for x, y in ((a, b), (b, a)):
        got = hologram.jit(lambda x, y: ufunc(x, y))(x, y)
        true = [getattr(int(p), f"__{_PYTHON[ufunc.__name__]}__")(int(q)) for p, q in zip(x, y)]
        assert got.tolist() == true


def test_jit_is_the_function_whatever_was_imported_before():
    for first in ("hologram.special", "hologram._generic", "hologram.tensor", "hologram.trace", "hologram.ops"):
        code = f"import {first}, hologram; assert hologram.jit(lambda x: x).__class__.__name__ == 'Jitted'"
        python("-c", code)


def test_short_runs_beside_a_line_of_open_length():
    def runs(x):
        return np.repeat(x, 3), np.column_stack([x, x**2]), np.dstack([x, -x, x + 1]), np.stack([x] * 4, axis=-1)

    jitted = hologram.jit(runs)
    for n in (5, 64, 4096 + 21):
        same(jitted(np.arange(n) * 0.5), runs(np.arange(n) * 0.5))
    assert len(jitted.reports()) == 1
    assert all(f"axis i1 parallel [{n}]" in "".join(jitted.dump()) for n in (2, 3, 4))


def test_matrices_times_vectors_of_open_sizes():
    jitted = hologram.jit(lambda a, v, w: (a @ v, w @ a, a.T @ a))
    for m, n in ((7, 5), (3, 385), (70, 900), (900, 3), (33, 16)):
        a, v, w = rng.standard_normal((m, n)), rng.standard_normal(n), rng.standard_normal(m)
        check(lambda a, v, w: (a @ v, w @ a, a.T @ a), a, v, w, rtol=1e-9, jitted=jitted)
    assert len(jitted.reports()) == 1
    for product in (lambda a, v: a @ (v / 3), lambda a, v: (v / 3) @ a):  # the vector is computed once, not by each unit
        scaled, a = hologram.jit(product), rng.standard_normal((20, 20))
        check(product, a, a[0], rtol=1e-9, jitted=scaled)
        (program,) = [text for text in scaled.dump() if "product batch" in text or "reduce_sum" in text]
        assert "div" not in program and len(scaled.dump()) == 2


def test_results_whose_size_no_number_holds_are_refused():
    """The bytes of this one are 2^64 + 2^16: they must not be counted modulo 2^64."""

    @hologram.jit
    def outer(a, b, c):
        return a.reshape(-1, 1, 1) + b.reshape(1, -1, 1) + c.reshape(1, 1, -1)

    def ones(n):
        return np.ones(n, np.int8)

    assert outer(ones(2), ones(3), ones(4)).shape == (2, 3, 4)
    refuses(ValueError, "not for these sizes", lambda: outer(ones(65537 << 8), ones(193 << 8), ones(22253377)))
    assert outer(ones(3), ones(3), ones(2)).sum() == 54


# --- what NumPy computes as a step of the plan

STEPPED = {
    "svd": (lambda x: np.linalg.svd(x.T @ x + np.eye(7, dtype=np.float32))[1] * 2, X),
    "named results": (lambda x: np.linalg.eigh(x.T @ x).eigenvalues + 1, X.astype(np.float64)),
    "a chain": (lambda x: np.linalg.solve(x @ x.T + 9, np.fft.fft(x * 2).real).sum() + np.linalg.norm(x), X.astype(np.float64)),
    "kept values": (lambda x: (lambda y: (y + 1) * np.linalg.det(y @ y.T) - y[:, :1])(np.tanh(x)), X),
    "unique": (lambda i: np.unique(i * 2) + 1, I),
    "nonzero": (lambda x: np.nonzero(x > 0), X),
    "mask": (lambda x: (x[x > 0] * 2, np.sort(x[x > 0])[:2], x[x > 0] + x[x > 0].mean()), X),
    "methods": (lambda x: (x.diagonal(), x.trace(), x.repeat(2, axis=1), x.nonzero()), X),
    "sizes of computed values": (lambda x: np.linalg.norm(np.diff(x[1:] * 2, axis=0)) * x[2:].sum(axis=0), X),
    "complex": (lambda x: (lambda z: (z * np.conj(z), np.abs(z) + 1, z.real, z[1:].imag, z.T @ z, z.sum(0), -z))(x * (1 + 2j)), X),
    "complex argument": (lambda z: (z + 1, np.exp(1j * np.angle(z)), z.reshape(7, -1), z.astype(np.complex64)), X * (2 - 1j)),
    "python results": (lambda x: (np.allclose(x, x), np.array_equal(x, -x), np.linalg.matrix_rank(x)), X),
    "constants": (lambda x: np.interp(x, np.arange(3.0), V[:3]) * V, X),
    "a size as an argument": (lambda x: np.roll(x, x.shape[0] // 2) * x.shape[0], X),
    "ufunc methods": (lambda x: (np.add.accumulate(x), np.multiply.outer(x, x), np.add.reduceat(x, [0, 2]), np.hypot.reduce(x)), X),
    "apart from the lowerings": (lambda x: (np.median(x, axis=(0, 1)), np.dot(x[None], x.T[None]), x.sum(dtype=complex)), X),
    "strides": (lambda x: (strided(x[0] * 2, (len(x) - 1, 2), (x.itemsize, 8)), strided(x, (2, 3), x.strides[::-1])), X),
    "joined by words": (lambda x: (np.r_["0", x, x], np.r_["0,3", x[0], x[1]], np.c_["1", x[0], x[0]], np.r_["-1", x, x]), X),
    "lists": (lambda x: ((x + 1).tolist(), x.sum().tolist() + x[0].mean().item() * x.item(1)), X),
    "functions of Python": (lambda x: np.vectorize(lambda t: 1.0 if t > 0 else t)(x) * x.view(np.int32), X),
    "words": (lambda i: np.array_split(i * 2, 3)[1] + np.bincount(np.abs(i).ravel())[0], I),
}


@pytest.mark.parametrize("name", STEPPED)
def test_numpy_computes_what_has_no_lowering(name):
    function, *arguments = STEPPED[name]
    jitted = hologram.jit(function)
    for sizes in (slice(None), slice(None), slice(0, 4)):  # as traced, once more, and other sizes
        check(function, *[a[sizes] for a in arguments], jitted=jitted)


def test_results_that_are_views_are_numpys():
    x = np.random.default_rng(0).standard_normal((6, 5))
    views = hologram.jit(lambda x: (x[::-1, 1:], x.T, np.sort(x)[:, ::-1][:, :2], -x, x[1:] + 1, np.rot90(x)[None], x))
    for _ in range(3):
        got = views(x)
        same(got, (x[::-1, 1:], x.T, np.sort(x)[:, ::-1][:, :2], -x, x[1:] + 1, np.rot90(x)[None], x))
        assert [np.may_share_memory(g, x) for g in got] == [True, True, False, False, False, True, False]
    assert views.stats()["fallback_ops"] == {"numpy.sort": 3}
    written = hologram.jit(lambda x: (x[1:], x.__setitem__(0, 1.0))[0])  # what is written is no view that NumPy may take
    np.testing.assert_array_equal(written(x.copy()), x[1:])


def test_what_numpy_does_alone_is_called_as_it_is():
    calls = []

    def most(x):
        calls.append(type(x))
        return np.unique(x[x > 0])

    jitted, x = hologram.jit(most), np.array([1.0, -1, 2, 1])
    for _ in range(4):
        np.testing.assert_array_equal(jitted(x), [1, 2])
    assert calls[1:] == [np.ndarray] * 3 and jitted.stats()["fallback_ops"] == {"ndarray.__getitem__": 4, "numpy.unique": 4}
    assert jitted(np.array([[3, 2], [2, -1]])).tolist() == [2, 3]  # of another dtype: traced anew


def test_arrays_that_a_step_alone_has_are_written_in_place():
    def counted(x, at):
        out = np.exp(x) * 0
        np.add.at(out, at, 1.0)
        np.add.at(out, at[:1], 1.0)
        kept = np.exp(x) * 0
        new = kept + 0
        np.add.at(new, at, 2.0)
        return out, kept, new

    x, at = np.arange(5.0), np.array([1, 1, 3])
    jitted = hologram.jit(counted)
    for _ in range(3):
        same(jitted(x, at), counted(x, at))


def test_results_whose_size_depends_on_values_go_on_as_another_trace():
    function = hologram.jit(lambda x: (lambda u: (u * 2, u.shape[0] > 2 and np.fft.fft(u)[0].real))(np.unique(np.abs(x))))
    for x in ([1, -1, 2], [1, 2, 3], [3, 3, 3], [], [1, 2, 3, 4, 5], [9, 8, 9]):
        x = np.array(x, float)
        got, total = function(x)
        want = np.unique(np.abs(x))
        assert got.tolist() == (want * 2).tolist() and total == (len(want) > 2 and want.sum())
    assert function.stats()["fallback_ops"]["numpy.unique"] == 6
    assert {"numpy.unique", "numpy.fft.fft", "ndarray.__getitem__", "ndarray.real"} == set(function.stats()["fallback_ops"])
    assert hologram.jit(lambda x: x + 1).stats() == {"fallback_ops": {}}


def test_generators_advance_as_numpy_advances_them():
    def walk(rng, n, x):
        steps = rng.normal(size=n) * x
        chosen = rng.choice(steps, 3)
        if rng.integers(5, size=x.shape[0]).shape[0] > 3:
            chosen = chosen + rng.random()
        return steps.cumsum(), chosen

    jitted, ours, theirs = hologram.jit(walk), np.random.default_rng(1), np.random.default_rng(1)
    for n, size in ((4, 1), (4, 1), (5, 1), (4, 4), (3, 3), (4, 4)):
        got, want = jitted(ours, n, np.ones(size)), walk(theirs, n, np.ones(size))
        same(got, want, rtol=1e-7)
    assert ours.bit_generator.state == theirs.bit_generator.state
    again = [jitted(np.random.default_rng(1), 4, np.ones(1))[0].tolist() for _ in range(2)]
    assert again[0] == again[1]
    assert jitted.stats()["fallback_ops"]["Generator.normal"] == 8


def test_values_as_python_has_them_are_returned_alone():
    jitted = hologram.jit(lambda x: ((x * 2).tobytes(), x[:1].tolist(), np.array2string(x.sum())))
    for x in (np.arange(4.0), np.arange(3.0)):
        assert jitted(x) == ((x * 2).tobytes(), [0.0], np.array2string(x.sum()))
    for use in (sum, len, lambda values: values[0], lambda values: values == [1], lambda values: values.index(0), np.array):
        with pytest.raises(TraceError, match="the list that is made of an array .* can be returned"):
            hologram.jit(lambda x, use=use: use(x.tolist()))(np.arange(3.0))
    with pytest.raises(TraceError, match="take the strides from it"):
        hologram.jit(lambda x: np.lib.stride_tricks.as_strided(x + 1, (2,), (8,)))(np.ones((2, 3)))


def test_values_between_steps_are_freed_when_nothing_reads_them():
    def squared(x):
        z = x + 1j
        for _ in range(12):
            z = np.fft.ifft(z * 0.5 + z)
        return z

    jitted, x = hologram.jit(squared), np.ones(50_000)
    jitted(x)
    tracemalloc.start()
    jitted(x)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * 16 * x.size
    assert jitted(x, **{}).shape == x.shape
    counted = hologram.jit(lambda x: np.abs(x + 1j) + np.exp(np.abs(x + 1j)))
    counted(x)
    assert counted.stats()["fallback_ops"] == {"numpy.add": 1, "numpy.absolute": 1}


def test_another_number_of_arguments_is_another_program():
    jitted = hologram.jit(lambda x, times=2: np.unique(x) * times)
    x = np.array([1.0, 3, 1])
    for _ in range(2):
        assert jitted(x).tolist() == [2, 6] and jitted(x, 3).tolist() == [3, 9] and jitted(x, times=4).tolist() == [4, 12]
    assert jitted.stats()["fallback_ops"] == {"numpy.unique": 6}


def test_errors_of_numpy_are_raised_as_they_are():
    inverse = hologram.jit(lambda x: np.linalg.inv(x * 1))
    assert inverse(np.eye(2)).tolist() == np.eye(2).tolist()
    for wrong, error in ((np.ones((2, 2)), np.linalg.LinAlgError), (np.ones(3), np.linalg.LinAlgError)):
        refuses(error, None, lambda: inverse(wrong))
    out = np.empty((2, 2))
    assert inverse(np.eye(2) * 2, out=out) is out and out[0, 0] == 0.5
    refuses(ValueError, "out must be", lambda: inverse(np.eye(2), out=np.empty(3)))


def test_jitted_functions_within_others_are_part_of_them():
    inverse = hologram.jit(lambda x: np.linalg.inv(x) + 1)
    both = hologram.jit(lambda x: inverse(x * 2) @ x)
    x = np.eye(3) + 1
    np.testing.assert_allclose(both(x), (np.linalg.inv(x * 2) + 1) @ x)
    assert not inverse.reports() and both.stats()["fallback_ops"] == {"numpy.linalg.inv": 1}


def views_of(x):
    return np.rot90(x), np.rot90(x, 3), np.flipud(x), np.flip(x, 1), np.moveaxis(x, 0, 1), np.rot90(x, 2)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "float64"])
def test_what_numpy_makes_anew_in_each_call_is_made_once(dtype):
    """Views by indexing, numbers and lists as arrays: then the traced function is not called again."""
    calls = []

    def program(x, use):
        calls.append(use)
        return {
            "views": lambda: views_of(x),
            "minus": lambda: (200 - x, x[..., ::-1]),
            "half": lambda: (x * 0.5, x.T),
            "above": lambda: (np.nonzero(x > 1)[0], np.argwhere(x > 3)),
            "large": lambda: (x == 2**40, x[::-1]),
            "sums": lambda: (np.add.reduceat(x, [0, 1]), np.maximum.reduceat(x, [0, 1, 0])),
        }[use]()

    random = np.random.default_rng(3)
    for use in ("views", "minus", "half", "above", "large", "sums"):
        jitted = hologram.jit(program)
        for shape in ((9, 7), (9, 7), (5, 5), (7, 300), (2, 3), (1, 4), (0, 3), (200, 300)):
            if use == "sums" and shape[0] < 2:
                continue
            x = (random.standard_normal(shape) * 5).astype(dtype)
            for given in (x, np.asfortranarray(x), x[::-1]):
                for got, want in zip(jitted(given, use), program(given, use)):
                    np.testing.assert_array_equal(got, want)
                    assert got.dtype == want.dtype
        x = np.ones((9, 7), dtype)
        jitted(x, use)
        if use in ("views", "sums") or (use, dtype) in (("minus", "int32"), ("half", "float32")):
            before = len(calls)
            assert [v.tolist() for v in jitted(x, use)] and len(calls) == before, f"{use}: the function was called"


def test_where_booleans_are_first_true_and_others_are_one_loop():
    def first(x):
        above = x > 1.5
        return np.argmax(above), np.argmin(above), np.any(above), np.all(above)

    jitted = hologram.jit(first)
    for x in (np.arange(300.0) / 100, np.zeros(40), np.ones(5) * 2, np.full((3, 4), 2.0), np.arange(12.0).reshape(3, 4)):
        got, want = jitted(x), first(x)
        assert got == want and [type(g) for g in got] == [type(w) for w in want]
        check(lambda x: (np.argmax(x > 1, axis=-1), np.argmin(x > 1, keepdims=True)), x)
    jitted = hologram.jit(lambda x: (np.argmax(x > 1.5), np.any(x > 1.5), np.all(x > 1.5)))
    assert jitted(np.arange(300.0)) == (2, True, False)
    assert sum("f64 read [s0]" in kernel for kernel in jitted.dump()) == 1


def test_numbers_beyond_integers_compare_and_do_nothing_else():
    x = np.arange(-3, 90, dtype=np.int8)
    for number in (200, -200, 127, -128):
        for f in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
            check(lambda x: (f(x, number), f(number, x)), x)
    refuses(OverflowError, "Python integer 200 out of bounds for int8", lambda: hologram.jit(lambda x: x + 200)(x))


def test_kernels_made_quickly_are_exchanged_while_calls_go_on():
    def f(x, y):
        return np.tanh(x @ y * share).sum(axis=-1) * number

    number = int(np.random.default_rng().integers(1 << 40))  # kernels that nobody has made, but for that which packs y
    share = number / (1 << 40)
    quick = Jitted(f, False, False, quickly=True)
    with ThreadPoolExecutor(3) as threads:
        want = quick(X, Y)
        (report,) = quick.reports()
        assert report["memory_hits"] < report["kernels"] and quick.unfinished
        calls = [threads.submit(lambda: [quick(X, Y) for _ in range(300)]) for _ in range(2)]
        quick.finish()
        for results in calls:
            assert all(np.array_equal(want, got) for got in results.result())
    good = hologram.jit(f)
    assert np.array_equal(good(X, Y), want) and not quick.unfinished
    assert good.reports()[0]["memory_hits"] == report["kernels"]  # of finish(); what was made quickly would not do
