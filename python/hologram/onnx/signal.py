# hologram/onnx/signal.py: Fourier transforms, by NumPy between graphs
# mypy: ignore-errors
import numpy as np

from hologram.onnx import tensors
from hologram.onnx.table import operator


def _complex(x):
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


def _pairs(y, dtype):
    return np.stack([y.real, y.imag], -1).astype(dtype)


@operator("DFT", host=True)
def dft(call, x, length=None, axis=None):
    axis = call.attr("axis", 1) if call.version < 20 else -2 if axis is None else int(axis.item())
    axis = axis % x.ndim
    one_sided, inverse = call.attr("onesided", 0), call.attr("inverse", 0)
    n = int(length.item()) if length is not None else 2 * (x.shape[axis] - 1) if one_sided and inverse else x.shape[axis]
    y = _complex(x)
    if one_sided and inverse:
        return np.fft.irfft(y, n, axis)[..., None].astype(x.dtype)
    if one_sided:
        return _pairs(np.fft.rfft(y.real, n, axis), x.dtype)
    return _pairs((np.fft.ifft if inverse else np.fft.fft)(y, n, axis), x.dtype)


@operator("STFT", host=True)
def stft(call, x, step, window=None, length=None):
    n = int(length.item()) if length is not None else len(window)
    step = int(step.item())
    window = np.ones(n) if window is None else window.astype(np.float64)
    y = _complex(x.astype(np.float64)) if x.ndim == 3 else x.astype(np.float64)
    starts = range(0, y.shape[1] - n + 1, step)
    frames = np.stack([y[:, s : s + n] * window for s in starts], 1)
    return _pairs(np.fft.rfft(frames.real) if call.attr("onesided", 1) else np.fft.fft(frames), x.dtype)


@operator("MelWeightMatrix", host=True)
def mel_weight_matrix(call, bins, length, rate, low, high):
    bins, length, rate, low, high = (float(v.item()) for v in (bins, length, rate, low, high))
    columns = int(length) // 2 + 1
    ends = 2595 * np.log10(1 + np.array([low, high]) / 700)
    line = np.arange(int(bins) + 2) * (ends[1] - ends[0]) / (int(bins) + 2) + ends[0]
    at = (700 * (10 ** (line / 2595) - 1) * (int(length) + 1) // rate).astype(int)
    out = np.zeros((columns, int(bins)))
    for i in range(int(bins)):
        first, middle, last = at[i : i + 3]
        if middle == first:
            out[middle, i] = 1
        else:
            for j in range(first, middle + 1):
                out[j, i] = (j - first) / (middle - first)
        for j in range(middle, last) if last > middle else ():
            out[j, i] = (last - j) / (last - middle)
    return out.astype(tensors.dtype_of(call.attr("output_datatype", 1)))
