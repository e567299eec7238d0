# tests/python/test_jit_functions.py: NumPy's functions inside of hologram.jit, each against NumPy itself
import hologram
import numpy as np
import pytest

TYPES = (np.float32, np.float64, np.int64)
ANY = (*TYPES, np.bool_)
FLOATS = (np.float32, np.float64)


def arrays(dtype, *shapes):
    random = np.random.default_rng(3)
    return [np.asarray(random.integers(-9, 9, s) if dtype == np.int64 else random.standard_normal(s) * 3).astype(dtype) for s in shapes]


def leaves(value):
    return [x for part in value for x in leaves(part)] if isinstance(value, (tuple, list)) else [np.asarray(value)]


def check(function, *arguments):
    with np.errstate(all="ignore"):
        want = leaves(function(*arguments))
    got = leaves(hologram.jit(function)(*arguments))
    assert len(want) == len(got)
    for w, g in zip(want, got):
        assert (w.dtype, w.shape) == (g.dtype, g.shape)
        single = w.dtype in (np.float16, np.float32)
        np.testing.assert_allclose(g, w, rtol=2e-5 if single else 1e-12, atol=1e-5 if single else 1e-12)


SCANS = (np.maximum, np.minimum, np.add, np.multiply)
EDGES, KNOTS = np.array([-4.0, -1.0, 0.0, 0.5, 3.0]), np.linspace(-5, 5, 40)
window = np.lib.stride_tricks.sliding_window_view

