# hologram_torch/precision.py: what torch.set_float32_matmul_precision lets float32 products do
import functools

import torch
from hologram import _core

EXACT, BFLOAT16, ONE_TERM, TWO_TERMS = "exact", "bfloat16", "one term", "two terms"
LEAST_WORK = 1 << 20  # multiply-adds; smaller products read their operands in place
FEW_QUERIES = 4
LEAST_ROWS = 64  # that share the conversion of a right operand which is new in each call


@functools.cache
def _treatments(device: str) -> dict:
    """What the device makes of each permission; the rest is exact."""
    if device == "cuda":
        return {"tf32": TWO_TERMS, "bf16": ONE_TERM}
    choices = _core.host_cpu()["choices"]
    made = {"tf32": TWO_TERMS} if choices["float32 high"]["path"] == "terms" else {}
    if choices["float32 medium"]["path"] == "terms":
        return {**made, "bf16": ONE_TERM}
    return {**made, "bf16": BFLOAT16} if choices["bfloat16"]["path"] == "dots" else made


@functools.cache
def _brief_attention_is_pytorchs() -> bool:
    return _core.host_cpu()["choices"]["bfloat16 attention"]["path"] == "pytorch"


def leaves_attention(dtype: str, queries, softcap: float) -> bool:
    """Whether attention without gradients is PyTorch's: bfloat16 where its kernel has instructions that ours has not. Up to
    FEW_QUERIES wait for the keys' memory, whatever computes; PyTorch's kernel has no cap of the scores."""
    few = isinstance(queries, int) and queries <= FEW_QUERIES
    return dtype == "bf16" and not few and not softcap and _brief_attention_is_pytorchs()


def allowed() -> frozenset:
    """On which types of devices PyTorch now lets float32 products have fewer bits, whatever these make of it."""
    return frozenset(device for device in _NAMES if _now(device) in ("tf32", "bf16"))


def treatment(fast=False, device="cpu") -> str:
    """How float32 products on a type of device are to be computed now; `fast` permits at least what "high" does."""
    now = _now(device)
    return _treatments(device).get("tf32" if fast and now != "bf16" else now, EXACT)


_NAMES = {"cpu": "mkldnn", "cuda": "cuda"}  # PyTorch's, of whose products on a device these are the settings


def _now(device: str) -> str:
    # What set_float32_matmul_precision, torch.backends.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision and
    # torch.backends.cuda.matmul's two switches come to for a product: "none", "ieee", "tf32" or "bf16".
    now = torch._C._get_fp32_precision_getter(_NAMES[device], "matmul")
    # PyTorch's own products on GPUs make TF32 of "medium", which permits bfloat16.
    if device == "cuda" and now == "tf32" and _now("cpu") == "bf16" and _is_medium():
        return "bf16"
    return now


def _is_medium() -> bool:
    try:
        return torch.get_float32_matmul_precision() == "medium"
    except RuntimeError:  # each was set by a switch of its own
        return False


TREATMENTS = (EXACT, BFLOAT16, ONE_TERM, TWO_TERMS)
"""What any machine makes of any permission."""


class ByPrecision:
    """A graph that was captured while fewer bits were allowed: asks in each call, and has a callable for each treatment,
    made when it is first needed."""

    def __init__(self, make, fast: bool, device: str):
        self._boxed_call = True  # an instance's: functools.wraps copies it
        first = treatment(fast, device)
        self._make, self._fast, self._device, self._calls = make, fast, device, {first: make(first)}

    def __call__(self, arguments):
        now = treatment(self._fast, self._device)
        call = self._calls.get(now)
        if call is None:
            call = self._calls[now] = self._make(now)
        return call(arguments)
