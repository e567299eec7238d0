#!/usr/bin/env python3
# tests/capi/every_function.py: every function of the C interface through ctypes
"""usage: every_function.py HEADER LIBRARY

Declares each function as the header does, calls it with zeros and null pointers, which must give a status
and no crash, and then adds two vectors.
"""

import ctypes
import re
import sys
from pathlib import Path

TYPES = {
    "hologram_handle": ctypes.c_uint64, "hologram_status": ctypes.c_int, "hologram_dtype": ctypes.c_int,
    "uint8_t": ctypes.c_uint8, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "size_t": ctypes.c_size_t, "float": ctypes.c_float,
    "double": ctypes.c_double,
}
OK, INVALID_ARGUMENT, NOT_FOUND, LAST = 0, 1, 3, 11
# Nothing can be wrong with these on zeros and nulls.
HARMLESS = {"hologram_clear_last_error", "hologram_set_log_callback", "hologram_clear_all_registries",
            "hologram_view_release", "hologram_set_num_threads", "hologram_class_neighbors"}


def declarations(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    for result, name, arguments in re.findall(
            r"HOLOGRAM_API\s+(hologram_status|const char\s*\*)\s*(hologram_\w+)\(((?:[^()]|\([^()]*\))*)\)", text):
        yield result, name, [a.strip() for a in re.split(r",(?![^(]*\))", arguments) if a.strip() != "void"]


def argument_type(argument):
    if "*" in argument or "hologram_log_function" in argument:
        return ctypes.c_void_p
    return TYPES[argument.replace("const ", "").split()[0]]


def load(header, path):
    library = ctypes.CDLL(path)
    functions = {}
    for result, name, arguments in declarations(Path(header).read_text()):
        function = getattr(library, name)
        function.restype = ctypes.c_int if result == "hologram_status" else ctypes.c_char_p
        function.argtypes = [argument_type(a) for a in arguments]
        functions[name] = function
    return functions


def main():
    f = load(*sys.argv[1:3])
    assert len(f) > 170, f"only {len(f)} declarations were read"
    for name, function in f.items():
        answer = function(*(None if t is ctypes.c_void_p else 0 for t in function.argtypes))
        if function.restype is ctypes.c_char_p:
            assert isinstance(answer, bytes), name
            continue
        message = f["hologram_last_error"]().decode()
        if name in HARMLESS:
            assert answer in (OK, INVALID_ARGUMENT), (name, answer, message)
            continue
        assert OK < answer <= LAST, (name, answer, message)
        if not name.startswith("hologram_last_error"):
            assert message.startswith(name + ": "), (name, message)

    def call(name, *arguments):
        status = f[name](*arguments)
        assert status == OK, f["hologram_last_error"]().decode()

    executor, a, b = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    call("hologram_new_executor", ctypes.byref(executor))
    n = 1000
    values = (ctypes.c_float * n)(*range(n))
    for buffer in (a, b):
        call("hologram_executor_allocate_buffer", executor, n, ctypes.byref(buffer))
    call("hologram_buffer_copy_from_bytes", executor, a, values, ctypes.sizeof(values))
    call("hologram_vector_add_f32", executor, a, a, b, n)
    pointer = ctypes.c_void_p()
    call("hologram_buffer_as_ptr", executor, b, ctypes.byref(pointer))
    shared = (ctypes.c_float * n).from_address(pointer.value)
    assert list(shared) == [2.0 * i for i in range(n)]
    call("hologram_vector_neg_f32", executor, b, b, n)
    assert shared[7] == -14.0, "the pointer shows the memory itself"
    call("hologram_executor_cleanup", executor)
    assert f["hologram_buffer_cleanup"](a) == NOT_FOUND
    print(f"every_function: {len(f)} functions")


if __name__ == "__main__":
    main()
