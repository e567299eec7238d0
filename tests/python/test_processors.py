# tests/python/test_processors.py: the table of processors in docs/processors.md is the one that the library has
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def rows_of_source() -> dict:
    text = (ROOT / "src/backend/cpu/processor.cpp").read_text()
    table = text[text.index("constexpr Processor table[]") :]
    table = table[: table.index("};\n\n")]
    rows = {}
    for name, numbers in re.findall(r'\{"([a-z0-9-]+)", ([^{]+)', table):
        cells = [c.strip() for c in numbers.rstrip(", ").split(",")]
        rows[name] = [float(c.replace(" * KiB", "")) for c in cells]
    return rows


def numbers(cell: str) -> list[float]:
    """Of a cell of the page, whose letters say where they come from; 0 where nothing is known."""
    return [float(n) for n in re.findall(r"\d+(?:\.\d+)?", cell)] or [0.0]


def test_the_page_has_the_librarys_numbers():
    source = rows_of_source()
    assert len(source) >= 10
    page = (ROOT / "docs/processors.md").read_text()
    table = page[page.index("| name | family, models |") : page.index("- a: as Intel")]
    seen = set()
    for line in table.splitlines()[2:]:
        if not line.startswith("|"):
            continue
        name, _, fma, dots, tile, caches, rates = (cell.strip() for cell in line.strip("|").split("|"))
        name = name.strip("`")
        tile_numbers = (numbers(tile) + [0.0])[:2]
        assert [*numbers(fma), *numbers(dots), *tile_numbers, *numbers(caches), *numbers(rates)] == source[name], name
        seen.add(name)
    assert seen == set(source)


def test_where_each_number_comes_from_is_said():
    page = (ROOT / "docs/processors.md").read_text()
    table = page[page.index("| name | family, models |") : page.index("- a: as Intel")]
    letters = set(re.findall(r"\d(?: |, )([a-z])\b", table)) | set(re.findall(r", ([a-z])\b", table))
    for letter in letters - {"x"}:
        assert f"\n- {letter}: " in page, letter
