# hologram_torch/precision.py: what torch.set_float32_matmul_precision lets float32 products do
import functools

import torch
from hologram import _core

EXACT, BFLOAT16, ONE_TERM, TWO_TERMS = "exact", "bfloat16", "one term", "two terms"
LEAST_WORK = 1 << 20  # multiply-adds; smaller products read their operands in place
LEAST_ROWS = 64  # that share the conversion of a right operand which is new in each call


@functools.cache
def _treatments() -> dict:
    """What this machine makes of each permission; the rest is exact."""
    host = _core.host_cpu()
    if host["isa"] == "amx":
        return {"tf32": TWO_TERMS, "bf16": ONE_TERM}
    return {"bf16": BFLOAT16} if "avx512bf16" in host["features"] else {}


def allowed() -> bool:
    """Whether PyTorch now lets float32 products have fewer bits, whatever this machine makes of it."""
    return _now() in ("tf32", "bf16")


def treatment(fast=False) -> str:
    """How float32 products are to be computed now; `fast` permits at least what "high" does."""
    now = _now()
    return _treatments().get("tf32" if fast and now != "bf16" else now, EXACT)


def _now() -> str:
    # What set_float32_matmul_precision, torch.backends.fp32_precision and torch.backends.mkldnn.matmul.fp32_precision
    # come to for a product on the CPU: "none", "ieee", "tf32" or "bf16".
    return torch._C._get_fp32_precision_getter("mkldnn", "matmul")


TREATMENTS = (EXACT, BFLOAT16, ONE_TERM, TWO_TERMS)
"""What any machine makes of any permission."""


class ByPrecision:
    """A graph that was captured while fewer bits were allowed: asks in each call, and has a callable for each treatment,
    made when it is first needed."""

    def __init__(self, make, fast: bool):
        self._boxed_call = True  # an instance's: functools.wraps copies it
        first = treatment(fast)
        self._make, self._fast, self._calls = make, fast, {first: make(first)}

    def __call__(self, arguments):
        now = treatment(self._fast)
        call = self._calls.get(now)
        if call is None:
            call = self._calls[now] = self._make(now)
        return call(arguments)
