"""What the commands share: arguments, input and output."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

Run = Callable[[argparse.Namespace], int]


class Failure(Exception):
    """A user's mistake with the position in the text where it is."""

    def __init__(self, message: str, position: object = None) -> None:
        super().__init__(message)
        self.position = position


def add(group: Any, name: str, run: Run, text: str, *arguments: tuple[str, dict[str, Any]]) -> argparse.ArgumentParser:
    """A command with ``--json`` and further arguments."""
    command: argparse.ArgumentParser = group.add_parser(name, help=text, description=text)
    for argument, options in arguments:
        command.add_argument(argument, **options)
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(run=run)
    return command


def group(commands: Any, name: str, text: str, metavar: str = "ACTION") -> Any:
    """A command that only holds others."""
    return commands.add_parser(name, help=text, description=text).add_subparsers(required=True, metavar=metavar)


class Parser(argparse.ArgumentParser):
    """Shows the whole help where the command, or the action of a command, is missing."""

    def error(self, message: str) -> NoReturn:
        if message.endswith((" COMMAND", " ACTION")):
            self.print_help(sys.stderr)
            self.exit(2)
        super().error(message)


def plain(value: Any) -> str:
    """A value for people: lists without brackets, of an object the entries that say something."""
    if isinstance(value, dict):
        return "; ".join(f"{key} {plain(v)}" for key, v in value.items() if v not in ("", None))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(plain, value))
    return f"{value:,}" if type(value) is int else str(value)


def show(data: dict[str, Any], as_json: bool, flush: bool = False) -> None:
    """Prints one JSON object, or a line per entry."""
    if as_json:
        print(json.dumps(data, ensure_ascii=False), flush=flush)
        return
    width = max(map(len, data))
    for key, value in data.items():
        if value not in ("", None):
            print(f"{key:<{width}}  {plain(value)}", flush=flush)


def read_text(argument: str) -> str:
    """The argument itself, or standard input for ``-``: UTF-8."""
    data = sys.stdin.buffer.read() if argument == "-" else os.fsencode(argument)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Failure("the text is not UTF-8", len(data[: error.start].decode())) from None


def read_bytes(path: str) -> bytes:
    """A file's bytes, or standard input for ``-``."""
    return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()


def read_arrays(path: str) -> Any:
    """The array of a .npy file, or those of a .npz file by their names."""
    import numpy as np

    try:
        loaded = np.load(path, allow_pickle=False)
        return dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (OSError, MemoryError):
        raise
    except Exception as error:  # what NumPy, zipfile and zlib raise for such files has no class of its own
        raise Failure(f"{path}: expected a .npy or .npz file of numbers: {error}") from None


def read_array(path: str) -> Any:
    """The array of a .npy file."""
    array = read_arrays(path)
    if isinstance(array, dict):
        raise Failure(f"{path}: expected a .npy file, which has one array, got a .npz file")
    return array


@contextlib.contextmanager
def located(data: bytes) -> Iterator[None]:
    """Gives mistakes that name a line and a column their position in the text, counted in characters from 0."""
    try:
        yield
    except ValueError as error:
        found = re.match(r"line (\d+), column (\d+): ", str(error))
        if not found:
            raise
        line, column = (int(n) for n in found.groups())
        before = b"".join(data.splitlines(keepends=True)[: line - 1])
        rest = data[len(before) :][: column - 1]
        raise Failure(str(error), len((before + rest).decode(errors="replace"))) from error


def integer(text: str, name: str) -> int:
    """The number that an argument writes."""
    try:
        return int(text)
    except ValueError:
        raise Failure(f"{name} must be an integer, not {text!r}") from None
