#!/usr/bin/env python3
# tools/status.py: writes README's table of what works from the results that the tests and benchmarks keep
"""Usage: tools/status.py [--check]

Reads bench/conformance/opinfo_expected.txt (written by opinfo.py --expect), the models of bench/shared/zoo.py and the bounds
in src/ir/ops.def. Writes the rows between the two marks in README.md; with --check it only says whether they are current.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- tools/status.py writes this table -->\n", "<!-- end of the table -->\n"


def operator_database(root):
    lines = (root / "bench/conformance/opinfo_expected.txt").read_text(encoding="utf-8").splitlines()
    count = Counter(line.split()[0] for line in lines if line and not line.startswith("#"))
    right, all_ = count["native"] + count["fallback"], sum(count.values())
    yield "PyTorch's operator database (inference, float32, one sample each)", f"{right} of {all_} operators agree with eager"
    yield "", f"{count['native']} of them natively, {count['fallback']} with a call into PyTorch"
    if count["nograph"]:
        yield "", f"PyTorch gives no graph for {count['nograph']}"
    others = {kind: n for kind, n in count.items() if kind not in ("native", "fallback", "nograph")}
    for kind, n in sorted(others.items()):
        yield "", f"{n} {kind}"


def zoo(root):
    tree = ast.parse((root / "bench/shared/zoo.py").read_text(encoding="utf-8"))
    table = next(n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "ZOO")
    names = [n.id for n in ast.walk(table.generators[0].iter) if isinstance(n, ast.Name)]
    yield f"model zoo of the tests, {len(names)} models in float32 and bfloat16", "agrees with eager within PyTorch's tolerances"


def functions(root):
    rows = re.findall(r"^HOLOGRAM_FUNCTION\((\w+),.*, ([\d.]+), ([\d.]+), \"", (root / "src/ir/ops.def").read_text(), re.M)
    tight = sum(float(ulp32) <= 1 for _, ulp32, _ in rows)
    most = max(float(ulp32) for _, ulp32, _ in rows)
    yield f"elementary functions, {len(rows)} by own sequences", f"float32: {tight} within 1 ulp, the others within {most:g}"


def table(root=ROOT):
    """The rows of README's table as Markdown."""
    rows = [row for part in (operator_database, zoo, functions) for row in part(root)]
    return "\n".join(["| what | result |", "| --- | --- |", *(f"| {what} | {result} |" for what, result in rows)]) + "\n"


def main():
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    if not rest or not tail:
        sys.exit(f"{page}: the marks of the table are missing")
    wanted = head + BEGIN + "\n" + table() + "\n" + END + tail
    if "--check" in sys.argv[1:]:
        if wanted != text:
            print("README.md: the status table is not current; run tools/status.py")
        return int(wanted != text)
    page.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
