# hologram_torch/capture/forms.py: what operators that are written as others have in common
import torch

WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}  # in which sums of halves are made


def widened(x):
    return x.to(WIDE.get(x.dtype, x.dtype))


def known(*sizes) -> bool:
    return all(type(n) is int for n in sizes)


def cubic_weights(t):
    """Of the pixels before, at, behind and two behind a place that lies t behind one."""
    near, far = (lambda t: (1.25 * t - 2.25) * t * t + 1), (lambda t: ((-0.75 * t + 3.75) * t - 6.0) * t + 3.0)
    return far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)
