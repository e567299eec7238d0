"""``hologram atlas``: programs of the Atlas instruction set."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hologram import _core
from hologram._commands.common import Failure, add, group, integer, located, read_array, read_bytes, show

_native: Any = _core.atlas
FILE = ("file", {"metavar": "FILE", "help": "text or binary form, or - for standard input"})

#: Element types whose arrays NumPy does not have travel as unsigned integers of their size.
_NUMPY = {"b8": "bool", "bf16": "uint16", "f16": "float16", "f32": "float32", "f64": "float64"}
_BOUNDARY_BYTES = 96 * 12288


def _dtype(name: str) -> np.dtype[Any]:
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    kinds = {"i": "int", "u": "uint"}
    if name[:1] in kinds and name[1:] in ("8", "16", "32", "64"):
        return np.dtype(kinds[name[0]] + name[1:])
    raise Failure(f"element type {name!r} is unknown")


def _verify(args: argparse.Namespace) -> int:
    data = read_bytes(args.file)
    with located(data):
        _native.verify(data)
    print(json.dumps({"ok": True, "layer": _native.describe(data)["layer"]}))
    return 0


def _write(args: argparse.Namespace, content: bytes) -> None:
    if args.output:
        Path(args.output).write_bytes(content)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)


def _assemble(args: argparse.Namespace) -> int:
    data = read_bytes(args.file)
    with located(data):
        binary: bytes = _native.assemble(data)
        _native.verify(binary)
    if args.json or args.output:
        if args.output:
            _write(args, binary)
        show({"ok": True, "bytes": len(binary), "output": args.output}, True)
    else:
        _write(args, binary)
    return 0


def _disassemble(args: argparse.Namespace) -> int:
    data = read_bytes(args.file)
    with located(data):
        text: str = _native.disassemble(data)
    if args.output:
        _write(args, text.encode())
    if args.json or args.output:
        show({"ok": True, "text": text, "output": args.output}, True)
    else:
        print(text, end="")
    return 0


def _pairs(items: list[str], what: str) -> dict[str, str]:
    pairs = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise Failure(f"{what} must be NAME=VALUE, not {item!r}")
        pairs[name] = value
    return pairs


def _flat(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view(np.uint8)


def _load(path: str) -> np.ndarray[Any, Any]:
    array = read_array(path)
    if array.dtype.hasobject or not array.dtype.isnative:
        raise Failure(f"{path}: arrays of {array.dtype} cannot be passed")
    return np.array(array, order="C", copy=True)


class _Buffers:
    """Named arrays from and to files."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.sources = _pairs(args.inputs, "--in")
        self.targets = _pairs(args.outputs, "--out")
        self.zeros = _pairs(args.zeros, "--zeros")
        self.arrays: dict[str, np.ndarray[Any, Any]] = {name: _load(path) for name, path in self.sources.items()}
        for name, form in self.zeros.items():
            kind, colon, count = form.partition(":")
            if not colon:
                raise Failure(f"--zeros must be NAME=TYPE:COUNT, not {name}={form!r}")
            self.arrays[name] = np.zeros(integer(count, "COUNT"), _dtype(kind))

    def check_names(self, known: list[str]) -> None:
        for name in [*self.arrays, *self.targets]:
            if name not in known:
                raise Failure(f"the program has no buffer {name!r}; it has {', '.join(known) or 'none'}")

    def save(self) -> dict[str, Any]:
        saved = {}
        for name, path in self.targets.items():
            array = self.arrays[name]
            np.save(path, array, allow_pickle=False)
            saved[name] = {"file": path, "dtype": str(array.dtype), "shape": list(array.shape)}
        return saved


def _symbols(args: argparse.Namespace, info: dict[str, Any], buffers: _Buffers) -> list[int]:
    given = {name: integer(value, name) for name, value in _pairs(args.symbols, "--symbol").items()}
    values = []
    for k in range(info["symbols"]):
        name = f"s{k}"
        for number, buffer in enumerate(info["buffers"]):
            if name not in given and buffer["extent"] == name and f"b{number}" in buffers.arrays:
                given[name] = buffers.arrays[f"b{number}"].size
        if name not in given:
            raise Failure(f"the size {name} is not known: --symbol {name}=VALUE")
        values.append(given[name])
    unknown = set(given) - {f"s{k}" for k in range(info["symbols"])}
    if unknown:
        raise Failure(f"the program has no symbol {min(unknown)!r}")
    return values


