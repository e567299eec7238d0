# tests/python/test_style.py: lines of Python and of the pages are at most 140 columns long
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "docs", "examples", "python", "tests", "tools")


def pages():
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for suffix in ("py", "md"):
            yield from (ROOT / folder).rglob(f"*.{suffix}")


def test_no_line_is_longer_than_140_columns():
    long = []
    for path in pages():
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if len(line) > 140:
                long.append(f"{path.relative_to(ROOT)}:{number}: {len(line)} columns")
    assert not long, "\n".join(long)


def test_pages_are_found():
    names = {path.relative_to(ROOT).as_posix() for path in pages()}
    assert {"README.md", "CHANGELOG.md", "docs/layout.md", "python/hologram/cli.py", "tests/python/test_style.py"} <= names
