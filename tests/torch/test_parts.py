# tests/torch/test_parts.py: operators that are written as others: values, ties, NaN and strides as eager's
import math

import pytest
import torch
import torch.nn.functional as F
from checks import refuses
from harness import backend_stats, check, compile_fresh, gradients, normal

import hologram_torch
from hologram_torch import counters

decomp = pytest.importorskip("hologram_torch.capture.decomp")

DTYPES = (torch.float32, torch.bfloat16)
LAST = torch.channels_last


def same(name, *args, **options):
    """What an operator is written as gives what the operator gives."""
    operator = getattr(torch.ops.aten, name).default
    actual, expected = decomp.table()[operator](*args, **options), operator(*args, **options)
    assert actual is not NotImplemented
    for a, e in zip(*((x if isinstance(x, tuple) else (x,)) for x in (actual, expected)), strict=True):
        if e is None:  # not asked for
            assert a is None
            continue
        assert (a.shape, a.dtype, a.stride()) == (e.shape, e.dtype, e.stride())
        bound = 3e-2 if e.dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(a, e, equal_nan=True, rtol=bound, atol=bound)


def stays(name, *args, **options):
    assert decomp.table()[getattr(torch.ops.aten, name).default](*args, **options) is NotImplemented


def native(function, inputs, **options):
    """Compiled, it gives what eager gives, and nothing is left to PyTorch."""
    with torch.no_grad():
        actual, expected = compile_fresh(function, **options)(*inputs), function(*inputs)
    check(actual, expected)
    assert backend_stats()["fallback_ops"] == {}


def trained(function, inputs):
    """So do the gradients."""
    check(gradients(compile_fresh(function, dynamic=False), inputs), gradients(function, inputs), strides=False)
    assert backend_stats()["fallback_ops"] == {}


@pytest.mark.parametrize("dtype", DTYPES)
def test_adaptive_maxima_of_uneven_windows(dtype):
    x = normal(2, 3, 13, 10, dtype=dtype)
    x[1] = x[1].round()  # ties
    x[0, 0, 3, 3] = x[0, 0, 3, 5] = x[0, 1, 4, 0] = float("nan")
    for size in ([5, 4], [17, 4], [1, 3]):
        same("adaptive_max_pool2d", x, size)
    [same("adaptive_max_pool2d", of, [5, 4]) for of in (x[0], x.contiguous(memory_format=LAST))]
    same("adaptive_max_pool3d", normal(2, 3, 9, 7, 5, dtype=dtype).round(), [4, 3, 2])
    stays("adaptive_max_pool2d", normal(1, 200, 7), [2, 7])  # even windows
    stays("adaptive_max_pool2d", normal(1, 201, 7), [2, 7])  # long ones


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_gradients_of_distances(p):
    x, y = normal(2, 6, 5), normal(2, 7, 5, seed=1)
    y[0, 2], y[1, 2, 3] = x[0, 1], x[1, 1, 3]  # a distance of 0, and a difference
    distance = torch.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist")
    same("_cdist_backward", normal(2, 6, 7), x, y, p, distance)
    for rows in (torch.cat([x[0], x[0, :1]]), x[0, :1], x[0, :, :0]):
        apart = torch.pdist(rows, p)
        for name, args in (("_pdist_forward", (rows, p)), ("_pdist_backward", (normal(*apart.shape), rows, p, apart))):
            (stays if p in (0, 1, 2, math.inf) else same)(name, *args)


