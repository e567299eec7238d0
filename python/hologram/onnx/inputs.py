# hologram/onnx/inputs.py: what a model takes, and arrays of a call compared with it
# mypy: ignore-errors
import numpy as np


class Input:
    """An input of a model. dims: by axis a number, the name of a size, or None; dtype None: a sequence or optional."""

    def __init__(self, name, dtype, dims, sequence=False, optional=False):
        self.name, self.dtype, self.dims, self.sequence, self.optional = name, dtype, dims, sequence, optional

    def __str__(self):
        dims = "…" if self.dims is None else ", ".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.name}: {self.dtype}[{dims}]"

    def take(self, value, sizes):
        """The array of a call, checked. sizes: what names have been so far in this call."""
        if value is None and self.optional:
            return None
        if self.sequence:
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"input {self.name!r}: expected a list of arrays, got {type(value).__name__}")
            return [self._array(part) for part in value]
        array = self._array(value)
        if self.dims is not None:
            self._check(array.shape, sizes)
        return array

    def _array(self, value):
        if type(value) is np.ndarray and value.dtype == self.dtype:
            return value
        array = np.asarray(value)
        if array.dtype != self.dtype:
            if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
                raise TypeError(f"input {self.name!r}: expected {self.dtype}, got {array.dtype}")
            array = array.astype(self.dtype)
        return array

    def _check(self, shape, sizes):
        fits = len(shape) == len(self.dims)
        for n, dim in zip(shape, self.dims):
            fits = fits and (dim is None or n == (dim if isinstance(dim, int) else sizes.setdefault(dim, n)))
        if not fits:
            named = {dim: sizes[dim] for dim in self.dims if isinstance(dim, str) and dim in sizes}
            beside = f" with {named}" if named else ""
            raise ValueError(f"input {self.name!r}: expected the shape of {self}{beside}, got {list(shape)}")

    def named(self):
        """The sizes: numbers and names, also for those that the model leaves unknown."""
        return [f"{self.name}_{axis}" if d is None else d for axis, d in enumerate(self.dims)]