def _run_block(args: argparse.Namespace, data: bytes, info: dict[str, Any], runtime: Any) -> dict[str, Any]:
    buffers = _Buffers(args)
    buffers.check_names([f"b{k}" for k, b in enumerate(info["buffers"]) if b["access"] != "scratch"])
    symbols = _symbols(args, info, buffers)
    passed = []
    for number, buffer in enumerate(_native.describe(data, symbols)["buffers"]):
        if buffer["access"] == "scratch":
            continue
        name, dtype = f"b{number}", _dtype(buffer["dtype"])
        if name not in buffers.arrays:
            if buffer["access"] == "read":
                raise Failure(f"the program reads buffer {name!r}: --in {name}=FILE.npy")
            buffers.arrays[name] = np.zeros(max(buffer["elements"], 0), dtype)
        array = buffers.arrays[name]
        if array.dtype != dtype:
            raise Failure(f"buffer {name!r} holds {buffer['dtype']} (NumPy's {dtype}), not {array.dtype}")
        passed.append(_flat(array))
    _native.run_block(data, passed, symbols, runtime)
    return {"outputs": buffers.save()}


def _three(text: str, name: str) -> list[int]:
    parts = [integer(p, name) for p in text.split(",")]
    if not 1 <= len(parts) <= 3 or min(parts) < 0 or max(parts) >= 1 << 32:
        raise Failure(f"{name} must be one to three sizes below 2^32, not {text!r}")
    return parts + [1] * (3 - len(parts))


def _run_lanes(args: argparse.Namespace, data: bytes, runtime: Any) -> dict[str, Any]:
    buffers = _Buffers(args)
    names = sorted((n for n in buffers.arrays if n != "boundary"), key=lambda n: (len(n), n))
    if names != [f"buf{k}" for k in range(1, len(names) + 1)]:
        raise Failure(f"buffers must be buf1, buf2, … without gaps, not {', '.join(names)}")
    if args.boundary and "boundary" not in buffers.arrays:
        buffers.arrays["boundary"] = np.zeros((96, 3072), np.float32)
    pool = buffers.arrays.get("boundary")
    if pool is not None and pool.nbytes != _BOUNDARY_BYTES:
        raise Failure(f"the boundary pool has {_BOUNDARY_BYTES} bytes, not {pool.nbytes}")
    buffers.check_names([*names, *(["boundary"] if pool is not None else [])])
    if args.symbols:
        raise Failure("lane programs have no symbols")
    resonance = _native.run_lanes(
        data,
        [_flat(buffers.arrays[n]) for n in names],
        [] if pool is None else [_flat(pool)],
        _three(args.grid, "--grid"),
        _three(args.block, "--block"),
        args.shared,
        args.phase,
        args.max_steps,
        runtime,
    )
    return {"outputs": buffers.save(), "resonance": {str(k): x for k, x in enumerate(resonance) if x}}


def _run(args: argparse.Namespace) -> int:
    data = read_bytes(args.file)
    with located(data):
        info = _native.describe(data)
        _native.verify(data)
    runtime = _core.Runtime(args.backend)
    done = _run_block(args, data, info, runtime) if info["layer"] == "block" else _run_lanes(args, data, runtime)
    print(json.dumps({"ok": True, "layer": info["layer"], "backend": args.backend, **done}))
    return 0


def _natural(text: str) -> int:
    value = int(text, 0)
    if not 0 <= value < 1 << 64:
        raise ValueError
    return value


def register(commands: Any) -> None:
    """Adds the group to the command line."""
    actions = group(commands, "atlas", "Programs of the Atlas instruction set, as text or binary.")
    add(actions, "verify", _verify, "Check a program: prints {\"ok\": true} or the error.", FILE)
    for name, action, text in (
        ("asm", _assemble, "Binary form of a program, verified."),
        ("disasm", _disassemble, "Text form of a program."),
    ):
        add(actions, name, action, text, FILE).add_argument("-o", "--output", metavar="FILE", help="write there")
    run = add(actions, "run", _run, "Run a program on named buffers (b0, b1, … or buf1, buf2, …, boundary).", FILE)
    many: dict[str, Any] = {"action": "append", "default": []}
    run.add_argument("--in", dest="inputs", metavar="NAME=FILE.npy", help="contents of a buffer", **many)
    run.add_argument("--out", dest="outputs", metavar="NAME=FILE.npy", help="where to save a buffer afterwards", **many)
    run.add_argument("--zeros", metavar="NAME=TYPE:COUNT", help="a buffer of zeros, such as buf2=f32:1000", **many)
    run.add_argument("--symbol", dest="symbols", metavar="s0=VALUE", help="a size of a block program", **many)
    run.add_argument("--backend", default="cpu", choices=_core.Runtime.backends(), help="what runs it (default: cpu)")
    run.add_argument("--grid", default="1", metavar="X[,Y[,Z]]", help="blocks of a launch of lanes (default: 1)")
    run.add_argument("--block", default="1", metavar="X[,Y[,Z]]", help="lanes of a block (default: 1)")
    run.add_argument("--shared", type=_natural, default=0, metavar="BYTES", help="shared memory of a block")
    run.add_argument("--phase", type=_natural, default=0, help="phase of every lane at its start")
    run.add_argument("--max-steps", type=_natural, default=1 << 36, metavar="N", help="limit of instructions")
    run.add_argument("--boundary", action="store_true", help="give the launch a boundary pool of zeros")
