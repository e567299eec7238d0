#!/usr/bin/env python3
# tools/release.py: the version that CMakeLists.txt names, and whether the changelog and the pages agree with it
"""usage: tools/release.py check | notes | set VERSION

check  fails where the version or a heading of the changelog is not what docs/releasing.md says
notes  prints the changelog's topmost section
set    makes VERSION the version everywhere, and dates the changelog's section
"""

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NUMBER = r"\d+\.\d+\.\d+"
PLACES = {  # file: the text around the version, or around its first two numbers
    "CMakeLists.txt": rf"(?<=project\(hologram VERSION )({NUMBER})",
    "README.md": rf"(?<=This is version )({NUMBER})",
    "examples/CMakeLists.txt": r"(?<=find_package\(hologram )(\d+\.\d+)(?= )",
}
HEADING = re.compile(rf"^## (?:Unreleased \(({NUMBER})\)|({NUMBER}) \((\d{{4}}-\d\d-\d\d)\))$")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def numbers(version):
    return tuple(map(int, version.split(".")))


def check(root):
    """What does not fit, as lines of text."""
    faults, found = [], {}
    for place, pattern in PLACES.items():
        match = re.search(pattern, (root / place).read_text())
        if match:
            found[place] = match[1]
        else:
            faults.append(f"{place}: names no version")
    version = found.get("CMakeLists.txt", "")
    faults += [f"{place}: {text}, but CMakeLists.txt has {version}" for place, text in found.items()
               if version != text and not version.startswith(text + ".")]
    previous = None
    for i, line in enumerate((root / "CHANGELOG.md").read_text().splitlines(), 1):
        where = f"CHANGELOG.md:{i}"
        if line.startswith("### ") and line[4:] not in KINDS:
            faults.append(f"{where}: '{line[4:]}' is none of {', '.join(sorted(KINDS))}")
        if not line.startswith("## "):
            continue
        heading = HEADING.match(line)
        if not heading:
            faults.append(f"{where}: expected '## Unreleased (1.2.3)' or '## 1.2.3 (2026-01-31)', not '{line}'")
            continue
        this = heading[1] or heading[2]
        if previous is None and this != version:
            faults.append(f"{where}: {this}, but CMakeLists.txt has {version}")
        if previous is not None and (heading[1] or numbers(this) >= numbers(previous)):
            faults.append(f"{where}: {this} after {previous}")
        previous = this
    return faults if previous else [*faults, "CHANGELOG.md: has no section"]


def notes(root):
    """The topmost section, without its heading."""
    return re.split(r"^## .*$", (root / "CHANGELOG.md").read_text(), flags=re.M)[1].strip()


def set_version(root, version, today):
    for place, pattern in PLACES.items():
        text = (root / place).read_text()
        new = version if NUMBER in pattern else version.rpartition(".")[0]
        (root / place).write_text(re.sub(pattern, new, text, count=1))
    log = root / "CHANGELOG.md"
    log.write_text(re.sub(r"^## Unreleased .*$", f"## {version} ({today})", log.read_text(), count=1, flags=re.M))


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "set" and len(sys.argv) == 3 and re.fullmatch(NUMBER, sys.argv[2]):
        set_version(ROOT, sys.argv[2], datetime.date.today())
    elif command == "notes" and len(sys.argv) == 2:
        print(notes(ROOT))
        return 0
    elif command != "check" or len(sys.argv) != 2:
        print(__doc__)
        return 2
    faults = check(ROOT)
    print("\n".join(faults) or "release: versions and changelog agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
