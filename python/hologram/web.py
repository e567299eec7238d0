# hologram/web.py: folders that serve an archive to browsers
"""A folder with an archive, the module that runs it in browsers and a page; any server of files serves it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Union

from hologram.archive import load

ISA, TEXTS = "wasm32-simd128", "wgsl"
_HERE = Path(__file__).resolve().parent


def modules() -> list[str]:
    """The files of the JavaScript module."""
    return list(json.loads((_sources() / "package.json").read_text(encoding="utf-8"))["files"])


def _sources() -> Path:
    """Where the module and its pages are: in the package, or in the tree that it is used from."""
    places = (_HERE / "js", _HERE.parents[1] / "js")
    for place in places:
        if (place / "hologram.js").is_file():
            if not (place / "hologram_rt.wasm").is_file():
                raise FileNotFoundError(f"export_web: {place} lacks hologram_rt.wasm, which `tools/build.sh wasm` makes")
            return place
    raise FileNotFoundError(f"export_web: there is no hologram.js in {places[0]}")


def export_web(archive: Union[str, os.PathLike[str]], folder: Union[str, os.PathLike[str]], page: str = "archive") -> dict[str, Any]:
    """Writes `folder`: the archive as model.holo, with code for WebAssembly and, where it may run there, for WebGPU,
    hologram.js and what it needs, and a page as index.html ("archive": what there is and calls of it; "search": of the
    demo). → the files' names and bytes

    Raises FileNotFoundError where this installation lacks hologram_rt.wasm, HologramError for a damaged archive, OSError.
    """
    sources = _sources()
    opened = load(archive, trust=False)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    try:
        opened.write_with_targets(place / "model.holo", [ISA, TEXTS])
    except NotImplementedError:  # of an archive that promises bits, say
        opened.write_with_targets(place / "model.holo", [ISA])
    copies = {name: name for name in modules()} | {f"pages/{page}.html": "index.html", "pages/page.css": "page.css"}
    for name, to in copies.items():
        shutil.copyfile(sources / name, place / to)
    return {name: (place / name).stat().st_size for name in sorted(["model.holo", *copies.values()])}
