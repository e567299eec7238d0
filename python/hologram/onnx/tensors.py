# hologram/onnx/tensors.py: element types and constants of ONNX models as NumPy's
# mypy: ignore-errors
import os
import stat

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

_NUMPY = {
    TensorProto.BOOL: np.bool_, TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16, TensorProto.INT8: np.int8, TensorProto.INT16: np.int16, TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64, TensorProto.UINT8: np.uint8, TensorProto.UINT16: np.uint16, TensorProto.UINT32: np.uint32,
    TensorProto.UINT64: np.uint64, TensorProto.COMPLEX64: np.complex64, TensorProto.COMPLEX128: np.complex128,
}  # fmt: skip
_NARROW = {
    "FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E4M3FNUZ": "float8_e4m3fnuz", "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz", "FLOAT8E8M0": "float8_e8m0fnu", "INT4": "int4", "UINT4": "uint4",
    "FLOAT4E2M1": "float4_e2m1fn", "INT2": "int2", "UINT2": "uint2",
}  # fmt: skip
for _name, _own in _NARROW.items():
    if hasattr(TensorProto, _name) and hasattr(ml_dtypes, _own):
        _NUMPY[getattr(TensorProto, _name)] = getattr(ml_dtypes, _own)


class Folder(str):
    """The folder of a model. used: files in it that were read."""

    def __init__(self, path):
        self.used = set()


def dtype_of(number):
    """NumPy's dtype of a TensorProto.DataType; NotImplementedError for strings and what NumPy has nothing for."""
    if number not in _NUMPY:
        raise NotImplementedError(f"tensors of type {TensorProto.DataType.Name(number).lower()} are not supported")
    return np.dtype(_NUMPY[number])


def number_of(dtype):
    """The TensorProto.DataType of a dtype."""
    return next(number for number, own in _NUMPY.items() if np.dtype(own) == dtype)


def array_of(tensor, folder):
    """The values of a TensorProto, read-only. External data is mapped, from below `folder` alone."""
    dtype = dtype_of(tensor.data_type)
    shape = tuple(tensor.dims)
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, dtype, shape, folder)
    if tensor.HasField("raw_data") and dtype.itemsize * int(np.prod(shape)) == len(tensor.raw_data) and not _packed(dtype):
        return np.frombuffer(tensor.raw_data, dtype=dtype).reshape(shape)
    array = onnx.numpy_helper.to_array(tensor)
    array = np.asarray(array if array.dtype == dtype else array.astype(dtype))
    array.setflags(write=False)
    return array


def _packed(dtype):
    return dtype.name in ("int4", "uint4", "float4_e2m1fn", "int2", "uint2")


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
    path = os.path.abspath(folder)
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
