# examples/numpy_programs/linear.py: matrices, decompositions and tensor products
import numpy as np

from . import matrix, points, program, side, square, table


def chain(r, n):
    m = side(n)
    return r.standard_normal((m, 12)), r.standard_normal((12, m)), r.standard_normal((m, 5))


@program(square)
def solved(a, b):
    return np.linalg.solve(a, b)


@program(square)
def inverse_check(a, b):
    return np.linalg.inv(a) @ b, np.linalg.det(a / a.shape[0])


@program(square)
def jacobi(a, b):
    d = np.diag(a)
    x = np.zeros_like(b)
    for _ in range(10):
        x = (b - a @ x + d * x) / d
    return x


@program(square)
def conjugate_gradient(a, b):
    a = a @ a.T
    x, r = np.zeros_like(b), b
    p = r
    for _ in range(4):
        ap = a @ p
        alpha = (r @ r) / (p @ ap)
        x = x + alpha * p
        new = r - alpha * ap
        p = new + (new @ new) / (r @ r) * p
        r = new
    return x


@program(square)
def power_iteration(a, v):
    for _ in range(8):
        v = a @ v
        v = v / np.linalg.norm(v)
    return v @ a @ v


@program(table)
def cholesky_whitened(x):
    c = np.cov(x.T) + 0.1 * np.eye(8)
    return np.linalg.solve(np.linalg.cholesky(c), (x - x.mean(0)).T)


@program(table)
def least_squares_by_qr(x):
    q, r = np.linalg.qr(x[:, :5])
    return np.linalg.solve(r, q.T @ x[:, 7])


@program(table)
def least_squares(x):
    return np.linalg.lstsq(x[:, :5], x[:, 6], rcond=None)[0]


@program(table)
def ridge(x):
    a, y = x[:, :7], x[:, 7]
    return np.linalg.solve(a.T @ a + 0.5 * np.eye(7), a.T @ y)


@program(table)
def principal_variances(x):
    values, _ = np.linalg.eigh(np.cov(x, rowvar=False))
    return values[::-1] / values.sum()


@program(table)
def singular_values(x):
    u, s, v = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return s, (u * s) @ v


@program(table)
def gram_schmidt(x):
    basis = []
    for i in range(4):
        v = x[:, i]
        for b in basis:
            v = v - (b @ v) * b
        basis.append(v / np.linalg.norm(v))
    return np.stack(basis, axis=1)


@program(table)
def norms(x):
    return np.linalg.norm(x, axis=1), np.linalg.norm(x), np.linalg.norm(x, 1, axis=0), np.linalg.norm(x, np.inf, axis=1)


@program(points)
def unit_vectors(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@program(lambda r, n: (r.standard_normal((side(n), 3)), r.standard_normal((side(n), 3))))
def distance_matrix(x, y):
    return np.linalg.norm(x[:, None] - y[None], axis=-1)


@program(lambda r, n: (r.standard_normal((side(n), 16)), r.standard_normal((side(n), 16))))
def distances_by_products(x, y):
    squares = (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * x @ y.T
    return np.sqrt(np.maximum(squares, 0))


@program(lambda r, n: (r.standard_normal((side(n), 16)),))
def cosine_similarity(x):
    unit = x / np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
    return unit @ unit.T


@program(chain)
def einsum_chain(a, b, c):
    return np.einsum("ij,jk,kl->il", a, b, c), np.einsum("ij,ji->", a, b)


@program(matrix)
def einsum_forms(x):
    return np.einsum("ii->i", x), np.einsum("ij->ji", x), np.einsum("ij->j", x), np.einsum("ij,j->i", x, x[0])


@program(lambda r, n: (r.standard_normal((max(2, n // 400), 20, 10)), r.standard_normal((max(2, n // 400), 10, 20))))
def einsum_batches(a, b):
    return np.einsum("bij,bjk->bik", a, b), np.einsum("bij,bji->b", a, b)


@program(lambda r, n: (r.standard_normal((4, 5, max(2, n // 20))), r.standard_normal((5, 4, 6))))
def tensor_contraction(a, b):
    return np.tensordot(a, b, axes=([1, 0], [0, 1])), np.tensordot(a[0], b[:, 0], axes=(0, 0))


@program(lambda r, n: (r.standard_normal((side(n) // 4 + 1, 4)), r.standard_normal((4, side(n) // 4 + 1))))
def kronecker(a, b):
    return np.kron(a, b)


@program(points)
def triangle_areas(x):
    return 0.5 * np.linalg.norm(np.cross(x[1:] - x[:-1], x[0] - x[:-1]), axis=1)


@program(points)
def scalar_triple(x):
    y, z = np.roll(x, 1, axis=0), np.roll(x, 2, axis=0)
    return np.einsum("ij,ij->i", x, np.cross(y, z)), np.sum(x * y, axis=1), np.inner(x[0], z[0])


@program(lambda r, n: (r.random((side(n), side(n))), r.random(side(n))))
def markov_chain(p, state):
    p = p / p.sum(axis=1, keepdims=True)
    state = state / state.sum()
    for _ in range(6):
        state = state @ p
    return state


@program(lambda r, n: (r.random((side(n), side(n))) < 0.1,))
def page_rank(links):
    degree = np.maximum(links.sum(axis=1), 1)
    flow = (links / degree[:, None]).T
    rank = np.full(links.shape[0], 1 / links.shape[0])
    for _ in range(5):
        rank = 0.15 / links.shape[0] + 0.85 * (flow @ rank)
    return rank


@program(lambda r, n: (r.random((side(n), side(n))),))
def shortest_paths_step(d):
    for k in range(4):
        d = np.minimum(d, d[:, k, None] + d[None, k, :])
    return d


@program(matrix)
def matrix_power_series(x):
    x = x / np.linalg.norm(x)
    term, total = np.eye(x.shape[0]), np.eye(x.shape[0])
    for k in range(1, 5):
        term = term @ x / k
        total = total + term
    return total


@program(matrix)
def vandermonde(x):
    return np.vander(x[0], 5), np.outer(x[0], x[1])


@program(matrix)
def double_centred(x):
    return x - x.mean(0) - x.mean(1, keepdims=True) + x.mean()
