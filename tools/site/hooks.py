# tools/site/hooks.py: what MkDocs calls: generated pages, and links that lead out of docs/
import re
import shutil
import sys
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the hooks are loaded by path

from tools.site import c_reference, reference, rooms, way  # noqa: E402

_IN_DOCS = re.compile(r"\]\(docs/([^)]+)\)")
_OUTSIDE = re.compile(r"\[`?([^\]`]+)`?\]\((?:\.\./(?!\w[\w-]*\.md)|examples/|tests/|tools/|bench/|js/|CONTRIBUTING)[^)]*\)")


def _start() -> str:
    """The README, whose links are seen from docs/."""
    return _IN_DOCS.sub(r"](\1)", (ROOT / "README.md").read_text()).replace("](CHANGELOG.md)", "](changelog.md)").replace(
        'src="docs/', 'src="'
    )


_PAGES = {
    "index.md": _start,
    "changelog.md": lambda: (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "]("),
    "reference/hologram.md": reference.hologram,
    "reference/hologram_torch.md": reference.hologram_torch,
    "reference/c.md": c_reference.page,
    "reference/settings.md": reference.settings,
    "reference/operators.md": reference.operators,
    "inside/way.md": way.page,
    **rooms.pages(),
}


def on_config(config):
    """The rooms stand behind the other pages of the last part, in the order of the tree."""
    list(config.nav[-1].values())[0].append({"The rooms": list(rooms.pages())})


def on_files(files, config):
    for name, make in _PAGES.items():
        files.append(File.generated(config, name, content=make()))
    for name, picture in way.pictures().items():
        files.append(File.generated(config, f"inside/{name}", content=picture))
    return files


def on_page_markdown(markdown, page, config, files):
    """Files of the repository that are no page of the site are named, not linked to."""
    return _OUTSIDE.sub(r"`\1`", markdown)


def on_post_build(config):
    """Goes without what only developers of the theme and other languages need: half of the site's bytes."""
    scripts = Path(config.site_dir) / "assets" / "javascripts"
    shutil.rmtree(scripts / "lunr", ignore_errors=True)
    for path in Path(config.site_dir).rglob("*.map"):
        path.unlink()
    for name in ("search/search_index.json", "sitemap.xml.gz"):  # offline, the index is a script
        (Path(config.site_dir) / name).unlink(missing_ok=True)
