# hologram_ffi/__init__.py: the C interface as a flat Python module
"""Every function of hologram/hologram.h under its name without the prefix, on handles that are plain integers.

    import hologram_ffi as hg

    executor = hg.new_executor()
    a, b, c = (hg.executor_allocate_buffer(executor, 1024) for _ in range(3))
    hg.buffer_copy_from_bytes(executor, a, data)
    hg.vector_add_f32(executor, a, b, c, 1024)
    hg.buffer_to_bytes(executor, c)
    hg.executor_cleanup(executor)

Out-parameters of the C function are returned (several as a tuple) and a failed status is raised: ValueError, MemoryError,
NotImplementedError, OSError, ZeroDivisionError or HologramError. Cleaning up twice is a RuntimeWarning. Only
new_executor_with_backend returns 0 and leaves the reason in last_error_message(). Handles are those of hologram.Executor and
hologram.Buffer.
"""

from hologram import HologramError, _core

__all__ = sorted(["HologramError", *(name for name in vars(_core.ffi) if not name.startswith("_"))])

globals().update({name: getattr(_core.ffi, name) for name in __all__ if name != "HologramError"})