@pytest.mark.parametrize("padding, align", [(0, True), (0, False), (1, False), (2, True), (2, False)])
def test_volumes_read_at_points_and_their_gradients(padding, align):
    for mode in (0, 1):
        volume, grid = normal(2, 3, 5, 1, 4), normal(2, 4, 3, 2, 3, seed=2)
        volume[0, 0, 0, 0, 0] = volume[1, 1, 0, 0, 0] = math.inf  # which points outside do not read
        grid[0, 0, 0, 0, mode], grid[0, 1, 0, 0, mode], grid[1, 0, 0, 0, 1 - mode] = math.nan, math.inf, -math.inf
        same("grid_sampler_3d", volume, grid, mode, padding, align)
        [same("grid_sampler_2d", volume[..., 0, :], grid[:, 0, ..., :2], way, padding, align) for way in (mode, 2)]
        for wanted in ([False, True], [True, True]):
            same("grid_sampler_3d_backward", normal(2, 3, 4, 3, 2), volume, grid, mode, padding, align, wanted)
    stays("grid_sampler_3d", normal(2, 3, 5, 4, 3), normal(2, 3, 3, 3, 3), 2, padding, align)  # cubic
    stays("grid_sampler_3d_backward", normal(2, 3, 3, 3, 3), normal(2, 3, 5, 4, 3), normal(2, 3, 3, 3, 3), 2, padding, align, [True, True])


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (3, 9, 8), (2, 3, 9, 8, 7), (3, 9, 8, 7)])
def test_gradients_of_maxima(shape):
    """Of adaptive and of large windows, and maxima of windows at drawn places."""
    rank = 3 if shape[-1] == 7 else 2
    x, aten = normal(*shape).mul(4).round(), torch.ops.aten
    y, places = getattr(aten, f"adaptive_max_pool{rank}d").default(x, [4, 3, 2][:rank])
    same(f"adaptive_max_pool{rank}d_backward", normal(*y.shape), x, places)
    window = [[7], [1], [3], [1], False]
    y, places = getattr(aten, f"max_pool{rank}d_with_indices").default(x, *window)
    same(f"max_pool{rank}d_with_indices_backward", normal(*y.shape), x, *window, places)
    stays(f"max_pool{rank}d_with_indices_backward", normal(*y.shape), x, [2], *window[1:], places)
    drawn = [2, 3, 4][:rank], [5, 1, 2][:rank], normal(shape[0] if len(shape) == rank + 2 else 1, 3, rank).abs() % 1
    y, places = getattr(aten, f"fractional_max_pool{rank}d").default(x, *drawn)
    same(f"fractional_max_pool{rank}d", x, *drawn)
    if len(shape) == 5:
        same("fractional_max_pool3d", x[:0], *drawn[:2], drawn[2][:0])
    same(f"fractional_max_pool{rank}d_backward", normal(*y.shape), x, *drawn[:2], places)


@pytest.mark.parametrize("image, size", [((13, 10), (5, 4)), ((13, 10), (20, 7)), ((37, 37), (16, 16)), ((5, 5), (1, 2))])
def test_antialiased_resizing(image, size):
    x = normal(2, 3, *image)
    x[0, 0, 2, 3] = float("inf")
    for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        for align in (False, True):
            same(name, x, size, align)
            same(name, x.contiguous(memory_format=LAST), size, align)
            same(name, x.double(), size, align)
        same(name, x, [int(n * f) for n, f in zip(image, (1.3, 0.7))], False, 1.3, 0.7)
        stays(name, normal(1, 1, 200, 8), (3, 8), False)  # windows too long
        stays(name, x, size, False, 9.0, 9.0)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_polygamma(n):
    x = torch.cat([10 * normal(200), torch.tensor([0.0, -0.0, -1, -2, 0.5, 1e-3, 1e10, torch.inf, -torch.inf, torch.nan])])
    for value in (x, x.double(), torch.arange(1, 5)):
        same("polygamma", n, value)
    same("polygamma", n, x.bfloat16() if n < 3 else x[x > 0].bfloat16())  # eager sums others in bfloat16
    stays("polygamma", 9, x)
    if n == 1:
        trained(torch.digamma, (0.5 + normal(300).abs(),))


