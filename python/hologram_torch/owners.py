# hologram_torch/owners.py: whose kernels compute a GPU's products, convolutions, attention and long sorts, and why
"""Ours, or PyTorch's: cuBLAS, cuDNN and its own. Graphs are captured and translated by what is said here, and explain()
shows it."""

import dataclasses

from .options import Options

KINDS = ("products", "convolutions", "attention", "long sorts")  # long: of rows of more than 2,048 elements


@dataclasses.dataclass(frozen=True)
class Choice:
    own: bool
    why: str

    def __str__(self) -> str:
        return f"{'own' if self.own else 'pytorch'} ({self.why})"


_UNMEASURED = Choice(False, "no GPU has measured both")
# Where nobody asks for either: what measurements or bounds say of each kind.
_USUAL = {"products": _UNMEASURED, "convolutions": _UNMEASURED, "attention": _UNMEASURED, "long sorts": _UNMEASURED}


def choose(kind: str, options: Options) -> Choice:
    """Whose kernels compute one of the KINDS."""
    if options.native_products is not None:
        return Choice(options.native_products, "asked for by native_products or HOLOGRAM_CUDA_PRODUCTS")
    if options.reproducible:
        return Choice(True, "reproducible; PyTorch's have other bits")
    return _USUAL[kind]


def own(options: Options) -> frozenset:
    """The kinds that are ours."""
    return frozenset(kind for kind in KINDS if choose(kind, options).own)
