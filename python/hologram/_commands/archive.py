"""``hologram run`` and ``hologram archive``: compiled models in files."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hologram._commands.common import Failure, add, group, read_arrays, show

FILE = ("file", {"metavar": "ARCHIVE", "help": "a .holo file, as hologram_torch.export writes them"})


def _run(args: argparse.Namespace) -> int:
    import numpy as np

    from hologram.archive import load

    archive = load(args.file, backend=args.backend, verify="full" if args.verify else "index", bfloat16="float32")
    method = method_named(archive.session().methods, args.method, args.file)
    flat = arrays_by_name(args.arrays, [i["name"] for i in method.inputs])
    begin = time.perf_counter()
    results = method.flat(flat)
    first = time.perf_counter() - begin
    times = []
    for _ in range(args.repeat):
        begin = time.perf_counter()
        results = method.flat(flat)
        times.append(time.perf_counter() - begin)
    names = [r["name"] for r in method.results]
    if args.output is not None:
        _write(args.output, names, results)
    data: dict[str, Any] = {
        "method": method.name,
        "results": {n: {"dtype": str(r.dtype), "shape": list(r.shape)} for n, r in zip(names, results)},
        "first_call_ms": round(1e3 * first, 3),
    }
    if times:
        ordered = np.sort(np.array(times)) * 1e3
        data["calls"] = len(times)
        data |= {f"p{p}_ms": round(float(np.percentile(ordered, p)), 4) for p in (50, 90, 99)}
    if args.output is None and not args.json:
        for n, r in zip(names, results):
            print(f"{n} = {np.array2string(r, threshold=64)}")
    show(data, args.json)
    return 0


def method_named(methods: Mapping[str, Any], name: str | None, file: str) -> Any:
    """The method that --method names: without it forward, or the only one."""
    if name is None and len(methods) != 1 and "forward" not in methods:
        raise Failure(f"choose one of the methods with --method: {', '.join(methods)}")
    name = name or ("forward" if "forward" in methods else next(iter(methods)))
    if name not in methods:
        raise Failure(f"{file} has no method {name!r}, but {', '.join(methods)}")
    return methods[name]


def arrays_by_name(words: list[str], names: list[str]) -> list[Any]:
    """Arrays from NAME=FILE.npy, FILE.npy (in order) and FILE.npz (by the names inside)."""
    import numpy as np

    given: dict[str, Any] = {}
    for word in words:
        label, equals, path = word.partition("=")
        if not equals:
            label, path = "", word
        loaded = read_arrays(path)
        found = loaded if isinstance(loaded, dict) else {label or next((n for n in names if n not in given), ""): loaded}
        for name, array in found.items():
            if array.dtype == np.dtype("V2"):  # how NumPy writes ml_dtypes' bfloat16
                array = array.view(np.uint16)
            if name not in names or name in given:
                raise Failure(f"{word}: the inputs are {', '.join(names)}, each once")
            given[name] = array
    missing = [n for n in names if n not in given]
    if missing:
        raise Failure(f"no array for {', '.join(missing)}: write {missing[0]}=FILE.npy")
    return [given[n] for n in names]


def _write(path: str, names: list[str], results: list[Any]) -> None:
    import numpy as np

    if Path(path).suffix == ".npz":
        _write_npz(path, dict(zip(names, results)))
    elif len(results) == 1:
        with open(path, "wb") as file:
            np.save(file, results[0])
    else:
        raise Failure(f"there are {len(results)} results: write them to a .npz file")


def _write_npz(path: str, arrays: Mapping[str, Any]) -> None:
    """As np.savez, under any name that stays in the folder of whoever unpacks the file, and whole or not at all."""
    import numpy as np

    for name in arrays:
        if name.startswith("/") or ".." in name.replace("\\", "/").split("/"):
            raise Failure(f"{path}: the name {name!r} would leave the folder in which the file is unpacked")
    if os.path.exists(path) and not os.path.isfile(path):
        raise Failure(f"{path}: it is no regular file")
    part = f"{path}.{os.getpid()}.part"
    try:
        with zipfile.ZipFile(part, "x") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
        os.replace(part, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


def _info(args: argparse.Namespace) -> int:
    from hologram.archive import load

    info = load(args.file).info()
    if args.json:
        show(info, True)
        return 0
    methods, texts = info.pop("methods"), info.pop("wgsl", {})
    show(info, False)
    array = lambda a: f"{a['name']}: {a['dtype']}[{', '.join(map(str, a['shape']))}]"
    for name, m in methods.items():
        sizes = "".join(f", {size} {least} to {most}" for size, (least, most) in m["sizes"].items())
        print(f"{name}({', '.join(map(array, m['inputs']))}){sizes}")
        for result in m["results"]:
            print(f"  -> {array(result)}")
        if name in texts:
            left = texts[name]["host"]
            reasons = f": {'; '.join(sorted(set(left.values())))}" if left else ""
            print(f"  WGSL: {texts[name]['kernels']} kernels, {len(left)} of them left to the host{reasons}")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from hologram.archive import load

    archive = load(args.file, verify="full")
    data = {"ok": True, "fingerprint": archive.fingerprint, "tensors": len(archive.tensors)}
    if args.rebuild:
        archive.verify_code()
        data["rebuilt"] = archive.info()["targets"]
    show(data, args.json)
    return 0


def _trust(args: argparse.Namespace) -> int:
    from hologram import _core
    from hologram.archive import load

    fingerprint = load(args.file, verify="full").fingerprint
    _core.archive_trust(fingerprint, str(Path(args.file).resolve()))
    show({"trusted": fingerprint}, args.json)
    return 0


def _add_target(args: argparse.Namespace) -> int:
    from hologram import _core
    from hologram.archive import load

    archive = load(args.file, verify="full")
    output = args.output or args.file
    fingerprint = archive.write_with_targets(output, args.isas)
    if archive.trusted:
        _core.archive_trust(fingerprint, str(Path(output).resolve()))
    show({"output": output, "fingerprint": fingerprint, "targets": load(output).info()["targets"]}, args.json)
    return 0


def _extract(args: argparse.Namespace) -> int:
    from hologram.archive import load

    archive = load(args.file, verify="full")
    wanted = args.names or list(archive.tensors)
    unknown = [n for n in wanted if n not in archive.tensors]
    if unknown:
        raise Failure(f"{args.file} has no tensor {unknown[0]!r}")
    output = args.output if args.output.endswith(".npz") else f"{args.output}.npz"
    _write_npz(output, {n: archive.tensors[n] for n in wanted})
    show({"tensors": len(wanted), "output": output}, args.json)
    return 0


def register(commands: Any) -> None:
    """Adds the commands to the command line."""
    arrays = {"metavar": "[NAME=]FILE", "nargs": "*", "help": "an array of the input NAME, or of the next one: .npy, or .npz with names"}
    run = add(commands, "run", _run, "Run a method of an archive on arrays in files.", FILE, ("arrays", arrays))
    run.add_argument("-o", "--output", metavar="FILE", help=".npy for one result, .npz for several; without it they are shown")
    run.add_argument("--method", metavar="NAME", help="default: forward, or the only one")
    run.add_argument("--repeat", metavar="N", type=int, default=0, help="call N times more and show percentiles")
    run.add_argument("--backend", default="auto", help="where it runs (default: auto)")
    run.add_argument("--verify", action="store_true", help="compare the weights with their checksums first")
    actions = group(commands, "archive", "Models in .holo files.")
    add(actions, "info", _info, "Methods, sizes and weights of an archive.", FILE)
    verify = add(actions, "verify", _verify, "Compare everything in an archive with its checksums.", FILE)
    verify.add_argument("--rebuild", action="store_true", help="compile its machine code again and compare the bytes")
    add(actions, "trust", _trust, "Let the machine code of an archive run: put it on the user's list.", FILE)
    isas = {"metavar": "ISA", "nargs": "+", "help": "sse42, avx2, avx512, amx, neon, wasm32-simd128, or wgsl for WebGPU"}
    target = add(actions, "add-target", _add_target, "Add machine code for more instruction sets.", FILE, ("isas", isas))
    target.add_argument("-o", "--output", metavar="FILE", help="the archive to write; default: in place")
    names = {"metavar": "NAME", "nargs": "*", "help": "tensors; default: all"}
    extract = add(actions, "extract", _extract, "Write weights to a .npz file.", FILE, ("names", names))
    extract.add_argument("-o", "--output", metavar="FILE", required=True, help="the .npz file to write")
