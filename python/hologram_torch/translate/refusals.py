# hologram_torch/translate/refusals.py: operands that eager's own kernel refuses
"""Tracing knows shapes and types alone, so a graph may hold an operator on a dtype that eager's kernel lacks, or on no
elements. Native kernels and decompositions would compute something. Which dtypes an operator takes is written in PyTorch's
kernels alone and changes from version to version; so the operator is asked, on the processor, with a few zeros, once for
each combination of types. What it refuses stays whole and with PyTorch, whose error it then is."""

import contextlib
import functools
import threading

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import counters
from ..graph.symbols import Unsupported, hint

_USUAL = frozenset((torch.float32, torch.float64))  # every operator with a native kernel takes them
_HALVES = frozenset((torch.float16, torch.bfloat16))
_LACK_HALVES = frozenset((  # of PyTorch 2.10 or later; every other one takes them, and asking costs kernels of oneDNN's
    "_cdist_forward", "_cdist_backward", "_pdist_forward", "avg_pool3d", "avg_pool3d_backward", "multi_margin_loss",
    "multilabel_margin_loss_forward", "polar", "polygamma", "round", "rrelu_with_noise", "special_airy_ai", "special_erfcx",
    "special_spherical_bessel_j0", "special_log_ndtr", "special_ndtri", "special_zeta", "_upsample_bilinear2d_aa",
    *(f"special_{kind}{order}" for order in (0, 1) for kind in ("bessel_j", "bessel_y", "modified_bessel_i", "modified_bessel_k",
                                                                "scaled_modified_bessel_k")),
))  # fmt: skip
_INDICES = frozenset(("index", "indices", "repeats"))  # tensors that take no floats
# Types that an operator usually takes, for its integers and its truth values: as indices and masks, as data, as both.
_TAKEN = (torch.int64, torch.bool), (torch.float32, torch.float32), (torch.int64, torch.float32)
_EXACT = 1 << 16  # elements of operands that are made as they are
_SHORT = 8  # axes of larger operands are cut to so many

# What eager says of numbers rather than of types and shapes.
_OF_VALUES = "ZeroDivision", "Expected all rows of lengths", "allocated size does not match", "Pivots given to lu_solve", "lu_unpack"

_answers = {}
_inside = threading.local()


@contextlib.contextmanager
def inside():
    """While a decomposition runs: its parts are asked nothing, since eager runs the whole operator."""
    before, _inside.now = getattr(_inside, "now", False), True
    try:
        yield
    finally:
        _inside.now = before


def of(target, args, kwargs, out=None) -> str | None:
    """Why eager refuses the operator with these (fake) tensors, or None. out: what tracing says of its results."""
    if getattr(_inside, "now", False) or not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    seen = _Seen((args, kwargs, out), _usual(target))
    # Most kernels want floats of one type. Those of gradients may be given what tracing says of means, where eager's are wider.
    mixed = len(seen.floats) > 1 and "backward" not in target._schema.name
    if not (seen.unusual or mixed) or target._schema.is_mutable:
        return None
    key = (target, seen.signature(args), seen.signature(kwargs))
    if seen.empty:
        return _ask(target, args, kwargs, False)
    if key not in _answers:
        _answers[key] = _ask(target, args, kwargs, seen.elements > _EXACT)
    return _answers[key]


@functools.cache
def _usual(target):
    """Types that need no question."""
    if any(a.name in _INDICES and "Tensor" in str(a.type) for a in target._schema.arguments):
        return frozenset()
    return _USUAL if target.overloadpacket.__name__ in _LACK_HALVES else _USUAL | _HALVES


def _example(n) -> int:
    """The example value of a size, or 2 of one that is data."""
    try:
        return hint(n)
    except Unsupported:
        return 2


class _Seen:
    """What the tensors of a tree of arguments are like."""

    def __init__(self, tree, usual):
        self._usual = usual
        self.elements, self.empty, self.unusual, self.floats = 0, False, False, set()
        self._look(tree)

    def _look(self, x):
        if isinstance(x, torch.Tensor):
            sizes = x.shape
            self.empty |= any(type(n) is int and n == 0 for n in sizes)
            self.unusual |= self.empty or x.device.type == "cpu" and x.dtype not in self._usual
            if x.dtype.is_floating_point and x.device.type == "cpu":
                self.floats.add(x.dtype)
            count = 1
            for n in sizes:
                count *= _example(n)
            self.elements += count
        elif isinstance(x, (list, tuple)):
            for y in x:
                self._look(y)
        elif isinstance(x, dict):
            for y in x.values():
                self._look(y)
        elif isinstance(x, torch.dtype):
            self.unusual |= x not in self._usual

    def signature(self, x):
        """What decides which kernel an operator takes: dtypes, ranks, kinds of numbers and words."""
        if isinstance(x, torch.Tensor):
            return x.dtype, len(x.shape)
        if isinstance(x, (list, tuple)):
            return tuple(self.signature(y) for y in x)
        if isinstance(x, dict):
            return tuple((k, self.signature(y)) for k, y in x.items())
        return x if x is None or isinstance(x, (bool, str, torch.dtype)) else type(x)


def _ask(target, args, kwargs, cut) -> str | None:
    error = _raised(target, args, kwargs, _Made(cut))
    if error is None or any(words in str(error) for words in _OF_VALUES):
        return None
    # Numbers that go with the sizes that were cut may be wrong ones: they are so with other types too.
    if cut and not isinstance(error, NotImplementedError) and all(_raised(target, args, kwargs, _Made(cut, taken)) for taken in _TAKEN):
        return None
    counters.log.debug("eager refuses %s: %s", target, error)
    return f"eager refuses it: {str(error).splitlines()[0]}" if str(error) else "eager refuses it"


def _raised(target, args, kwargs, made):
    try:
        with _disable_current_modes(), torch.no_grad(), _same_numbers(target):
            target(*made(args), **made(kwargs))
    except Exception as error:
        return error
    return None


@contextlib.contextmanager
def _same_numbers(target):
    """The generator's state stays as it is."""
    state = torch.get_rng_state() if torch.Tag.nondeterministic_seeded in target.tags else None
    try:
        yield
    finally:
        if state is not None:
            torch.set_rng_state(state)


class _Made:
    """Real arguments like the traced ones; `cut`: with short axes; `taken`: of types that most operators take."""

    def __init__(self, cut, taken=None):
        self.cut, self.taken = cut, taken

    def dtype(self, given):
        if self.taken is None:
            return given
        integers, truths = self.taken
        return torch.float32 if given.is_floating_point or given.is_complex else truths if given == torch.bool else integers

    def size(self, n):
        n = _example(n)
        return min(n, _SHORT) if self.cut else n

    def __call__(self, x):
        if isinstance(x, torch.Tensor):
            return torch.zeros([self.size(n) for n in x.shape], dtype=self.dtype(x.dtype))
        if isinstance(x, (list, tuple)):
            return [self(y) for y in x]
        if isinstance(x, dict):
            return {k: self(y) for k, y in x.items()}
        if isinstance(x, torch.device):
            return torch.device("cpu")
        if isinstance(x, torch.SymInt):
            return self.size(x)
        return x