# name: (function, dtypes, shapes)
CASES = {
    "roll": (lambda a: (np.roll(a, 2), np.roll(a, -1, 0), np.roll(a, (9, -4), (0, -1)), np.roll(a, 3, (0, 1))), ANY, (5, 7)),
    "roll of nothing": (lambda a: (np.roll(a, 2), np.roll(a, 1, 0)), ANY, (0, 3)),
    "pad": (lambda a: (np.pad(a, 2), np.pad(a, ((1, 0), (0, 3))), np.pad(a, 1, constant_values=1)), ANY, (4, 5)),
    "pad by itself": (lambda a: [np.pad(a, ((2, 1), (0, 3)), m) for m in ("edge", "reflect", "symmetric", "wrap")], ANY, (4, 5)),
    "repeat": (
        lambda a: (np.repeat(a, 3), np.repeat(a, 2, -1), np.tile(a, 2), np.tile(a, (2, 1, 3)), np.tile(a, 20), np.tile(a, 0)),
        ANY, (4, 5),
    ),
    "split": (lambda a: (np.split(a, 2), np.split(a, [1, 3], -1), np.array_split(a, 3, 1), np.vsplit(a, 4), np.hsplit(a, 5)), ANY, (4, 5)),
    "sums of parts of rows": (
        lambda a: (a[:, 1:39].sum(), (a[..., 2:] * 2).max(axis=(0, 2), keepdims=True), a[::2, :, 4:38].mean(), a[..., :5].min()),
        TYPES, (3, 40, 40),
    ),
    "dsplit": (lambda a: (np.dsplit(a, 2), np.array_split(a, 7)), ANY, (3, 2, 4)),
    "stacks": (lambda a: (np.vstack([a, a]), np.hstack([a, a]), np.dstack([a, a]), np.column_stack([a, a])), ANY, (6,)),
    "stacks of matrices": (lambda a: (np.vstack([a, a]), np.hstack([a, a]), np.dstack([a, a]), np.column_stack([a, a])), ANY, (4, 5)),
    "ranks": (lambda a: (np.atleast_1d(a), np.atleast_2d(a), np.atleast_3d(a), np.append(a, a), np.append(a, [[3]])), ANY, (6,)),
    "turns": (lambda a: ([np.rot90(a, k) for k in range(-1, 4)], np.flipud(a), np.fliplr(a)), ANY, (4, 5)),
    "triangles": (lambda a: [(np.triu(a, k), np.tril(a, k)) for k in (-2, 0, 1, 9)], ANY, (2, 4, 5)),
    "diagonals": (lambda a: (np.diagonal(a), np.diag(a, 2), np.diag(a, -1), np.trace(a), np.trace(a, 1)), ANY, (4, 6)),
    "diagonals of stacks": (lambda a: (np.diagonal(a, 1, -1, 0), np.trace(a, 0, 1, 2)), ANY, (4, 3, 5)),
    "diagonal matrix": (lambda a: np.diag(a), ANY, (6,)),
    "meshgrid": (lambda a, b: (np.meshgrid(a, b), np.meshgrid(a, b, b, indexing="ij"), np.meshgrid(b, a, sparse=True)), ANY, (4,), (5,)),
    "block": (lambda a: (np.block([[a, a], [a, a]]), np.block([a[0], a[1]]), np.block([[a[0]], [a[1]]])), ANY, (4, 5)),
    "vander": (lambda a: (np.vander(a), np.vander(a, 3, increasing=True)), TYPES, (4,)),
    "dot": (lambda a, b: (a @ b, np.inner(a, b), a**2 @ b), TYPES, (9,), (9,)),
    "accumulate": (lambda a: [u.accumulate(a, axis=x) for u in SCANS for x in (0, -1)], TYPES, (5, 7)),
    "outer": (lambda a, b: (np.add.outer(a, b), np.maximum.outer(a, b[0]), np.less.outer(a[0], b)), TYPES, (2, 3), (4, 5)),
    "windows": (lambda a: (window(a, 3, axis=1), window(a, (2, 3)).sum((-1, -2)), window(a, 4, axis=-2).max(-1)), TYPES, (6, 7)),
    "diff": (lambda a: (np.diff(a), np.diff(a, 2, 0), np.diff(a, 0), np.diff(a, prepend=a[:, :1], append=a[:, -2:])), ANY, (5, 7)),
    "gradient": (lambda a: (np.gradient(a), np.gradient(a, 0.5, axis=-1), np.gradient(a, 2.0, 3.0)), TYPES, (5, 7)),
    "gradient over places": (lambda a, x: np.gradient(a, np.cumsum(np.abs(x) + 1)), TYPES, (9,), (9,)),
    "trapezoid": (lambda a: (np.trapezoid(a), np.trapezoid(a, dx=0.5, axis=0)), TYPES, (5, 7)),
    "trapezoid over places": (lambda a, x: np.trapezoid(a, x), TYPES, (5, 7), (7,)),
    "polyval": (lambda a: (np.polyval([1, -2, 3], a), np.polyval(EDGES, a), np.polyval(a[:1], a)), TYPES, (9,)),
    "convolve": (lambda a, v: [np.convolve(a, v, m) for m in ("full", "same", "valid")], TYPES, (20,), (4,)),
    "convolve turned": (lambda a, v: [np.convolve(v, a, m) for m in ("full", "same", "valid")], TYPES, (20,), (5,)),
    "correlate": (lambda a, v: [np.correlate(a, v, m) for m in ("full", "same", "valid")], TYPES, (20,), (4,)),
    "ptp": (lambda a: (np.ptp(a), np.ptp(a, axis=-1), np.ptp(a, 0, keepdims=True)), TYPES, (5, 7)),
    "average": (
        lambda a: (np.average(a), np.average(a, 0), np.average(a, axis=1, weights=np.arange(7)), np.average(a, 0, returned=True)),
        TYPES, (5, 7),
    ),
    "average by weights": (lambda a, w: np.average(a, weights=w * w + 1, axis=1, returned=True), TYPES, (5, 7), (5, 7)),
    "cov": (lambda a: (np.cov(a), np.cov(a, rowvar=False, bias=True), np.cov(a, ddof=0), np.cov(a[0]), np.cov(a[0], a[1])), TYPES, (5, 7)),
    "corrcoef": (lambda a: (np.corrcoef(a), np.corrcoef(a[0], a[1]), np.corrcoef(a, rowvar=False)), TYPES, (5, 7)),
    "searchsorted": (lambda a, v: [np.searchsorted(np.sort(a), v, side=s) for s in ("left", "right")], TYPES, (90,), (4, 30)),
    "searchsorted in few": (lambda a: (np.searchsorted(EDGES, a), np.searchsorted(EDGES, a, "right")), TYPES, (90,)),
    "digitize": (
        lambda a: (np.digitize(a, EDGES), np.digitize(a, EDGES[::-1]), np.digitize(a, KNOTS, True), np.digitize(a, KNOTS[::-1], True)),
        TYPES, (90,),
    ),
    "interp": (lambda a: (np.interp(a, KNOTS, KNOTS**2), np.interp(a, EDGES, EDGES**2, left=-7, right=np.nan)), TYPES, (90,)),
    "histogram": (lambda a: (np.histogram(a, EDGES), np.histogram(a, KNOTS, density=True)), TYPES, (900,)),
    "histogram in a range": (lambda a: np.histogram(a, 12, (-2, 3)), (np.float64, np.int64), (900,)),
    "select": (
        lambda a: (np.select([a < 0, a < 1], [a, a * 2]), np.select([a < 0], [a], 7), np.select([a < 0, a > 1], [a, 2], a + 1)),
        TYPES, (9,),
    ),
    "heaviside": (lambda a: np.heaviside(a, 0.5), FLOATS, (5, 7)),
    "take_along_axis": (lambda a: [np.take_along_axis(a, np.argsort(a, axis=x, kind="stable"), axis=x) for x in (0, -1)], ANY, (5, 7)),
    "isclose": (lambda a, b: (np.isclose(a, a + b * 1e-7), np.isclose(a, b), np.allclose(a, a), np.array_equal(a, b)), TYPES, (9,), (9,)),
    "tensordot": (
        lambda a, b: (np.tensordot(a, b, ([1, 0], [0, -2])), np.tensordot(a, b, 0), np.tensordot(a[0].T, b, 1)),
        TYPES, (3, 4, 5), (4, 3, 2),
    ),
    "kron": (lambda a, b: (np.kron(a, b), np.kron(a[0], b)), TYPES, (3, 4), (2, 5)),
    "cross": (lambda a, b: (np.cross(a, b), np.cross(a, b[0]), np.cross(a.T, b.T, axis=0)), TYPES, (6, 3), (6, 3)),
    "norm": (
        lambda a: (np.linalg.norm(a), np.linalg.norm(a, axis=-1), np.linalg.norm(a, 1, 0), np.linalg.norm(a, np.inf, 1, keepdims=True)),
        TYPES, (6, 3),
    ),
    "nan functions": (
        lambda a: (np.nansum(a, 0), np.nanmean(a), np.nanmax(a, -1), np.nanmin(a), np.nanvar(a, 1), np.nanstd(a)),
        FLOATS, (6, 7),
    ),
}
EINSUMS = (
    "ij,jk->ik ij,kj->ik ij,ij-> ij,ij->i ij,jk ij->ji ij->j ij-> ij,kl->ijkl ij,jk,kl->il ij,j->i ii->i ii ij,ij->ij iij,jk->ik"
).split()


