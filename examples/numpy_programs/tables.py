# examples/numpy_programs/tables.py: look-ups, bins, masks, indices and ufunc methods
import numpy as np

from . import matrix, positive, program, side, table, two, vector, whole


@program(vector)
def binned(x):
    return np.digitize(x, np.array([-1.0, 0.0, 1.0]))


@program(vector)
def interpolation_table(x):
    grid = np.linspace(-3, 3, 101)
    return np.interp(x, grid, np.sin(grid))


@program(vector)
def interpolation_with_ends(x):
    return np.interp(x, np.array([-1.0, 0.5, 2.0]), np.array([3.0, 1.0, 4.0]), left=-7.0, right=7.0)


@program(positive)
def tax(income):
    edges, rates = np.array([0.0, 2.0, 5.0]), np.array([0.1, 0.2, 0.4])
    base = np.concatenate([[0.0], np.cumsum(np.diff(edges) * rates[:-1])])
    at = np.searchsorted(edges, income, side="right") - 1
    return base[at] + (income - edges[at]) * rates[at]


@program(whole)
def one_hot(k):
    return np.eye(50)[k]


@program(whole)
def one_hot_by_comparison(k):
    return (k[:, None] == np.arange(50)).astype(np.float32)


@program(whole)
def one_hot_by_assignment(k):
    out = np.zeros((k.shape[0], 50))
    out[np.arange(k.shape[0]), k] = 1
    return out


@program(lambda r, n: (r.integers(0, 32, n), r.standard_normal(n)))
def scattered_sum(at, value):
    total = np.zeros(32)
    np.add.at(total, at, value)
    return total


@program(vector)
def running_extremes(x):
    return np.maximum.accumulate(x), np.minimum.accumulate(x), np.add.accumulate(x)


@program(vector)
def sums_between(x):
    return np.add.reduceat(x, [0, 3, 7, 20]), np.maximum.reduceat(x, [0, 10])


@program(lambda r, n: (r.standard_normal(side(n)), r.standard_normal(side(n))))
def tables_of_pairs(x, y):
    return np.add.outer(x, y), np.multiply.outer(x, y), np.subtract.outer(x, y)


@program(vector)
def products_of_reduce(x):
    return np.multiply.reduce(np.abs(x) ** 0.01), np.add.reduce(x), np.logaddexp.reduce(x[:30])


@program(table)
def best_of_rows(x):
    at = np.argmax(x, axis=1)
    return np.take_along_axis(x, at[:, None], axis=1), x[np.arange(x.shape[0]), at]


@program(table)
def rows_in_order(x):
    order = np.argsort(x, axis=1, kind="stable")
    return np.take_along_axis(x, order, axis=1)


@program(table)
def sorted_by_column(x):
    return x[np.argsort(x[:, 2], kind="stable")]


@program(table)
def top_three(x):
    return np.sort(x, axis=1)[:, ::-1][:, :3], np.partition(x, 4, axis=1)[:, 4]


@program(two)
def close_enough(x, y):
    return np.isclose(x, x + 1e-9 * y), np.allclose(x, x + 1e-9), np.allclose(x, y)


@program(two)
def equal_arrays(x, y):
    return np.array_equal(x, x), np.array_equal(x, y)


@program(vector)
def piecewise_by_select(x):
    return np.select([x < -1, x < 0, x < 1], [x**2, -x, np.sin(x)], default=0.0)


@program(vector)
def steps(x):
    return np.heaviside(x, 0.5), np.sign(x), np.clip(x, -0.5, 0.5)


@program(vector)
def masked_update(x):
    y = x.copy()
    y[y < 0] *= -1
    y[::2] += 1
    y[-3:] = 0
    return y


@program(vector)
def chosen_sum(x):
    return x[x > 0].sum(), x[x > 0].mean(), np.count_nonzero(x > 0)


@program(vector)
def chosen(x):
    return x[x > 0]


@program(vector)
def chosen_positions(x):
    return np.nonzero(x > 1)[0], np.argwhere(x > 1.5)


@program(whole)
def unique_values(k):
    return np.unique(k), np.unique(k, return_counts=True)[1]


@program(lambda r, n: (r.permutation(n), r.permutation(n)[: n // 2]))
def members(a, b):
    return np.isin(a, b), np.intersect1d(a, b)


@program(whole)
def parity_and_digits(k):
    return k % 2 == 0, k // 10, k % 10, np.bitwise_xor.reduce(k), (k << 2) | 1


@program(whole)
def divisors(k):
    return np.gcd(k + 1, 12), np.lcm(k + 1, 4)


@program(matrix)
def triangles(x):
    return np.triu(x), np.tril(x, -1), np.triu(x, 2)


@program(matrix)
def diagonal_parts(x):
    return np.diag(x), np.trace(x), np.diagonal(x, 1), x - np.diag(np.diag(x))


@program(vector)
def split_and_joined(x):
    n = x.shape[0] // 4 * 4
    a, b, c, d = np.split(x[:n], 4)
    return np.concatenate([c, a]) + np.concatenate([b, d]), np.stack([a, d], axis=1)


@program(vector)
def columns_and_rows(x):
    return np.column_stack([x, x**2]), np.vstack([x, -x]), np.dstack([x, x]), np.atleast_2d(x)


@program(lambda r, n: (r.standard_normal(side(n)), r.standard_normal(side(n))))
def mesh(x, y):
    a, b = np.meshgrid(x, y)
    return np.sin(a) * np.cos(b)


@program(lambda r, n: (r.integers(0, 20, n), r.integers(0, 10, n)))
def cross_table(a, b):
    return np.bincount(a * 10 + b, minlength=200).reshape(20, 10)


@program(vector)
def first_above(x):
    above = x > 1.5
    return np.argmax(above), np.any(above), np.all(above)


@program(two)
def fractions(x, y):
    quotient, rest = np.divmod(x, np.abs(y) + 0.5)
    part, whole_part = np.modf(x)
    return quotient, rest, part, whole_part


@program(vector)
def until_small(x):
    while np.abs(x).max() > 1:
        x = x / 2
    return x
