# hologram/ops.py: functions on the buffers of one executor
"""Functions on buffers: results are written, nothing is allocated.

All take the executor first and read and write the first `n` elements, by default all of them. The buffers have one dtype; on
float32 each call is one native kernel that came with the library. Element-wise results may be an operand itself.
"""

from hologram import _core

__all__ = sorted(name for name in vars(_core.buffer_ops) if not name.startswith("_"))

globals().update({name: getattr(_core.buffer_ops, name) for name in __all__})
