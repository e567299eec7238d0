# hologram_torch/capture/matrices.py: factors of small matrices and what they solve, number by number
"""Each number of a matrix is a tensor over the batch, so that a factorisation is one loop over it. Each function has its operator's
signature and returns NotImplemented where the operator stays whole."""

import functools

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from .forms import known

aten = torch.ops.aten
_MOST = 7  # rows and columns
_FEW = 320  # numbers of all matrices: each of a factor is computed from the start


def _small(a) -> bool:
    fits = a.dtype in (torch.float32, torch.float64) and a.device.type == "cpu" and a.dim() > 1 and known(*a.shape)
    return fits and max(a.shape[-2:]) <= _MOST


def _few(a) -> bool:
    return _small(a) and a.numel() <= _FEW


def _numbers(a):
    return [[a[..., i, j] for j in range(a.shape[-1])] for i in range(a.shape[-2])]


def _as_matrix(numbers, like, shape):
    if 0 in shape:
        return like.new_zeros(shape)
    return torch.stack([torch.stack([x.expand(shape[:-2]) for x in row], -1) for row in numbers], -2)


def _same_batch(a, b):
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])


# --- triangles
def _substituted(a, rows, upper, unit):
    """The rows of x, where the triangle `a` times x has these."""
    n, x = len(rows), list(rows)
    for i in reversed(range(n)) if upper else range(n):
        for j in range(i + 1, n) if upper else range(i):
            x[i] = x[i] - a[i][j] * x[j]
        if not unit:
            x[i] = x[i] / a[i][i]
    return x


def _rows(b):
    return [b[..., i, :] for i in range(b.shape[-2])]


def _columns(a):
    """The numbers of `a`, to be multiplied with rows."""
    return [[x.unsqueeze(-1) for x in row] for row in _numbers(a)]


def _from_rows(rows, b):
    return torch.stack(rows, -2) if b.numel() else torch.zeros_like(b)


def _solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    if not _small(a) or b.dtype != a.dtype or b.dim() < 2 or not known(*b.shape):
        return NotImplemented
    a, b = _same_batch(a, b)
    if not left:
        return _solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    return _from_rows(_substituted(_columns(a), _rows(b), upper, unitriangular), b)


def _triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    x = _solve_triangular(a.mT if transpose else a, b, upper=upper != transpose, unitriangular=unitriangular)
    return x if x is NotImplemented else (x, _same_batch(a, b)[0].clone())


# --- factors of symmetric matrices
def _cholesky(a, *, upper=False, check_errors=False):
    """The triangle, and the number of the first leading minor that is not positive, 0: none."""
    if check_errors or not _few(a):
        return NotImplemented
    n, given = a.shape[-1], _numbers(a.mT if upper else a)
    nothing = torch.zeros(a.shape[:-2], dtype=a.dtype)
    lower, info = [[nothing] * n for _ in range(n)], torch.zeros(a.shape[:-2], dtype=torch.int32)
    for j in range(n):
        for i in range(j, n):
            x = given[i][j]
            for k in range(j):
                x = x - lower[i][k] * lower[j][k]
            if i == j:
                info = torch.where((info == 0) & ~(x > 0), j + 1, info)
            lower[i][j] = x.sqrt() if i == j else x / lower[j][j]
    factor = _as_matrix(lower, a, a.shape)
    return (factor.mT if upper else factor), info


def _cholesky_solve(b, a, upper=False):
    if not _small(a) or b.dtype != a.dtype or b.dim() < 2 or not known(*b.shape):
        return NotImplemented
    a, b = _same_batch(a.mT if upper else a, b)
    rows = _substituted(_columns(a), _rows(b), False, False)
    return _from_rows(_substituted(_columns(a.mT), rows, True, False), b)


def _identity(a):
    return torch.eye(a.shape[-1], dtype=a.dtype).expand(a.shape)


def _cholesky_inverse(a, upper=False):
    return _cholesky_solve(_identity(a), a, upper) if _small(a) else NotImplemented


