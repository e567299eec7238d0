"""``hologram docs``: the documentation of this installation, in a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hologram._commands.common import Failure, add, show


def _page() -> Path:
    here = Path(__file__).resolve().parents[1]
    places = (here / "docs", here.parents[1] / "build" / "docs")  # of the wheel, of a checkout
    for place in places:
        if (place / "index.html").is_file():
            return place / "index.html"
    raise Failure(f"the site is not there: {' and '.join(map(str, places))} were looked at; `make docs` in a checkout builds it")


def _docs(args: argparse.Namespace) -> int:
    import webbrowser

    page = _page()
    opened = not args.path and webbrowser.open(page.as_uri())
    show({"page": str(page), "opened": opened}, args.json)
    return 0


def register(commands: Any) -> None:
    """Adds the command to the command line."""
    command = add(commands, "docs", _docs, "Open the documentation in a browser.")
    command.add_argument("--path", action="store_true", help="say where it is, open nothing")
