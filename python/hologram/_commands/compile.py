"""``hologram compile``: ONNX models as archives."""

from __future__ import annotations

import argparse
import re
from typing import Any, Union

from hologram._commands.common import Failure, add, read_arrays, show

FILE = ("file", {"metavar": "MODEL", "help": "an ONNX model"})


def _compile(args: argparse.Namespace) -> int:
    from hologram.onnx.model import from_onnx

    try:
        calls = list(map(_call, args.calibrate)) or None
        model: Any = from_onnx(args.file, reproducible=args.reproducible, quantize=args.quantize, calibrate=calls)
        fingerprint, written = model.save(args.output, dict(map(_shape, args.shape)), args.isa, dict(map(_pad, args.pad)))
    except (ImportError, NotImplementedError) as error:
        raise Failure(str(error)) from None
    method = written["methods"]["forward"]
    data = {
        "output": args.output,
        "fingerprint": fingerprint,
        "bytes": written["bytes"],
        "isas": sorted({target.split()[1] for target in written["targets"]}),
        "inputs": method["inputs"],
        "results": method["results"],
        "sizes": {name: list(size) for name, size in method["sizes"].items()},
    }
    show(data, args.json)
    return 0


def _call(path: str) -> dict[str, Any]:
    arrays = read_arrays(path)
    if not isinstance(arrays, dict):
        raise Failure(f"--calibrate is an .npz file with the model's inputs by name, not {path}")
    return arrays


def _shape(word: str) -> tuple[str, Union[int, tuple[int, int]]]:
    """NAME=N or NAME=A..B"""
    found = re.fullmatch(r"(.+)=(\d+)(?:\.\.(\d+))?", word)
    if not found:
        raise Failure(f"--shape is NAME=N or NAME=LEAST..MOST, not {word!r}")
    name, least, most = found.groups()
    return name, int(least) if most is None else (int(least), int(most))


def _pad(word: str) -> tuple[str, float]:
    """NAME=NUMBER"""
    name, _, number = word.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        raise Failure(f"--pad is NAME=NUMBER, not {word!r}") from None


def register(commands: Any) -> None:
    """Adds the command to the command line."""
    command = add(commands, "compile", _compile, "Compile an ONNX model into an archive.", FILE)
    command.add_argument("-o", "--output", metavar="FILE", required=True, help="the .holo file to write")
    text = "a size that the model leaves open: NAME=N or NAME=LEAST..MOST; default 1 to 2147483647"
    command.add_argument("--shape", metavar="NAME=SIZE", action="append", default=[], help=text)
    text = "what an input may be filled up with along open sizes, so that servers join requests of different lengths"
    command.add_argument("--pad", metavar="NAME=NUMBER", action="append", default=[], help=text)
    text = "machine code for these instruction sets (sse42, avx2, avx512, amx, neon, wasm32-simd128, wgsl); default: the usual ones"
    command.add_argument("--isa", metavar="ISA", action="append", default=None, help=text)
    text = "products and convolutions by constants with bytes, or with weights of 8 or 4 bits"
    command.add_argument("--quantize", choices=("dynamic-int8", "static-int8", "weight-int8", "weight-int4"), help=text)
    text = "for static-int8: an .npz file with inputs of a typical call, by name; may be given several times"
    command.add_argument("--calibrate", metavar="FILE", action="append", default=[], help=text)
    command.add_argument("--reproducible", action="store_true", help="the same bits on every instruction set and thread count")