# --- factors of any
def _exchange(rows, k, place, given=False):
    """Row k with the one that `place` says, from 1: one behind it, or any where it is given. A row is a tensor, or a list of numbers."""
    for i in range(0 if given else k + 1, len(rows)):
        if i != k:
            swap, upper, lower = place == i + 1, rows[k], rows[i]
            rows[k], rows[i] = _where(swap, lower, upper), _where(swap, upper, lower)
    if given and len(rows) == 1:  # so that it is looked at
        rows[0] = torch.where(place == 1, rows[0], 0)


def _where(condition, a, b):
    return [torch.where(condition, x, y) for x, y in zip(a, b, strict=True)] if isinstance(a, list) else torch.where(condition, a, b)


def _eliminated(a):
    """→ (the numbers of both triangles, the row with which each was exchanged, from 1, the number of the first pivot that is 0)"""
    rows, places, info = _numbers(a), [], torch.zeros(a.shape[:-2], dtype=torch.int32)
    for k in range(min(a.shape[-2:])):
        best, place = rows[k][k].abs(), torch.full(a.shape[:-2], k + 1, dtype=torch.int32)
        for i in range(k + 1, len(rows)):
            size = rows[i][k].abs()
            best, place = torch.where(size > best, size, best), torch.where(size > best, i + 1, place)
        places.append(place)
        _exchange(rows, k, place)
        pivot = rows[k][k]
        info = torch.where((info == 0) & (pivot == 0), k + 1, info)
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / torch.where(pivot == 0, 1, pivot)
            rest = [x - factor * y for x, y in zip(rows[i][k + 1 :], rows[k][k + 1 :], strict=True)]
            rows[i] = [*rows[i][:k], factor, *rest]
    return rows, places, info


def _packed(rows, places, a):
    """Both triangles as one matrix, and the exchanges as a tensor."""
    count = [*a.shape[:-2], min(a.shape[-2:])]
    pivots = torch.zeros(count, dtype=torch.int32) if 0 in count else torch.stack(places, -1)
    return _as_matrix(rows, a, a.shape), pivots


def _turned(a):
    """What eager factors for determinants: the transpose of a matrix that lies row by row."""
    return a.mT if a.is_contiguous() else a


def _lu_factor(a, *, pivot=True, check_errors=False):
    if not pivot or check_errors or not _few(a):
        return NotImplemented
    rows, places, info = _eliminated(a)
    return *_packed(rows, places, a), info


def _solved(lu, places, b, left, adjoint, given=False):
    """x [..., n, k], where the factored matrix, or its transpose, times x (x times it) is b."""
    if not left:
        return _solved(lu, places, b.mT, True, not adjoint, given).mT
    lu, b = _same_batch(lu, b)
    lu, rows, places = _columns(lu), _rows(b), [place.unsqueeze(-1) for place in places]
    if adjoint:
        turned = [list(column) for column in zip(*lu, strict=True)]
        rows = _substituted(turned, _substituted(turned, rows, False, False), True, True)
        for k in reversed(range(len(places))):
            _exchange(rows, k, places[k], given)
    else:
        for k, place in enumerate(places):
            _exchange(rows, k, place, given)
        rows = _substituted(lu, _substituted(lu, rows, False, True), True, False)
    return _from_rows(rows, b)


def _places(pivots, n):
    """The exchanges. One that names no row is an index out of range."""
    if 0 in pivots.shape:
        return []
    pivots = torch.arange(1, n + 1, dtype=torch.int32).index_select(0, (pivots - 1).reshape(-1)).reshape(pivots.shape)
    return list(pivots.unbind(-1))


def _lu_solve(lu, pivots, b, *, left=True, adjoint=False):
    if not _small(lu) or b.dtype != lu.dtype or b.dim() < 2 or not known(*b.shape):
        return NotImplemented
    return _solved(lu, _places(pivots, lu.shape[-1]), b, left, adjoint, given=True)


def _old_lu_solve(b, lu, pivots):
    return _lu_solve(lu, pivots, b)


def _solve(a, b, *, left=True, check_errors=False):
    """The solution, and of `a` both triangles, the exchanges, and the number of the first pivot that is 0."""
    if check_errors or not _few(a) or b.dtype != a.dtype or not known(*b.shape):
        return NotImplemented
    line = b.dim() == 1 or b.dim() + 1 == a.dim() and b.shape == a.shape[:-1]
    rows, places, info = _eliminated(a)
    lu, pivots = _packed(rows, places, a)
    x = _solved(lu, places, b.unsqueeze(-1) if line else b, left, False)
    return x.squeeze(-1) if line else x, lu, pivots, info


