"""``hologram export-web``: an archive as a folder for browsers."""

from __future__ import annotations

import argparse
from typing import Any

from hologram._commands.archive import FILE
from hologram._commands.common import add, show


def _export_web(args: argparse.Namespace) -> int:
    from hologram.web import export_web

    show({"folder": args.folder, "files": export_web(args.file, args.folder)}, args.json)
    return 0


def register(commands: Any) -> None:
    """Adds the command to the command line."""
    folder = ("folder", {"metavar": "FOLDER", "help": "where the files go; it is made if it is not there"})
    add(commands, "export-web", _export_web, "Write a folder that runs an archive in browsers, for any server of files.", FILE, folder)
