# tests/torch/test_site.py: the site that `make docs` builds: links, generated pages, what a browser makes of it
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from checks import python, run
from harness import BACKEND

pytest.importorskip("mkdocs")
ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BACKEND != "hologram", reason="the pages follow a model through our backend"),
    pytest.mark.skipif(shutil.which("dot") is None, reason="needs dot (Debian's package graphviz)"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a link to a page or a heading that is not there, or a page in no menu, fails."""
    folder = tmp_path_factory.mktemp("site")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), *sys.path]), NO_MKDOCS_2_WARNING="1")
    python("-m", "mkdocs", "build", "--strict", "-q", "-d", folder, cwd=ROOT, env=env)
    return folder


def test_generated_pages_hold_what_they_are_made_of(site):
    c = (site / "reference/c.html").read_text()
    header = (ROOT / "include/hologram/hologram.h").read_text()
    assert not [name for name in re.findall(r"\b(hologram_\w+)\(", header) if name not in c]
    settings = (site / "reference/settings.html").read_text()
    table = (ROOT / "src/base/settings.cpp").read_text()
    assert not [name for name in re.findall(r'\{\.name = "(\w+)"', table) if name not in settings]
    assert (site / "reference/operators.html").read_text().count("<tr>") > 600
    for page, word in (("hologram", "from_numpy"), ("hologram_torch", "quantize")):
        assert word in (site / f"reference/{page}.html").read_text().lower()
    way = (site / "inside/way.html").read_text()
    for word in ("aten.addmm", "dot_general", "accumulator", "zeroinitializer", "reduce_max"):
        assert word in re.sub(r"<[^>]+>", "", way), word
    assert re.search(r"slot \d+: \d+ KiB", way)  # the picture of an arena
    rooms = {re.sub("/", "_", name) for name in re.findall(r"^\| `([\w/]+)` \|", (ROOT / "docs/layout.md").read_text(), re.M)
             if (ROOT / "src" / name).is_dir()}  # fmt: skip
    assert rooms == {page.stem for page in (site / "inside/rooms").glob("*.html")}
    drawn = [page for page in ROOT.glob("docs/*.md") if "```mermaid" in page.read_text()]
    for page in drawn:  # not left to a script, nor shown as text
        html = (site / page.with_suffix(".html").name).read_text()
        assert html.count('class="diagram"') == page.read_text().count("```mermaid"), page.name


def test_nothing_is_fetched(site):
    for page in site.rglob("*.html"):
        found = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?|png|svg)[^"]*)"', page.read_text())
        assert not found, page


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian's package chromium or chromium-headless-shell)")
def test_a_browser_shows_it_light_and_dark(site, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    means = {}
    for scheme in (0, 1):  # dark, light
        shot = tmp_path / f"{scheme}.png"
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,900",
                   "--virtual-time-budget=3000", f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}",
                   f"file://{site}/layout.html"]  # fmt: skip
        run(*command, timeout=120)
        picture = Image.open(shot).convert("L")
        assert len(picture.getcolors(256)) > 50  # text and lines, not one colour
        means[scheme] = picture.resize((1, 1)).getpixel((0, 0))
    assert means[0] < 90 and means[1] > 180


def test_the_pages_are_short_enough_to_be_read():
    words = 0
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = path.read_text()
        assert re.search(r"^\| ?---|^```mermaid|!\[|<img ", text, re.M), f"{path.name} has neither a picture nor a table"
        prose = re.sub(r"^\|.*$", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), flags=re.M)
        assert not (alone := re.search(r"\n\n {1,3}\S.*", prose)), f"{path.name}: no part of its item: {alone[0].strip()}"
        words += len(prose.split())
        for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:-|\d+\.) )", prose):
            assert len(paragraph.split()) <= 150, f"{path.name}: {paragraph.strip()[:60]} … has more than 150 words"
    assert words <= 25_000


def test_the_command_names_the_page(monkeypatch, capsys, tmp_path):
    from hologram._commands import docs
    from hologram.cli import main

    monkeypatch.setattr(docs, "__file__", str(tmp_path / "hologram/_commands/docs.py"))
    assert main(["docs", "--path", "--json"]) == 1 and "make docs" in capsys.readouterr().out
    (tmp_path / "hologram/docs").mkdir(parents=True)
    (tmp_path / "hologram/docs/index.html").touch()
    assert main(["docs", "--path", "--json"]) == 0 and "index.html" in capsys.readouterr().out