def _inverse(a, *, check_errors=False):
    if check_errors or not _few(a):
        return NotImplemented
    x, _, _, info = _solve(a, _identity(a))
    return x, info


def _odd(places):
    """-1 where the exchanges are odd in number, else 1."""
    sign = 1
    for k, place in enumerate(places):
        sign = sign * torch.where(place == k + 1, 1, -1)
    return sign


def _det(a):
    if not _few(a):
        return NotImplemented
    rows, places, _ = _eliminated(_turned(a))
    product = torch.ones(a.shape[:-2], dtype=a.dtype)
    for k in range(len(rows)):
        product = product * rows[k][k]
    return product * _odd(places), *_packed(rows, places, a)


def _slogdet(a):
    if not _few(a):
        return NotImplemented
    rows, places, _ = _eliminated(_turned(a))
    sign, size = torch.ones(a.shape[:-2], dtype=a.dtype), torch.zeros(a.shape[:-2], dtype=a.dtype)
    for k in range(len(rows)):
        sign, size = sign * rows[k][k].sgn(), size + rows[k][k].abs().log()
    return sign * _odd(places), size, *_packed(rows, places, a)


def _unpacked(lu, pivots, data=True, exchanges=True):
    """→ (P, L, U), whose product the factored matrix is"""
    if not _small(lu) or not known(*pivots.shape):
        return NotImplemented
    m, n = lu.shape[-2:]
    least, batch = min(m, n), lu.shape[:-2]
    p, lower, upper = (lu.new_empty([0]) for _ in range(3))
    if data:
        lower = lu.narrow(-1, 0, least).tril(-1) + torch.eye(m, least, dtype=lu.dtype)
        upper = lu.narrow(-2, 0, least).triu()
    if exchanges:
        rows = [row.expand(*batch, m) for row in torch.eye(m, dtype=lu.dtype).unbind()]
        places = _places(pivots, m)
        for k in reversed(range(len(places))):
            _exchange(rows, k, places[k].unsqueeze(-1), given=True)
        p = torch.stack(rows, -2) if m and 0 not in batch else lu.new_zeros([*batch, m, m])
    return p, lower, upper


def _lu(a, *, pivot=True):
    if not pivot or not _few(a):
        return NotImplemented
    return _unpacked(*_lu_factor(a)[:2])


def _laid_out(op, form):
    """The form, with results that lie as the operator's: most column by column."""

    def meta(t):
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")

    @functools.wraps(form)
    def decompose(*args, **named):
        results = form(*args, **named)
        if results is NotImplemented:
            return results
        with _disable_current_modes():
            wanted = op(*pytree.tree_map_only(torch.Tensor, meta, args), **pytree.tree_map_only(torch.Tensor, meta, named))
        return pytree.tree_map(lambda t, like: _as(t, like.stride()), results, wanted)

    return decompose


def _as(t, strides):
    if t.stride() == strides:
        return t
    if not t.numel():
        return torch.empty_strided(t.shape, strides, dtype=t.dtype)
    turned = t.dim() > 1 and torch.empty_strided(t.shape, strides, device="meta").mT.is_contiguous()
    return t.mT.contiguous().mT if turned else t.contiguous()


def table() -> dict:
    """The functions by operator overload."""
    named = {
        "linalg_solve_triangular": _solve_triangular, "triangular_solve": _triangular_solve, "linalg_cholesky_ex": _cholesky,
        "cholesky_solve": _cholesky_solve, "_cholesky_solve_helper": _cholesky_solve, "cholesky_inverse": _cholesky_inverse,
        "linalg_lu_factor_ex": _lu_factor, "linalg_lu_solve": _lu_solve, "lu_solve": _old_lu_solve, "_linalg_solve_ex": _solve,
        "linalg_inv_ex": _inverse, "_linalg_det": _det, "_linalg_slogdet": _slogdet, "lu_unpack": _unpacked, "linalg_lu": _lu,
    }  # fmt: skip
    return {op: _laid_out(op, form) for name, form in named.items() for op in [getattr(aten, name).default]}
