# hologram_torch/lines.py: which line of the user's program an operator comes from
import os
import re

import torch

_FRAME = re.compile(r'^ *File "(.*)", line (\d+).*(?:\n(?! *File) *(.*))?', re.MULTILINE)
_PYTORCH = os.path.dirname(torch.__file__) + os.sep


def of(node) -> str:
    """"file.py:12: y = x.max()", the innermost line outside of PyTorch that led to a node of a captured graph; "" where
    PyTorch recorded none."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    outside = [frame for frame in frames if not frame[0].startswith(_PYTORCH)] or frames
    if not outside:
        return ""
    path, number, text = outside[-1]
    return f"{path}:{number}: {text.strip()}".rstrip(": ")


def at(where: str) -> str:
    """The line as it ends a message."""
    return f" ({where})" if where else ""
