"""The command ``hologram``: what this installation is and what its kernel cache holds."""

from __future__ import annotations

import argparse
import json
import sys

from hologram import _core


def _print(data: dict, as_json: bool) -> None:
    if as_json:
        print(json.dumps(data))
        return
    width = max(map(len, data))
    for key, value in data.items():
        print(f"{key:<{width}}  {value}")


def _info(args: argparse.Namespace) -> int:
    runtime = _core.Runtime("cpu")
    data = {
        "version": _core.version(),
        "backends": ["cpu", "interp"],
        "cpu": {"code": runtime.code_key, "threads": runtime.num_threads},
        "cache": _core.cache_info(),
    }
    _print(data, args.json)
    return 0


def _cache_info(args: argparse.Namespace) -> int:
    _print(_core.cache_info(), args.json)
    return 0


def _cache_clear(args: argparse.Namespace) -> int:
    _print({"removed": _core.cache_clear()}, args.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hologram", description=__doc__)
    parser.add_argument("--version", action="version", version=f"hologram {_core.version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(group, name: str, run, text: str) -> None:
        command = group.add_parser(name, help=text, description=text)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.set_defaults(run=run)

    add(commands, "info", _info, "Show the version, the backends, the processor and the cache.")
    cache = commands.add_parser("cache", help="Look at or empty the kernel cache on disk.")
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    add(actions, "info", _cache_info, "Show the cache's folder, entries and bytes.")
    add(actions, "clear", _cache_clear, "Remove every kernel from the cache.")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code: 0, 1 for a failure, 2 for bad usage."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except (RuntimeError, ValueError, OSError) as error:
        if getattr(args, "json", False):
            print(json.dumps({"error": {"message": str(error)}}))
        else:
            print(f"hologram: {error}", file=sys.stderr)
        return 1
