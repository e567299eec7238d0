#!/usr/bin/env python3
# tools/layers.py: draws which folders include, and which parts import, from which into docs/layout.md
"""Arrows between the folders of src/ from their includes, and between the parts of python/ from their imports.

usage: tools/layers.py [--check]

Writes the pictures between the marks of docs/layout.md. --check writes nothing and fails where they are not current. Either
fails on an arrow that runs up, by the orders of check_includes.py and check_imports.py. An arrow that others imply is left out of
a picture: what includes from `schedule` may do so from `atlas`, which that includes from.
"""

import re
import sys
from pathlib import Path

import check_imports
import check_includes

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "layout.md"


def reduced(arrows):
    """The arrows without those between two that a longer way joins as well."""
    reach = {}

    def below(name):
        if name not in reach:
            reach[name] = set()  # what a circle would come back to
            for target in arrows.get(name, ()):
                reach[name] |= {target} | below(target)
        return reach[name]

    return {name: [t for t in targets if not any(t in below(o) for o in targets if o != t)] for name, targets in arrows.items()}


def picture(arrows):
    """A Mermaid diagram, the first parts on top."""
    lines = ["```mermaid", "flowchart BT"]
    node = {name: "of_" + re.sub(r"\W", "_", name) for name in arrows}  # no word of Mermaid's own
    lines += [f'  {node[name]}["{name}"]' for name in arrows]
    lines += [f"  {node[name]} --> {node[target]}" for name, targets in reduced(arrows).items() for target in targets]
    return "\n".join([*lines, "```"])


def shorter(name):
    """Parts of hologram_torch by their own names."""
    return name.removeprefix("hologram_torch.")


def drawn(page, pictures):
    """The page with the pictures between its marks."""
    for name, text in pictures.items():
        begin, end = f"<!-- {name}: by tools/layers.py -->\n", f"<!-- end of {name} -->\n"
        before, _, rest = page.partition(begin)
        _, mark, after = rest.partition(end)
        if not mark:
            raise SystemExit(f"docs/layout.md lacks the mark {begin.strip()} or its end")
        page = f"{before}{begin}\n{text}\n\n{end}{after}"
    return page


def self_test():
    """The number of wrong answers."""
    given = {"c": ["a", "b"], "b": ["a"], "a": []}
    wrong = int(reduced(given) != {"c": ["b"], "b": ["a"], "a": []})
    wrong += int("of_x --> of_y" not in picture({"x": ["y"], "y": []}))
    page = "1\n<!-- p: by tools/layers.py -->\nold\n<!-- end of p -->\n2\n"
    wrong += int("old" in drawn(page, {"p": "new"}) or drawn(drawn(page, {"p": "new"}), {"p": "new"}) != drawn(page, {"p": "new"}))
    print(f"layers: {3 - wrong} of 3 cases as expected")
    return wrong


def main():
    if "--self-test" in sys.argv[1:]:
        return 1 if self_test() else 0
    faults = check_includes.check_tree(ROOT / "src")[0] + check_imports.check_tree(ROOT / "python")[0]
    for fault in faults:
        print(fault)
    if faults:
        return 1
    parts = {shorter(p): [shorter(t) for t in ts] for p, ts in check_imports.arrows(ROOT / "python").items()}
    del parts["hologram_torch"], parts["demo"]  # the public names, which are loaded when they are asked for, and what uses them
    page = PAGE.read_text(encoding="utf-8")
    new = drawn(page, {"folders": picture(check_includes.arrows(ROOT / "src")), "parts": picture(parts)})
    if "--check" in sys.argv[1:]:
        print("layers: docs/layout.md " + ("has them as they are" if new == page else "is not current: run tools/layers.py"))
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
