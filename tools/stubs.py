# tools/stubs.py: writes the type stubs of the Python packages from the built module
"""Usage: PYTHONPATH=build/release/python python tools/stubs.py [--check]

Writes python/hologram/_core.pyi, python/hologram/ops.pyi and python/hologram_ffi/__init__.pyi; with --check it only says
which of them differ from what the module is.
"""

import ast
import inspect
import pathlib
import sys

from hologram import _core
from nanobind.stubgen import StubGen

ROOT = pathlib.Path(__file__).resolve().parent.parent / "python"
CORE_HEAD = '''# hologram/_core.pyi: types of the native module's public part; written by tools/stubs.py
"""Native part of the hologram package. Only what the package re-exports is typed; the rest is internal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

from numpy.typing import NDArray
from typing_extensions import Self

if TYPE_CHECKING:
    from hologram.backend import BackendType

class _Named(Protocol):
    @property
    def name(self) -> str: ...

DTypeLike = Union[str, type[Any], _Named, None]

__version__: str
buffer_ops: Any
ffi: Any
sigmatics: Any
atlas: Any

class HologramError(RuntimeError): ...

def version() -> str: ...
def op_table() -> list[dict[str, Any]]: ...
def numpy_dtype(dtype: DTypeLike) -> Any: ...
def memory_at(address: int, bytes: int, owner: object) -> memoryview: ...
def __getattr__(name: str) -> Any: ...

'''
OPS_HEAD = '''# hologram/ops.pyi: types of hologram.ops; written by tools/stubs.py
"""{doc}"""

from typing import Optional, overload

from hologram._core import Buffer, Executor
from hologram.stream import Stream

'''
FFI_HEAD = '''# hologram_ffi/__init__.pyi: types of hologram_ffi; written by tools/stubs.py
"""{doc}"""

from collections.abc import Sequence

from hologram import HologramError as HologramError

'''
BUFFERS = {"a", "b", "c", "x", "y", "input", "output", "pred", "target"}


def stub_of(module):
    generator = StubGen(module=module, include_docstrings=True, quiet=True)
    generator.put(module)
    return generator.get()


def classes(source, names):
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            yield "\n".join(lines[node.lineno - 1 : node.end_lineno])


def core():
    text = CORE_HEAD + "\n\n".join(classes(stub_of(_core), ["Executor", "Buffer"])) + "\n"
    return text + "\n    def __buffer__(self, flags: int, /) -> memoryview: ...\n"


def ops():
    import hologram.ops

    out = [OPS_HEAD.format(doc=hologram.ops.__doc__)]
    for name in hologram.ops.__all__:
        function = getattr(_core.buffer_ops, name)
        result = "float" if name.startswith("reduce") or name.endswith("loss") else "None"
        product = name in ("gemm", "matvec")
        parts, late = [], "*, stream: Optional[Stream] = None"
        for p in inspect.signature(function).parameters:
            if p == "executor":
                parts.append("executor: Executor")
            elif p in BUFFERS:
                parts.append(f"{p}: Buffer")
            elif p == "n" and not product:
                parts.append("n: Optional[int] = None")
            elif p == "stream":
                continue
            else:
                parts.append(f"{p}: {'int' if product else 'float'}")
        doc = "\n".join(f"    {line}".rstrip() for line in function.__doc__.splitlines()).strip()
        if result == "float":
            given = ", ".join(parts)
            out.append(f"@overload\ndef {name}({given}, *, stream: Stream) -> None: ...")
            out.append("@overload")
            late = "*, stream: None = None"
        parts.append(late)
        out.append(f'def {name}({", ".join(parts)}) -> {result}:\n    """{doc}\n    """\n')
    return "\n".join(out)


def ffi():
    import hologram_ffi

    source = stub_of(_core.ffi)
    lines = source.splitlines()
    functions = [
        "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    ]
    return FFI_HEAD.format(doc=hologram_ffi.__doc__) + "\n\n".join(functions) + "\n"


STUBS = {"hologram/_core.pyi": core, "hologram/ops.pyi": ops, "hologram_ffi/__init__.pyi": ffi}


def stale():
    """Names of the stubs that differ from the module."""
    return [name for name, make in STUBS.items() if (ROOT / name).read_text() != make()]


def main(arguments):
    if arguments == ["--check"]:
        names = stale()
        for name in names:
            print(f"{name} is not what the module is; run tools/stubs.py")
        return len(names)
    for name, make in STUBS.items():
        (ROOT / name).write_text(make())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
