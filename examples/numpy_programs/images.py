# examples/numpy_programs/images.py: filters, colours, shapes and joins of pictures
import numpy as np

from . import image, program, side


def pictures(r, n):
    return (r.integers(0, 256, (side(n // 3), side(n // 3), 3), dtype=np.uint8),)


@program(pictures)
def grey(rgb):
    return (rgb @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)


@program(pictures)
def inverted(rgb):
    return 255 - rgb, rgb[..., ::-1]


@program(pictures)
def gamma(rgb):
    return (np.power(rgb / 255.0, 1 / 2.2) * 255).astype(np.uint8)


@program(pictures)
def contrast_stretched(rgb):
    x = rgb.astype(np.float32)
    low, high = x.min(axis=(0, 1)), x.max(axis=(0, 1))
    return (x - low) / (high - low) * 255


@program(pictures)
def looked_up(rgb):
    table = np.clip(np.arange(256) * 1.2 - 10, 0, 255).astype(np.uint8)
    return table[rgb]


@program(pictures)
def equalised(rgb):
    x = rgb[..., 0]
    counts = np.bincount(x.ravel(), minlength=256)
    share = np.cumsum(counts) / x.size
    return (share * 255).astype(np.uint8)[x]


@program(pictures)
def saturation(rgb):
    x = rgb / 255
    high, low = x.max(axis=-1), x.min(axis=-1)
    return np.where(high > 0, (high - low) / np.where(high > 0, high, 1), 0)


@program(image)
def box_blur(x):
    padded = np.pad(x, 1, mode="edge")
    h, w = x.shape
    return sum(padded[i : i + h, j : j + w] for i in range(3) for j in range(3)) / 9


@program(image)
def sobel(x):
    p = np.pad(x, 1)
    gx = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
    gy = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
    return np.hypot(gx, gy)


@program(image)
def filtered_by_windows(x):
    kernel = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], np.float32) / 16
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    return np.einsum("ijkl,kl->ij", windows, kernel)


@program(image)
def reflected_border(x):
    return np.pad(x, ((2, 2), (3, 1)), mode="reflect"), np.pad(x, 1, constant_values=0.5)


@program(image)
def wrapped_border(x):
    return np.pad(x, 2, mode="wrap"), np.pad(x, 1, mode="symmetric")


@program(image)
def eroded(x):
    mask = x > 0.3
    inner = mask[1:-1, 1:-1] & mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]
    out = np.zeros_like(mask)
    out[1:-1, 1:-1] = inner
    return out


@program(image)
def halved(x):
    h, w = x.shape[0] // 2 * 2, x.shape[1] // 2 * 2
    return x[:h, :w].reshape(h // 2, 2, w // 2, 2).mean(axis=(1, 3))


@program(image)
def doubled(x):
    return np.repeat(np.repeat(x, 2, axis=0), 2, axis=1), np.kron(x, np.ones((2, 2), np.float32))


@program(image)
def turned(x):
    return np.rot90(x), np.flipud(x), np.fliplr(x), x.T[::-1]


@program(image)
def thresholded(x):
    y = x.copy()
    y[y < 0.5] = 0
    y[y >= 0.5] = 1
    return y


@program(image)
def integral_image(x):
    total = np.cumsum(np.cumsum(x, axis=0, dtype=np.float64), axis=1)
    return total[4:, 4:] - total[:-4, 4:] - total[4:, :-4] + total[:-4, :-4]


@program(image)
def edges_by_gradient(x):
    gy, gx = np.gradient(x)
    return np.sqrt(gx**2 + gy**2), np.arctan2(gy, gx)


@program(image)
def fourier_low_pass(x):
    fy, fx = np.fft.fftfreq(x.shape[0])[:, None], np.fft.fftfreq(x.shape[1])[None, :]
    return np.fft.ifft2(np.fft.fft2(x) * (np.hypot(fx, fy) < 0.2)).real


@program(image)
def centre_of_mass(x):
    rows, columns = np.indices(x.shape)
    total = x.sum()
    return (rows * x).sum() / total, (columns * x).sum() / total


@program(image)
def quadrants(x):
    n = x.shape[0] // 2 * 2
    top, bottom = np.split(x[:n, :n], 2, axis=0)
    a, b = np.hsplit(top, 2)
    c, d = np.hsplit(bottom, 2)
    return np.block([[d, c], [b, a]])


@program(image)
def vignette(x):
    y, z = np.ogrid[-1 : 1 : x.shape[0] * 1j, -1 : 1 : x.shape[1] * 1j]
    return x * np.exp(-(y**2 + z**2))


@program(image)
def peak_signal_to_noise(x):
    y = np.round(x * 16) / 16
    return 10 * np.log10(1 / np.mean((x - y) ** 2))


@program(image)
def floor_of_tiles(x):
    parts = np.array_split(x, 3, axis=1)
    return [p.mean() for p in parts], np.vstack([x[:2], x[-2:]]), np.hstack([x[:, :2], x[:, -1:]])