@pytest.mark.parametrize("name, dtype", [(name, dtype) for name, (_, dtypes, *_) in CASES.items() for dtype in dtypes])
def test_agrees_with_numpy(name, dtype):
    function, _, *shapes = CASES[name]
    check(function, *arrays(dtype, *shapes))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("text", EINSUMS)
def test_einsum(text, dtype):
    operands = arrays(dtype, *[(4,) * len(term) for term in text.split("->")[0].split(",")])
    check(lambda *a: np.einsum(text, *a), *operands)


def test_einsum_of_batches():
    check(lambda a, b: np.einsum("bij,bkj->bik", a, b), *arrays(np.float64, (3, 4, 5), (3, 2, 5)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_that_are_not_finite(dtype):
    x = np.array([np.nan, -np.inf, -4, -0.0, 0.5, 3, np.inf, np.nan], dtype)
    line = np.array([-1, 2, 3, np.nan], dtype)
    check(lambda x: (np.nan_to_num(x), np.nan_to_num(x, nan=1.5, posinf=2, neginf=-3)), x)
    check(lambda x: (np.isclose(x, x), np.isclose(x, x, equal_nan=True)), x)
    check(lambda x: (np.searchsorted(line, x), np.searchsorted(line, x, "right"), np.digitize(x, EDGES)), x)
    check(lambda x: (np.interp(x, EDGES, EDGES), np.interp(x, EDGES, [-np.inf, 1, 2, np.inf, np.inf])), x)
    check(lambda x: (np.heaviside(x, 0.5), np.histogram(x, EDGES)[0], np.diff(x), np.array_equal(x, x)), x)
    check(lambda x: (np.nanmax(x), np.nanmin(x[1:2])), x)
    check(lambda x: np.nanmax(x, axis=1), np.stack([x, x + 1]))


def test_sizes_stay_open():
    functions = {
        "roll": lambda x: np.roll(x, 3), "pad": lambda x: np.pad(x, 2, "reflect"), "gradient": lambda x: np.gradient(x),
        "convolve": lambda x: np.convolve(x, EDGES, "same"), "interp": lambda x: np.interp(x, KNOTS, KNOTS),
        "split": lambda x: np.split(x, 2)[1], "cov": lambda x: np.cov(x, x * x),
    }  # fmt: skip
    for name, function in functions.items():
        jitted = hologram.jit(function)
        for n in (40, 100, 1002):
            x = np.random.default_rng(n).standard_normal(n)
            np.testing.assert_allclose(jitted(x), function(x), rtol=1e-12, atol=1e-12)
        assert len(jitted.reports()) == 1, name


def test_errors_are_numpys():
    x = np.arange(7.0)
    for error, function in (
        (ValueError, lambda a: np.split(a, 2)),
        (ValueError, lambda a: np.gradient(a[:1])),
        (ValueError, lambda a: np.digitize(a, np.array([1.0, 3.0, 2.0]))),
        (ValueError, lambda a: np.interp(a, KNOTS, KNOTS[1:])),
        (ValueError, lambda a: window(a, 9)),
        (ValueError, lambda a: np.tensordot(a, a[1:], 1)),
        (ValueError, lambda a: np.einsum("ij->i", a)),
        (np.exceptions.AxisError, lambda a: np.roll(a, 1, 2)),
    ):
        for call in (function, hologram.jit(function)):
            with pytest.raises(error):
                call(x)


TABLE = np.array([4.0, 5.0, 7.0, 9.0])

MADE = {
    "filled": lambda x: (np.zeros(x.shape[0]), np.ones((2, x.shape[0]), np.int8), np.full(3, x[0]), np.full(x.shape, 2)),
    "filled later": lambda x: np.empty(x.shape, np.float32) * 0,
    "lines": lambda x: (np.arange(x.shape[0]), np.arange(1, x.shape[0] + 1), np.arange(x.shape[0] - 2, dtype=float)),
    "lines by steps": lambda x: (np.arange(0, x.shape[0], 3), np.arange(1, 2 * x.shape[0], 2)),
    "spans": lambda x: (np.linspace(0, 1, x.shape[0]), np.linspace(-2, x.shape[0] - 1, 2 * x.shape[0])),
    "spans without end": lambda x: np.linspace(0, 1, x.shape[0], endpoint=False),
    "squares": lambda x: (np.eye(x.shape[0]), np.identity(x.shape[0]), np.eye(x.shape[0], 3, k=-1, dtype=np.float32)),
    "rows": lambda x: (np.array([x.sum(), x.max(), 0.5]), np.array([[x[0], 2], [3, x[1]]]), np.array([x, x]), np.asarray(x)),
    "tables": lambda x: (TABLE[(x > 0) + 2 * (x > 1)], np.eye(2)[(x > 0).astype(int)], np.concatenate([[0.0], TABLE])[np.argsort(x) % 3]),
    "grids": lambda x: (np.mgrid[: x.shape[0], 1:5:2], np.ogrid[:3, : x.shape[0]], np.mgrid[: x.shape[0]] * x, np.mgrid[0:1:5j] * x[0]),
    "functions of places": lambda x: np.fromfunction(lambda i, j: i * 2 + j * x, (3, x.shape[0])),
    "joined": lambda x: (np.r_[0, x[1:], 0:3], np.c_[x, x * 2], np.r_[0 : x.shape[0], x], np.c_[np.ones(x.size), x], np.r_[[1, x[0]], x]),
    "lists": lambda x: (np.mean([x, -x], axis=0), np.maximum.reduce([x, x * 2]), np.sqrt([x * x, x**2]), np.linalg.norm([x, x], axis=0)),
    "products of all elements": lambda x: (np.vdot(x, x), np.vdot(np.outer(x, x), x[:, None] - x)),
    "sizes as ints": lambda x: (x * np.hanning(x.shape[0]), np.fft.fftfreq(x.shape[0], 0.1) * x, np.indices((2, x.shape[0]))),
}


@pytest.mark.parametrize("name", MADE)
def test_arrays_that_the_function_makes(name):
    jitted = hologram.jit(MADE[name])
    for n in (9, 30):
        x = np.random.default_rng(n).standard_normal(n)
        for w, g in zip(leaves(MADE[name](x)), leaves(jitted(x)), strict=True):
            assert (w.dtype, w.shape, type(w)) == (g.dtype, g.shape, type(g))
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)
    assert name not in ("filled", "lines", "squares") or len(jitted.reports()) == 1, name


def test_tables_are_read_anew():
    lookup, at = hologram.jit(lambda k: TABLE[k] * 2), np.array([1, 3, 0])
    np.testing.assert_array_equal(lookup(at), TABLE[at] * 2)
    before = TABLE[1]
    try:
        TABLE[1] = -3.0
        np.testing.assert_array_equal(lookup(at), TABLE[at] * 2)
    finally:
        TABLE[1] = before


def in_order(x):
    """The sum down each column: 64 partials a block of 4,096 rows, halved; then the tree over three blocks."""
    blocks = []
    for first in range(0, len(x), 4096):
        parts = np.zeros((64, x.shape[1]), x.dtype)
        for row in range(first, min(first + 4096, len(x)), 64):
            some = x[row : row + 64]
            parts[: len(some)] += some
        while len(parts) > 1:
            parts = parts[: len(parts) // 2] + parts[len(parts) // 2 :]
        blocks.append(parts[0])
    return blocks[0] + blocks[1] + blocks[2]


def test_sums_down_blocks_of_columns_keep_their_order():
    x = np.random.default_rng(0).random((8200, 1100), np.float32)
    np.testing.assert_array_equal(hologram.jit(lambda x: x.sum(0))(x), in_order(x))
