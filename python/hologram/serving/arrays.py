# hologram/serving/arrays.py: arrays of requests and answers as NumPy's files
"""A body is a .npy file, or a .npz file with an array for each name. Errors are ValueErrors that name the array."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.lib import format as npy

NPY, NPZ = "application/x-npy", "application/x-npz"


def read(method: Any, body: bytes, kind: str, limit: int) -> list[Any]:
    """The arrays of a body in the order of the method's inputs; of a .npz file at most `limit` bytes, unpacked."""
    names = [i["name"] for i in method.inputs]
    if kind == NPY:
        if len(names) != 1:
            raise ValueError(f"expected a .npz file with {', '.join(names)}, got a .npy file, which has one array")
        return [_array(names[0], body)]
    return _arrays(names, body, limit)


def _arrays(names: list[str], body: bytes, limit: int) -> list[Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as file:
            members = {info.filename.removesuffix(".npy"): info for info in file.infolist()}
            if members.keys() != set(names):
                raise ValueError(f"expected a .npz file with {', '.join(names)}, got {', '.join(members) or 'an empty one'}")
            total = sum(info.file_size for info in members.values())
            if total > limit:
                raise ValueError(f"expected at most {limit} bytes in the .npz file, got {total}")
            return [_array(name, file.read(members[name])) for name in names]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"expected a .npz file with {', '.join(names)}: {error}") from None


def _array(name: str, data: bytes) -> Any:
    """Shares the bytes."""
    stream = io.BytesIO(data)
    try:
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, fortran, dtype = readers[npy.read_magic(stream)](stream)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{name}: expected a .npy file of version 1 or 2: {error}") from None
    if dtype == np.dtype("V2"):  # how NumPy writes ml_dtypes' bfloat16
        dtype = np.dtype(np.uint16)
    if dtype.kind not in "biufc":
        raise ValueError(f"{name}: expected numbers, got an array of {dtype}")
    expected, got = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if expected != got or min(shape, default=0) < 0:
        raise ValueError(f"{name}: expected {expected} bytes for {dtype}{list(shape)}, got {got}")
    return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape, order="F" if fortran else "C")


def written(method: Any, results: list[Any], kind: str) -> bytes:
    """A .npy file of the only result, or a .npz file of all by their names."""
    stream = io.BytesIO()
    if kind == NPZ:
        np.savez(stream, **{r["name"]: values for r, values in zip(method.results, results)})
    elif len(results) != 1:
        raise ValueError(f"a .npy file holds one array, and there are {len(results)} results: accept {NPZ} or application/json")
    else:
        np.save(stream, results[0])
    return stream.getvalue()
