# hologram_torch/capture/forms.py: what operators that are written as others have in common
import torch

WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}  # in which sums of halves are made


def widened(x):
    return x.to(WIDE.get(x.dtype, x.dtype))


def known(*sizes) -> bool:
    return all(type(n) is int for n in sizes)
