# hologram/onnx/tensors.py: element types and constants of ONNX models as NumPy's
# mypy: ignore-errors
import math
import os
import stat

import numpy as np

from hologram.onnx import wire

_OWN = {
    "FLOAT": "float32", "DOUBLE": "float64", "STRING": "object", "FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2", "FLOAT8E5M2FNUZ": "float8_e5m2fnuz", "FLOAT8E8M0": "float8_e8m0fnu", "FLOAT4E2M1": "float4_e2m1fn",
}  # fmt: skip
_NAMES = [_OWN.get(name, name.lower()) for name in wire.TYPES]  # NumPy's and ml_dtypes', by number
_BITS = {1: np.uint8, 2: np.uint16}  # what floats of so many bytes are written as


class Folder:
    """The folder of a model. used: files in it that were read; own: the model's file, as parts.Parts."""

    def __init__(self, path, own):
        self.path, self.used, self.own = path, set(), own


def of_ml_dtypes(name):
    """What the package ml_dtypes, which is slow to import, has of the name, or None."""
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(f"hologram.from_onnx needs the package ml_dtypes for {name}: pip install 'hologram-compute[onnx]'") from error
    return getattr(ml_dtypes, name, None)


def dtype_of(number):
    """NumPy's dtype of a TensorProto.DataType; NotImplementedError for what NumPy has nothing for."""
    name = _NAMES[number] if 0 < number < len(_NAMES) else str(number)
    own = name if name in np.sctypeDict else of_ml_dtypes(name) if name in _NAMES else None
    if own is None:
        raise NotImplementedError(f"tensors of type {name} are not supported")
    return np.dtype(own)


def number_of(dtype):
    """The TensorProto.DataType of a dtype."""
    return _NAMES.index(np.dtype(dtype).name)


def array_of(tensor, folder):
    """The values of a TensorProto, read-only; those in a model's file are there after folder.own.finish(). External data is mapped, from
    below `folder` alone."""
    dtype = dtype_of(tensor.data_type)
    shape = tuple(tensor.dims)
    if tensor.data_location == wire.EXTERNAL:
        return _external(tensor, dtype, shape, folder)
    count = math.prod(shape)
    raw = tensor.raw_data if tensor.HasField("raw_data") else None
    bits = _packed(dtype)
    if isinstance(raw, memoryview) and not bits:
        raw = folder.own.place(raw)
    if dtype == object:
        array = np.array([bytes(s).decode("utf-8", "replace") for s in tensor.string_data], object)
    elif bits:
        data = np.array(tensor.int32_data, np.int64).astype(np.uint8) if raw is None else np.frombuffer(raw, np.uint8)
        array = _unpacked(data, bits, count, dtype)
    elif raw is not None:
        array = np.frombuffer(raw, dtype) if len(raw) == count * dtype.itemsize else None
    else:
        array = _listed(tensor, dtype)
    if array is None or array.size != count:
        raise ValueError(f"from_onnx: tensor {tensor.name!r}: its data are not {count} elements of {dtype}")
    array = array.reshape(shape)
    array.setflags(write=False)
    return array


def _listed(tensor, dtype):
    """Elements that the file has as numbers, halves and what is smaller as the bits of an integer."""
    if dtype.kind == "c":
        parts = tensor.float_data if dtype == np.complex64 else tensor.double_data
        return np.array(parts, f"f{dtype.itemsize // 2}").view(dtype)
    own = {"float32": "float_data", "float64": "double_data", "int64": "int64_data", "uint32": "uint64_data", "uint64": "uint64_data"}
    numbers = getattr(tensor, own.get(dtype.name, "int32_data"))
    if dtype.name in ("float32", "float64"):
        return np.array(numbers, dtype)
    numbers = np.array([int(n) & (1 << 64) - 1 for n in numbers], np.uint64)
    return numbers.astype(dtype) if dtype.kind in "iub" else numbers.astype(_BITS[dtype.itemsize]).view(dtype)


def _unpacked(data, bits, count, dtype):
    """Elements of a few bits each, the first in the lowest bits of the first byte."""
    parts = np.stack([data >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], axis=-1).reshape(-1)[:count]
    if dtype.name.startswith("int"):
        parts = (parts ^ (1 << bits - 1)).astype(np.int8) - np.int8(1 << bits - 1)
    return parts.view(dtype) if dtype.kind == "V" and dtype.name.startswith("float") else parts.astype(dtype)


def _packed(dtype):
    """Bits of an element where several share a byte, else None."""
    return {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}.get(dtype.name)


def _external(tensor, dtype, shape, folder):
    entries = {entry.key: entry.value for entry in tensor.external_data}
    where = f"tensor {tensor.name!r}"
    if folder is None:
        raise ValueError(f"from_onnx: {where} has external data, which belongs to a file: pass the model's path")
    if _packed(dtype):
        raise NotImplementedError(f"from_onnx: {where}: external data of {dtype} is not supported")
    path = _confined(entries.get("location", ""), folder, where)
    offset = int(entries.get("offset", 0))
    count = int(np.prod(shape, dtype=np.int64))
    length = int(entries.get("length", count * dtype.itemsize))
    if length != count * dtype.itemsize:
        raise ValueError(f"from_onnx: {where}: {length} bytes of external data, expected {count * dtype.itemsize}")
    if offset < 0 or offset + length > os.path.getsize(path):
        raise ValueError(f"from_onnx: {where}: its external data ends beyond {entries['location']!r}")
    if count == 0:
        return np.zeros(shape, dtype)
    if offset % dtype.itemsize:
        data = np.memmap(path, np.uint8, "r", offset, (length,))
        return np.frombuffer(data.tobytes(), dtype).reshape(shape)
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


def _confined(location, folder, where):
    """The file that a model names for its data: a regular one below the model's folder, reached through no link."""
    parts = location.replace("\\", "/").split("/")
    if not location or os.path.isabs(location) or ".." in parts or ":" in parts[0] or "\0" in location:
        raise ValueError(f"from_onnx: {where}: external data in {location!r}, which is not below the model's folder")
    path = folder.path
    for part in parts:
        path = os.path.join(path, part)
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            raise FileNotFoundError(f"from_onnx: {where}: its external data {location!r} is missing") from None
        if stat.S_ISLNK(mode):
            raise ValueError(f"from_onnx: {where}: external data in {location!r}, which is a link")
    if not stat.S_ISREG(mode):
        raise ValueError(f"from_onnx: {where}: external data in {location!r}, which is no file")
    folder.used.add(path)
    return path
