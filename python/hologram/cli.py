"""The command ``hologram``: expressions and circuits, Atlas programs, graphs, archives, this installation and its kernel cache."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
import sys

from hologram import _core
from hologram._commands import archive, atlas, bench, compile, completion, docs, generate, graph, profile, serve, sigmatics, web
from hologram._commands.common import Failure, Parser, add, group, show


def _devices() -> dict[str, str]:
    """What there is beside the host, in words, or why there is nothing."""
    from hologram.backend import device_count

    found = {}
    for backend in ("cuda", "webgpu"):
        for number in range(max(device_count(backend), 1) if backend in _core.Runtime.backends() else 0):
            name = f"{backend}:{number}"
            try:
                found[name] = _core.Runtime(name).description
            except RuntimeError as error:
                found[name] = str(error)
    return found


def _info(args: argparse.Namespace) -> int:
    runtime = _core.Runtime("cpu")
    host = _core.host_cpu()
    data = {
        "version": _core.version(),
        "backends": _core.Runtime.backends(),
        "cpu": {
            "isa": host["isa"],
            "processor": host["processor"],
            "features": host["features"],
            "threads": runtime.num_threads,
            "products": {what: f"{c['path']}: {c['why']}" for what, c in host["choices"].items()},
        },
        "devices": _devices(),
        "cache": _core.cache_info(),
    }
    if args.limits:
        from hologram import limits

        found = limits.measured(again=True)
        data["limits"] = dataclasses.asdict(found) if args.json else ""
    show(data, args.json)
    if args.limits and not args.json:
        print(f"limits of {found.processor} on {found.threads} threads:")
        for what, rates in found.rows():
            print(f"  {what:<22} {rates}")
    return 0


def _cache_info(args: argparse.Namespace) -> int:
    show(_core.cache_info(), args.json)
    return 0


def _cache_clear(args: argparse.Namespace) -> int:
    from hologram import limits

    limits.forget()
    show({"removed": _core.cache_clear()}, args.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="hologram", description=__doc__, epilog="hologram COMMAND --help says more.")
    parser.add_argument("--version", action="version", version=f"hologram {_core.version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    info = add(commands, "info", _info, "Show the version, the backends, the processor and the cache.")
    info.add_argument("--limits", action="store_true", help="measure the peaks of arithmetic and the bandwidth of each level of memory")
    sigmatics.register(commands)
    atlas.register(commands)
    graph.register(commands)
    archive.register(commands)
    compile.register(commands)
    generate.register(commands)
    serve.register(commands)
    web.register(commands)
    profile.register(commands)
    bench.register(commands)
    cache = group(commands, "cache", "Look at or empty the cache of kernels and packed weights on disk.")
    add(cache, "info", _cache_info, "Show the cache's folder, entries and bytes.")
    add(cache, "clear", _cache_clear, "Remove everything from the cache.")
    docs.register(commands)
    completion.register(commands)
    return parser


def _report(error: Exception, as_json: bool) -> int:
    message = str(error)
    if isinstance(error, KeyError) and error.args:
        message = str(error.args[0])
    if isinstance(error, OSError) and error.filename is not None:
        message = f"{os.fspath(error.filename)}: {error.strerror}"
    position = getattr(error, "position", None)
    print(json.dumps({"error": {"message": message, "position": position}}, ensure_ascii=False))
    if not as_json:
        print(f"hologram: {message}", file=sys.stderr)
    return 1


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code: 0, 1 for a failure, 2 for bad usage.

    A failure is one JSON object on standard output, ``{"error": {"message": …, "position": …}}``, and without ``--json`` also a
    line on standard error.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # whatever the locale: JSON is UTF-8, and words have arrows
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["__complete"]:
        return completion.complete(_parser(), words[1:])
    args = _parser().parse_args(words)
    try:
        return int(args.run(args))
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone: nothing more to say to it
        return 1
    except (Failure, RuntimeError, ValueError, ArithmeticError, LookupError, MemoryError, OSError, TypeError) as error:
        return _report(error, getattr(args, "json", False))