def test_compiled_parts_are_native():
    native(lambda x: (F.adaptive_max_pool2d(x, (5, 4), return_indices=True), F.adaptive_max_pool1d(x[0], 3)), (normal(2, 3, 13, 10),))
    native(lambda x: F.interpolate(x, (16, 9), mode="bicubic", antialias=True), (normal(1, 5, 21, 14),))
    trained(lambda x: F.pad(F.adaptive_avg_pool2d(x, (6, 5)), (1, 2, 1, 0), mode="replicate"), (normal(2, 3, 13, 10),))
    image, volume = normal(2, 3, 7, 9), normal(2, 3, 4, 7, 35)
    for mode in ("circular", "reflect", "replicate", "constant"):
        for x, pad in ((image.contiguous(memory_format=LAST), (1, 2, 3, 0)), (volume, (1, 2, 3, 0, 1, 1)), (volume, (2, 1, 0, 2, 3, 2))):
            native(lambda x: F.pad(x, pad, mode=mode), (x,), dynamic=False)
            assert backend_stats()["kernels"] == 1
        trained(lambda x: F.pad(x, (1, 2, 3, 0), mode=mode), (image,))
    with torch.no_grad(), counters.capture() as records:
        pad = torch.nn.CircularPad2d((1, 2, 3, 0))
        check(hologram_torch.freeze(pad, (image,))(image), pad(image))
    assert sum(len(executable.describe()["steps"]) for _, executable, _ in records) == 1
    trained(lambda x, y: torch.cross(x, y, -1) + torch.cross(x.mT, y.mT, 1).mT, (normal(2, 40, 3), normal(1, 1, 3, seed=1)))
    trained(lambda x, y: torch.cdist(x, y, 3.0), (normal(5, 4), normal(6, 4, seed=1)))
    trained(lambda x: F.max_pool2d(x, 9, 1, 4) + F.dropout(x, 1.0), (normal(2, 3, 13, 10),))
    trained(lambda x: F.group_norm(x, 2), (normal(0, 4, 3),))
    native(lambda x, i: x[0].index_reduce(0, i, x[1], "mean"), (normal(2), torch.tensor([0])))


@pytest.mark.parametrize("dtype, count", zip((torch.bool, torch.bfloat16, torch.uint8, torch.int64, torch.float32), (5, 10, 13, 14, 33)))
def test_many_tensors_together(dtype, count):
    for shape in ((3, 5, 7), (9, 64, 7), (70, 2)):
        x = [normal(*shape, seed=n).mul(9).to(dtype) for n in range(count)]
        for axis in range(len(shape)):
            native(lambda *x: (torch.cat(x, axis), torch.stack(x, axis), torch.stack(x, -1)), x, dynamic=False)
    native(lambda x: torch.cat([x[:, : 1 + n % 3] for n in range(count)], -1), (normal(70, 3).mul(9).to(dtype),), dynamic=False)


SPECIAL = ("i0", "i0e", "i1", "i1e", "modified_bessel_k0", "scaled_modified_bessel_k1", "ndtri", "erfcx", "log_ndtr")
WAVES = "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"


@pytest.mark.parametrize(
    "name, dtype",
    [(name, dtype) for name in SPECIAL[:4] for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64)]
    + [(name, dtype) for name in SPECIAL[4:7] for dtype in (torch.float32, torch.float64)]
    + [(name, torch.float32) for name in (*SPECIAL[7:], *WAVES)],
)
def test_special_functions(name, dtype):
    function = getattr(torch.special, name)
    edges = [0.0, -0.0, 8, -8, 7.9999995, 8.000001, 26, 26.00001, -26.1, 88, 1e-30, -1e-42, 1e30, torch.inf, -torch.inf, torch.nan]
    x = torch.cat([3 * normal(500), 30 * normal(300, seed=1), torch.tensor(edges)]).to(dtype)
    x = torch.arange(-20, 20) if dtype == torch.int64 else x
    actual, expected = compile_fresh(function)(x), function(x)
    assert backend_stats()["fallback_ops"] == {}
    assert actual.dtype == expected.dtype
    truth = function(x.double())
    bound = {torch.bfloat16: 2**-8, torch.float64: 1e-12 if name == "ndtri" else 2e-13}.get(dtype, 4e-6 if name != "log_ndtr" else 2e-5)
    assert torch.equal(actual.isnan(), expected.isnan())
    finite = truth.isfinite() & expected.isfinite() & ~expected.isnan()
    assert torch.equal(actual[~finite].nan_to_num(), expected[~finite].nan_to_num())
    error, size = (actual.double() - truth).abs()[finite], truth[finite].abs()
    size = size.clamp(min=1) if name in WAVES else size  # which are 0 in many places
    assert (error <= bound * size + torch.finfo(actual.dtype).tiny).all()

