# examples/numpy_programs/signals.py: filters, spectra, series and polynomials
import numpy as np

from . import positive, program, singles, two, vector


@program(vector)
def moving_average(x):
    total = np.cumsum(x)
    return (total[9:] - np.concatenate([np.zeros(1), total[:-10]])) / 10


@program(vector)
def moving_average_by_convolution(x):
    return np.convolve(x, np.ones(7) / 7, mode="valid")


@program(vector)
def smoothed_same(x):
    kernel = np.array([1.0, 4.0, 6.0, 4.0, 1.0])
    return np.convolve(x, kernel / kernel.sum(), mode="same")


@program(singles)
def echo(x):
    return np.convolve(x, np.array([1, 0, 0, 0.5, 0, 0.25], np.float32))


@program(vector)
def matched_filter(x):
    template = np.array([0.1, 0.9, -0.4, 0.2])
    score = np.correlate(x, template, mode="valid")
    return score, np.argmax(score)


@program(vector)
def first_difference_filter(x):
    y = x - np.roll(x, 1)
    y[0] = 0
    return y


@program(vector)
def rolling_windows(x):
    windows = np.lib.stride_tricks.sliding_window_view(x, 5)
    return windows.mean(axis=-1), windows.max(axis=-1), windows.std(axis=-1)


@program(vector)
def rolling_median(x):
    return np.median(np.lib.stride_tricks.sliding_window_view(x, 5), axis=-1)


@program(vector)
def low_pass(x):
    spectrum = np.fft.rfft(x)
    spectrum[len(spectrum) // 4 :] = 0
    return np.fft.irfft(spectrum, n=x.shape[0])


@program(vector)
def power_spectrum(x):
    windowed = (x - x.mean()) * np.hanning(x.shape[0])
    return np.abs(np.fft.rfft(windowed)) ** 2 / x.shape[0]


@program(vector)
def dominant_frequency(x):
    frequency = np.fft.rfftfreq(x.shape[0], d=0.01)
    return frequency[np.argmax(np.abs(np.fft.rfft(x)))]


@program(two)
def convolution_by_fft(x, y):
    n = x.shape[0] + y.shape[0] - 1
    return np.fft.irfft(np.fft.rfft(x, n) * np.fft.rfft(y, n), n)


@program(vector)
def analytic_envelope(x):
    n = x.shape[0]
    spectrum = np.fft.fft(x)
    gain = np.zeros(n)
    gain[0] = 1
    gain[1 : (n + 1) // 2] = 2
    return np.abs(np.fft.ifft(spectrum * gain))


@program(vector)
def autocorrelation(x):
    x = x - x.mean()
    return np.array([np.dot(x[: x.shape[0] - lag], x[lag:]) for lag in range(6)]) / np.dot(x, x)


@program(vector)
def zero_crossings(x):
    return np.sum(np.diff(np.sign(x)) != 0)


@program(vector)
def local_peaks(x):
    inner = (x[1:-1] > x[:-2]) & (x[1:-1] > x[2:])
    return np.pad(inner, 1), np.count_nonzero(inner)


@program(vector)
def derivatives(x):
    return np.gradient(x), np.gradient(x, 0.1), np.diff(x, n=2)


@program(positive)
def integral(y):
    x = np.linspace(0, 1, y.shape[0])
    return np.trapezoid(y, x), np.trapezoid(y, dx=0.5)


@program(positive)
def cumulative_integral(y):
    return np.concatenate([[0.0], np.cumsum((y[1:] + y[:-1]) * 0.5 * 0.01)])


@program(vector)
def polynomial(x):
    return np.polyval([0.5, -1.0, 0.0, 2.0], x)


@program(vector)
def chebyshev(x):
    t = np.tanh(x)
    before, now = np.ones_like(t), t
    for _ in range(5):
        before, now = now, 2 * t * now - before
    return now


@program(two)
def line_fit(x, y):
    centred = x - x.mean()
    slope = np.sum(centred * (y - y.mean())) / np.sum(centred**2)
    return slope, y.mean() - slope * x.mean()


@program(two)
def quadratic_fit(x, y):
    return np.polyfit(x, y, 2)


@program(vector)
def quantised(x):
    levels = np.linspace(-2, 2, 17)
    at = np.clip(np.searchsorted(levels, x), 1, 16)
    return np.where(x - levels[at - 1] < levels[at] - x, levels[at - 1], levels[at])


@program(singles)
def decibels(x):
    return 20 * np.log10(np.maximum(np.abs(x), np.float32(1e-6)))


@program(vector)
def resampled(x):
    old = np.arange(x.shape[0])
    new = np.linspace(0, x.shape[0] - 1, 2 * x.shape[0])
    return np.interp(new, old, x)


@program(vector)
def upsampled_by_repeat(x):
    return np.repeat(x, 3), np.tile(x, 2)


@program(vector)
def framed_energy(x):
    n = x.shape[0] // 8 * 8
    frames = x[:n].reshape(-1, 8)
    return np.sqrt(np.mean(frames**2, axis=1))


@program(vector)
def phase(x):
    z = x[:-1] + 1j * x[1:]
    return np.angle(z), np.abs(z)


@program(vector)
def mixed_down(x):
    t = np.arange(x.shape[0]) * 0.01
    z = x * np.exp(-2j * np.pi * 5 * t)
    return z.real, z.imag, (z * np.conj(z)).real


@program(vector)
def median_despiked(x):
    middle = np.median(x)
    spread = np.median(np.abs(x - middle))
    y = x.copy()
    y[np.abs(x - middle) > 3 * spread] = middle
    return y


@program(vector)
def exponential_weights(x):
    weights = 0.9 ** np.arange(12)
    return np.convolve(x, weights / weights.sum(), mode="full")[: x.shape[0]]
