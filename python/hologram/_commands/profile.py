"""``hologram profile``: where the time of an archive's method goes."""

from __future__ import annotations

import argparse
from typing import Any

from hologram._commands.archive import FILE, arrays_by_name, method_named
from hologram._commands.common import Failure, add, integer, show


def _profile(args: argparse.Namespace) -> int:
    from hologram.archive import load
    from hologram.profiling import profile

    if args.repeat < 1:
        raise Failure(f"--repeat must be 1 or more, not {args.repeat}")
    for path, suffix in ((args.trace, ".json"), (args.page, ".html")):
        if path is not None and not path.endswith(suffix):
            raise Failure(f"{path}: a {'trace' if suffix == '.json' else 'page'} should end in {suffix}")
    # Machine code that the file brings has no programs to count operations and bytes of.
    archive = load(args.file, backend=args.backend, trust=False, bfloat16="float32")
    method = method_named(archive.session().methods, args.method, args.file)
    names = [i["name"] for i in method.inputs]
    flat = arrays_by_name(args.arrays, names) if args.arrays else _made_up(method, _sizes(args.size))
    method.flat(flat)
    with profile((archive._runtime,)) as found:
        for _ in range(args.repeat):
            method.flat(flat)
    for path in filter(None, (args.trace, args.page)):
        found.save(path)
    if args.json:
        kernels = [{**vars(k), "mean": k.mean, "flop_per_s": k.flops, "bytes_per_s": k.bandwidth} for k in found.kernels()]
        show({"method": method.name, "calls": args.repeat, "kernels": kernels}, True)
    else:
        print(found)
    return 0


def _sizes(words: list[str]) -> dict[str, int]:
    pairs = [word.partition("=") for word in words]
    return {name: integer(value, f"--size {name}") for name, _, value in pairs}


def _made_up(method: Any, chosen: dict[str, int]) -> list[Any]:
    """Arrays of the method's inputs: random floats, and zeros, which are indices of any table."""
    import numpy as np

    unknown = [name for name in chosen if name not in method.sizes]
    if unknown:
        raise Failure(f"--size {unknown[0]}: the sizes are {', '.join(method.sizes) or 'all fixed'}")
    sizes = {name: chosen.get(name, least) for name, (least, _) in method.sizes.items()}
    rng, arrays = np.random.default_rng(0), []
    for about in method.inputs:
        shape = [sizes.get(n, n) for n in about["shape"]]
        if not all(isinstance(n, int) for n in shape):
            raise Failure(f"the input {about['name']} has the shape {about['shape']}: give an array, {about['name']}=FILE.npy")
        dtype = np.dtype("uint16" if about["dtype"] == "bfloat16" else about["dtype"])
        floats = dtype.kind == "f"
        arrays.append(rng.standard_normal(shape).astype(dtype) if floats else np.zeros(shape, dtype))
    return arrays


def register(commands: Any) -> None:
    """Adds the command to the command line."""
    text = "Time a method of an archive kernel by kernel; arrays that are not given are made up."
    arrays = {"metavar": "[NAME=]FILE", "nargs": "*", "help": "as of hologram run; none: random floats and zeros"}
    command = add(commands, "profile", _profile, text, FILE, ("arrays", arrays))
    command.add_argument("--method", metavar="NAME", help="default: forward, or the only one")
    command.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a size of made-up arrays (default: the least)")
    command.add_argument("--repeat", metavar="N", type=int, default=20, help="calls after a first one (default: 20)")
    command.add_argument("--trace", metavar="FILE.json", help="write a trace for chrome://tracing or Perfetto")
    command.add_argument("--page", metavar="FILE.html", help="write a page with the plan, the kernels and a roofline")
    command.add_argument("--backend", default="auto", help="where it runs (default: auto)")
