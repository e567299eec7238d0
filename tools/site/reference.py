# tools/site/reference.py: the pages of the reference that come from docstrings, tables and test results
import dataclasses
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CORE = ("Executor", "Buffer", "HologramError", "version")  # of the native module
_MODULES = ("ops", "backend", "limits", "onnx_backend", "sigmatics")


def _page(title: str, text: str, names: dict) -> str:
    """names: as a user writes them: where they are defined."""
    hidden = "\n    options: {show_root_full_path: false, show_root_toc_entry: false, heading_level: 3}"
    entries = (f"## `{name}`\n\n::: {place}{hidden}" for name, place in names.items())
    return "\n\n".join([f"# {title}", text, *entries]) + "\n"


def hologram() -> str:
    import hologram as package

    names = {n: f"_core.{n}" for n in _CORE} | {n: f"{place}.{n}" for n, place in sorted(package._LAZY.items())} | {n: n for n in _MODULES}
    names = {f"hologram.{name}": f"hologram.{place}" for name, place in names.items()}
    return _page("Python: `hologram`", "Executors, buffers, NumPy code as kernels, archives; needs no PyTorch.", names)


def hologram_torch() -> str:
    import hologram_torch as package

    names = {n: f"{package._HOME[n]}.{n}" for n in sorted(package._HOME)} | {n: n for n in package._MODULES}
    names = {f"hologram_torch.{name}": f"hologram_torch.{place}" for name, place in names.items()}
    return _page("Python: `hologram_torch`", "Models of PyTorch.", names)


def table(head, rows) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in rows])


def settings() -> str:
    from hologram import _core
    from hologram_torch.options import Options

    said = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", Options.__doc__, re.M | re.S)
    meaning = {name: " ".join(text.split()) for name, text in said}
    fields = [(f"`{f.name}`", f"`{f.default}`", meaning[f.name]) for f in dataclasses.fields(Options)]
    variables = [(f"`{name}`", values, default, text) for name, values, default, text in _core.settings()]
    return "\n\n".join([
        "# Settings and options",
        "## Environment variables",
        "One table in the library reads them (`src/base/settings.cpp`); this page is made of it. `off`, `no`, `false` and `0` turn a "
        "setting off. A value that is none of these is an error that names the variable.",
        table(("variable", "values", "default", "meaning"), variables),
        "## Options of `torch.compile`",
        '`torch.compile(model, backend="hologram", options={...})`.',
        table(("option", "default", "meaning"), fields),
    ])  # fmt: skip


_STATES = {"nograph": "nothing to compile", "fallback": "by PyTorch"}


def operators() -> str:
    """By the results that bench/conformance/opinfo.py found and the tests hold."""
    found: dict = defaultdict(dict)
    head = None
    ways = []
    for line in (ROOT / "bench/conformance/opinfo_expected.txt").read_text().splitlines()[1:]:
        if line.startswith("# "):
            head = line[2:]
            ways.append(head)
        elif line.strip():
            state, _, name = line.partition(" ")
            found[name.strip()][head] = _STATES.get(state, state)
    counts = [f"{way}: {sum(v.get(way) == 'native' for v in found.values())} of {sum(way in v for v in found.values())} native"
              for way in ways]  # fmt: skip
    rows = [(f"`{name}`", *(states.get(way, "") for way in ways)) for name, states in sorted(found.items())]
    return "\n\n".join([
        "# Operators",
        "PyTorch's own operator database, run through `torch.compile`: `native` means that no call into PyTorch was left. What PyTorch "
        "computes gives PyTorch's values: nothing fails because an operator is missing.",
        "\n".join(f"- {c}" for c in counts),
        table(("operator", *ways), rows),
    ])  # fmt: skip
