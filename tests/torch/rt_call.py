# tests/torch/rt_call.py: calls a method of an archive through the C interface of one library, without Python's hologram
"""usage: rt_call.py LIBRARY ARCHIVE FINGERPRINT METHOD INPUTS.npz OUTPUTS.npz [calls]   (FINGERPRINT: "-" for no trust)

Prints {"needs": shared libraries of ours that are loaded, "error": message of the first call that failed}. Inputs lie
transposed in memory where INPUTS.npz says so. With `calls`, that many calls on one session; else none has a session.
"""

import ctypes
import json
import os
import re
import sys

import numpy as np

DTYPES = {"bool": 0, "int32": 4, "int64": 5, "float32": 8, "float64": 9}  # hologram_dtype


class Failed(Exception):
    pass


class Library:
    def __init__(self, path):
        self.functions = ctypes.CDLL(path)
        self.functions.hologram_last_error.restype = ctypes.c_char_p

    def __call__(self, name, *arguments):
        if getattr(self.functions, f"hologram_{name}")(*arguments):
            raise Failed(self.functions.hologram_last_error().decode())

    def made(self, name, *arguments):
        handle = ctypes.c_uint64()
        self(name, *arguments, ctypes.byref(handle))
        return handle


def integers(values):
    return json.dumps([int(v) for v in values]).encode()


def tensor_of(library, executor, array):
    storage = array if array.flags.c_contiguous else array.T
    buffer = library.made("executor_allocate", executor, DTYPES[str(array.dtype)], ctypes.c_uint64(max(1, storage.size)), 0)
    library("buffer_copy_from_bytes", executor, buffer, storage.tobytes(), ctypes.c_size_t(storage.nbytes))
    tensor = library.made("tensor_from_buffer", buffer, integers(storage.shape))
    return tensor if storage is array else library.made("tensor_permute", tensor, integers(range(array.ndim)[::-1]))


def array_of(library, executor, handle, dtype):
    rank = ctypes.c_uint32()
    library("tensor_ndim", handle, ctypes.byref(rank))
    shape, strides = (ctypes.c_int64 * 32)(), (ctypes.c_int64 * 32)()
    library("tensor_dimensions", handle, shape, strides, ctypes.c_size_t(32), None)
    result = np.empty(tuple(shape[: rank.value]), dtype)
    library("tensor_to_bytes", executor, handle, ctypes.c_void_p(result.ctypes.data), ctypes.c_size_t(result.nbytes), None)
    return result


def call(path, archive_path, fingerprint, method, inputs, outputs, calls=None):
    library = Library(path)
    executor = library.made("new_executor_auto")
    archive = library.made("archive_open", archive_path.encode(), 0)
    if fingerprint != "-":
        library("archive_trust", archive, fingerprint.encode())
    session = library.made("archive_session", archive) if calls else ctypes.c_uint64(0)
    executable = library.made("archive_method", archive, executor, method.encode(), session)
    needed = ctypes.c_size_t()
    library("archive_info", archive, None, ctypes.c_size_t(0), ctypes.byref(needed))
    text = ctypes.create_string_buffer(needed.value)
    library("archive_info", archive, text, needed, None)
    names = {"b8": "bool", "i32": "int32", "i64": "int64", "f32": "float32", "f64": "float64"}
    dtypes = [names[r["dtype"]] for r in json.loads(text.value)["methods"][method]["results"]]
    with np.load(inputs) as file:
        arrays = [file[name] for name in file.files]
    handles = (ctypes.c_uint64 * len(arrays))(*[tensor_of(library, executor, a).value for a in arrays])
    results = (ctypes.c_uint64 * len(dtypes))()
    for _ in range(int(calls or 1)):
        for i in range(len(dtypes)):
            results[i] = 0
        library("executable_run", executable, handles, ctypes.c_size_t(len(arrays)), results, ctypes.c_size_t(len(dtypes)))
    np.savez(outputs, *[array_of(library, executor, ctypes.c_uint64(h), d) for h, d in zip(results, dtypes)])


if __name__ == "__main__":
    error = None
    try:
        call(*sys.argv[1:])
    except Failed as failed:
        error = str(failed)
    with open("/proc/self/maps") as maps:
        loaded = {os.path.basename(line.split()[-1]) for line in maps if re.search(r"hologram|LLVM|torch", line.rsplit("/", 1)[-1])}
    print(json.dumps({"needs": sorted(loaded), "error": error}))