LENGTHS = {"lengths": torch.tensor([3, 0, 1, 5]), "offsets": torch.tensor([0, 3, 3, 4, 8])}


@pytest.mark.parametrize("how", ["sum", "mean", "prod", "max", "min"])
def test_reductions_of_runs_and_their_gradients(how):
    """The runs by their lengths or their ends, which may leave elements out; ties, zeros and NaN."""
    x = normal(9, 4).mul(2).round()
    x[4:, 1], x[5, 0] = 0, math.nan
    lines = normal(2, 9, seed=1).mul(2).round(), torch.tensor([[3, 0, 1, 5], [9, 0, 0, 0]])
    cases = [(x, 0, {name: given}) for name, given in LENGTHS.items()] + [(lines[0], 1, {"lengths": lines[1]})]
    for data, axis, given in cases:
        for options in ({"axis": axis}, {"axis": axis, "initial": 1.5}):
            same("segment_reduce", data, how, **given, **options)
            out = torch.segment_reduce(data, how, **given, **options)
            same("_segment_reduce_backward", normal(*out.shape), out, data, how, **given, **options)
    compiled = compile_fresh(lambda x, n: torch.segment_reduce(x, how, lengths=n))
    actual, expected = compiled(x, LENGTHS["lengths"]), torch.segment_reduce(x, how, lengths=LENGTHS["lengths"])
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert backend_stats()["fallback_ops"] == {}
    for wrong in ([3, 0, 1, 4], [3, -1, 2, 5]):
        refuses(RuntimeError, None, lambda: compiled(x, torch.tensor(wrong)))
    stays("segment_reduce", x, how)  # neither
    stays("segment_reduce", normal(20000), how, lengths=torch.tensor([20000]))  # of which PyTorch's kernel is faster


