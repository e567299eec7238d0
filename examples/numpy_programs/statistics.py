# examples/numpy_programs/statistics.py: summaries, tests, sampling and finance
import numpy as np

from . import positive, program, singles, table, two, vector, whole


@program(vector)
def standard_scores(x):
    return (x - x.mean()) / x.std()


@program(table)
def standardised_columns(x):
    return (x - np.mean(x, axis=0)) / np.std(x, axis=0, ddof=1)


@program(vector)
def five_numbers(x):
    return np.percentile(x, [0, 25, 50, 75, 100])


@program(table)
def quantiles_of_columns(x):
    return np.quantile(x, 0.9, axis=0), np.quantile(x, [0.1, 0.5], axis=0)


@program(vector)
def interquartile_outliers(x):
    low, high = np.percentile(x, 25), np.percentile(x, 75)
    reach = 1.5 * (high - low)
    return (x < low - reach) | (x > high + reach)


@program(table)
def covariance(x):
    return np.cov(x, rowvar=False)


@program(table)
def correlation(x):
    return np.corrcoef(x.T)


@program(two)
def pearson(x, y):
    return np.corrcoef(x, y)[0, 1]


@program(two)
def spearman(x, y):
    def ranks(v):
        return np.argsort(np.argsort(v)).astype(np.float64)

    a, b = ranks(x), ranks(y)
    return np.mean((a - a.mean()) * (b - b.mean())) / (a.std() * b.std())


@program(two)
def weighted_mean(x, w):
    w = np.abs(w)
    return np.average(x, weights=w), np.average(x)


@program(vector)
def moments(x):
    z = x - x.mean()
    s = np.sqrt(np.mean(z**2))
    return np.mean(z**3) / s**3, np.mean(z**4) / s**4 - 3


@program(vector)
def histogram(x):
    counts, edges = np.histogram(x, bins=20, range=(-3, 3))
    return counts, edges


@program(vector)
def density(x):
    return np.histogram(x, bins=np.linspace(-4, 4, 33), density=True)[0]


@program(vector)
def histogram_of_itself(x):
    return np.histogram(x, bins=10)


@program(whole)
def frequencies(k):
    return np.bincount(k, minlength=50)


@program(lambda r, n: (r.integers(0, 16, n), r.standard_normal(n)))
def group_means(group, value):
    count = np.bincount(group, minlength=16)
    return np.bincount(group, weights=value, minlength=16) / np.maximum(count, 1)


@program(vector)
def spread(x):
    return np.ptp(x), np.max(x) - np.min(x), np.mean(np.abs(x - np.median(x)))


@program(table)
def spread_of_rows(x):
    return np.ptp(x, axis=1)


@program(two)
def t_statistic(x, y):
    pooled = np.var(x, ddof=1) / x.size + np.var(y, ddof=1) / y.size
    return (x.mean() - y.mean()) / np.sqrt(pooled)


@program(two)
def kolmogorov_smirnov(x, y):
    both = np.concatenate([x, y])
    a = np.searchsorted(np.sort(x), both, side="right") / x.size
    b = np.searchsorted(np.sort(y), both, side="right") / y.size
    return np.max(np.abs(a - b))


@program(vector)
def trimmed_mean(x):
    k = x.shape[0] // 10
    return np.sort(x)[k : x.shape[0] - k].mean()


@program(vector)
def nearest_values(x):
    return np.sort(np.partition(np.abs(x), 5)[:5])


@program(vector)
def nan_summary(x):
    y = np.where(x > 1, np.nan, x)
    return np.nanmean(y), np.nanmax(y), np.nansum(y), np.isnan(y).sum(), np.nanstd(y)


@program(vector)
def filled(x):
    return np.nan_to_num(np.where(x > 1, np.nan, 1 / (x * (np.abs(x) > 0.1))), nan=0.0, posinf=9.0, neginf=-9.0)


@program(lambda r, n: (r.standard_normal(n), np.random.default_rng(5)))
def bootstrap_means(x, rng):
    return x[rng.integers(0, x.shape[0], size=(10, x.shape[0]))].mean(axis=1)


@program(lambda r, n: (np.random.default_rng(5), n))
def monte_carlo_pi(rng, n):
    x, y = rng.random(n), rng.random(n)
    return 4 * np.mean(x * x + y * y < 1)


@program(lambda r, n: (np.random.default_rng(6), n))
def random_walk(rng, n):
    steps = rng.choice(np.array([-1, 1]), size=n)
    path = np.cumsum(steps)
    return path, np.maximum.accumulate(path)


@program(lambda r, n: (100.0, 0.05, 0.2, np.random.default_rng(7), n))
def option_by_monte_carlo(spot, rate, volatility, rng, n):
    z = rng.standard_normal(n)
    end = spot * np.exp((rate - 0.5 * volatility**2) + volatility * z)
    return np.exp(-rate) * np.maximum(end - 105, 0).mean()


@program(lambda r, n: (r.uniform(80, 120, n), r.uniform(0.1, 0.5, n)))
def black_scholes(spot, volatility):
    def normal(z):  # Abramowitz and Stegun 26.2.17
        k = 1 / (1 + 0.2316419 * np.abs(z))
        poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
        tail = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * poly
        return np.where(z >= 0, 1 - tail, tail)

    d1 = (np.log(spot / 100) + 0.02 + volatility**2 / 2) / volatility
    return spot * normal(d1) - 100 * np.exp(-0.02) * normal(d1 - volatility)


@program(positive)
def log_returns(price):
    returns = np.diff(np.log(price))
    return returns.mean() * 252, returns.std(ddof=1) * np.sqrt(252)


@program(positive)
def maximum_drawdown(price):
    peak = np.maximum.accumulate(price)
    return np.max((peak - price) / peak)


@program(two)
def sharpe_and_beta(asset, market):
    c = np.cov(asset, market)
    return asset.mean() / asset.std(ddof=1), c[0, 1] / c[1, 1]


@program(table)
def portfolio_risk(returns):
    w = np.full(8, 1 / 8)
    return np.sqrt(w @ np.cov(returns.T) @ w), (returns @ w).mean()


@program(positive)
def bollinger_bands(price):
    windows = np.lib.stride_tricks.sliding_window_view(price, 20)
    middle, off = windows.mean(axis=1), windows.std(axis=1)
    return middle - 2 * off, middle, middle + 2 * off


@program(positive)
def present_value(cash):
    return np.sum(cash / 1.03 ** np.arange(1, cash.shape[0] + 1))


@program(vector)
def run_lengths(x):
    up = np.concatenate([[True], np.diff(x > 0)])
    start = np.flatnonzero(up)
    return np.diff(np.append(start, x.shape[0]))


@program(singles)
def log_sum_exp(x):
    top = x.max()
    return top + np.log(np.exp(x - top).sum())


@program(positive)
def entropy(w):
    p = w / w.sum()
    return -np.sum(p * np.log(p))


@program(vector)
def kernel_density(x):
    grid = np.linspace(-3, 3, 24)
    return np.exp(-0.5 * ((grid[:, None] - x[None, :]) / 0.3) ** 2).mean(axis=1)


@program(whole)
def mode_of_integers(k):
    return np.argmax(np.bincount(k))