def test_places_that_are_counted():
    x = normal(3, 4).round()
    for size in (1, 5, 40):
        same("nonzero_static", x, size=size, fill_value=-3)
    [same("nonzero_static", of, size=2) for of in (x > 5, x[:0], x[0, 0])]
    native(lambda x: torch.combinations(x, 3), (normal(5),))

    def repeat(x, n):
        return x.repeat_interleave(n, 0, output_size=6)

    x, n = normal(3, 2), torch.tensor([1, 0, 5])
    native(repeat, (x, n))
    for wrong in ([1, 0, 4], [-1, 2, 5]):
        refuses(RuntimeError, None, lambda: compile_fresh(repeat)(x, torch.tensor(wrong)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_numbers_of_tensors(dtype):
    mean, std = normal(3, 40, dtype=dtype), normal(40, seed=1, dtype=dtype).abs()
    for args in ((mean, std), (mean.t(), 0.7), (0.3, std), (mean, std.double())):
        compiled = compile_fresh(torch.normal)
        for _ in range(2):
            torch.manual_seed(3)
            actual, left = compiled(*args), torch.rand(2)
            torch.manual_seed(3)
            expected = torch.normal(*args)
            bound = 0.0 if dtype == torch.float32 else 2**-7  # which are rounded once, by us
            torch.testing.assert_close(actual, expected, rtol=bound, atol=bound)
            assert actual.stride() == expected.stride()
            assert torch.equal(left, torch.rand(2))
        assert backend_stats()["fallback_ops"] == {}
    refuses(RuntimeError, "std >= 0", lambda: compile_fresh(torch.normal)(mean, -std))


@pytest.mark.parametrize("how", ["mean", "none"])
def test_cross_entropy_by_chunks_of_rows(how):
    options = getattr(torch.nn, "LinearCrossEntropyOptions", None) or pytest.skip("this PyTorch has no chunks")

    def loss(x, w, b, target, rows):
        return F.linear_cross_entropy(x, w, target, linear_bias=b, reduction=how, options=options(batch_chunk_size=rows))

    arguments, classes = (normal(8, 5), normal(7, 5, seed=1), normal(7, seed=2)), torch.tensor([0, 6, 2, 2, 1, 5, 3, 4])
    trained(lambda x, w, b: loss(x, w, b, classes, 3), arguments)
    trained(lambda x, w, b: loss(x, w, b, normal(8, 7, seed=3).softmax(1), 8), arguments)
    if how == "none":  # the others take no chunks without a gradient
        compile_fresh(lambda x, w, b: loss(x, w, b, classes[:1].repeat(40), 1))(normal(40, 5), *arguments[1:])
        assert sum(backend_stats()["fallback_ops"].values()) == 1  # too many chunks to write out


def matrices(*shape):
    return normal(*shape) + 2 * torch.eye(*shape[-2:])


def test_factors_of_small_matrices():
    a = matrices(2, 3, 5, 5)
    a[0, 1, :, 2] = 0  # singular
    for given in (a, a.mT, a[:0], a[..., :0, :0], matrices(1, 1), a[..., :3], a[..., :3].mT):
        for op in ("linalg_lu_factor_ex", "linalg_lu", "_linalg_det", "_linalg_slogdet")[: 4 if given.shape[-1] == given.shape[-2] else 2]:
            same(op, given)
        lu, pivots, _ = torch.linalg.lu_factor_ex(given)
        same("lu_unpack", lu, pivots.flip(-1))  # exchanges with rows above too
    a = a @ a.mT + torch.eye(5)
    for given in (a, a[:, :0], a[..., :0, :0]):
        for upper in (True, False):
            same("linalg_cholesky_ex", given, upper=upper)
            same("cholesky_inverse", torch.linalg.cholesky(given, upper=upper), upper=upper)
    stays("linalg_lu_factor_ex", normal(8, 8))
    stays("linalg_cholesky_ex", torch.eye(5).expand(13, 5, 5))


@pytest.mark.parametrize("left", [True, False])
def test_what_small_matrices_solve(left):
    a = matrices(3, 5, 5)
    for b in (normal(3, 5, 2), normal(2, 3, 5, 2), normal(5, 2), normal(3, 5, 0)):
        b = b if left else b.mT
        for given in (a, a.mT):
            same("_linalg_solve_ex", given, b, left=left)
            for adjoint in (True, False):
                lu, pivots = torch.linalg.lu_factor(given)
                same("linalg_lu_solve", lu, pivots if adjoint else pivots.flip(-1), b, left=left, adjoint=adjoint)
            for upper in (True, False):
                same("linalg_solve_triangular", given, b, upper=upper, left=left, unitriangular=b.dim() == 2)
                if left:
                    same("cholesky_solve", b, given, upper)
                    same("triangular_solve", b, given, upper, b.dim() == 2)
    for b in (normal(5), normal(3, 5)):
        same("_linalg_solve_ex", a, b)
    same("linalg_inv_ex", a)


def test_compiled_factors_and_their_gradients():
    a = matrices(3, 4, 4)
    trained(lambda a: torch.linalg.inv(a) + torch.linalg.slogdet(a)[1].sum() + torch.linalg.det(a).sum() + torch.linalg.lu(a)[2], (a,))
    trained(lambda a, b: torch.linalg.solve(a, b) + torch.linalg.cholesky(a @ a.mT) @ b, (a, normal(3, 4, 2)))
    for function, given in ((torch.linalg.inv, torch.zeros(3, 3)), (torch.linalg.cholesky, -torch.eye(3))):
        for run in (function, compile_fresh(function)):
            refuses(torch.linalg.LinAlgError, "singular|positive-definite", lambda: run(given))
    for n in (1, 4):  # the last pivot alone names no row
        with pytest.raises(IndexError):
            compile_fresh(torch.linalg.lu_solve)(a[:, :n, :n], torch.arange(2, n + 2, dtype=torch.int32).expand(3, n), a[:, :n])
