#!/usr/bin/env python3
# tools/check_names.py: fails when two files of a folder that is compiled together give things one name
"""Where HOLOGRAM_UNITY is on, files of the libraries and tests that CMakeLists.txt or a libs.cmake marks TOGETHER, and of the
Python module, are compiled several at a time (cmake/HologramTargets.cmake). So what one of their files has in its anonymous
namespace may not bear a name that another file of that folder has there; the same `using` or alias may.
"""

import re
import sys
import tempfile
from pathlib import Path

TYPE = re.compile(r"(?:template.*>\s*)?(?:class|struct|enum(?: class)?)\s+(?:alignas\([^)]*\)\s*)?(\w+)\s*(?:final\s*)?(?::[^:]|\{|$)")
FUNCTION = re.compile(r"(?:template.*>\s*)?[A-Za-z_][\w:<>,&* \[\]]*?[ &*](\w+)\(")
VARIABLE = re.compile(r"(?:constexpr|const|static|thread_local)\s[^=({]*?[ &*](\w+)\s*(?:=|\{|;)")
FURTHER = re.compile(r",\s*(\w+)\s*=")


def libraries(root):
    """The folders of src/, and of the Python module, whose files are compiled together."""
    text = (root / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.findall(r"^hologram_library\((\S+)[^)]*\bTOGETHER\b", text, re.MULTILINE)
    for settings in sorted((root / "src/backend").glob("*/libs.cmake")):
        if "set(TOGETHER TOGETHER)" in settings.read_text(encoding="utf-8"):
            found.append(settings.parent.relative_to(root / "src").as_posix())
    module = "hologram_together(_core)" in (root / "python/CMakeLists.txt").read_text(encoding="utf-8")
    return [root / "src" / name for name in found] + [root / "python/_core"] * module


def tests(root):
    """The folders of tests/ whose files are compiled together."""
    files = sorted((root / "tests").glob("*/libs.cmake"))
    return [f.parent for f in files if "set(TOGETHER ON)" in f.read_text(encoding="utf-8")]


def names_of(text):
    """Name → line of what stands in anonymous namespaces at the file's own level."""
    found, inside = {}, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("namespace {"):
            inside = True
        elif line.startswith("}  // namespace") and line.strip() == "}  // namespace":
            inside = False
        elif inside and line[:1].isalpha() and not line.startswith(("using ", "namespace ")):
            match = VARIABLE.match(line) or TYPE.match(line) or FUNCTION.match(line)
            names = [match.group(1)] if match else []
            if match and match.re is VARIABLE:
                names += FURTHER.findall(re.sub(r"\([^()]*\)|\{[^{}]*\}", "", line))
            for name in names:
                found.setdefault(name, number)
    return found


def alone(folder):
    """The names of its files that libs.cmake has compiled ALONE."""
    settings = folder / "libs.cmake"
    found = re.search(r"set\(ALONE ([^)]*)\)", settings.read_text(encoding="utf-8")) if settings.exists() else None
    return found.group(1).split() if found else []


def check_library(folder):
    """The faults of one library as texts."""
    first, faults, spared = {}, [], alone(folder)
    for file in sorted(folder.rglob("*.cpp")):
        if file.name in spared:
            continue
        for name, line in names_of(file.read_text(encoding="utf-8")).items():
            where = f"{file}:{line}"
            if name in first:
                faults.append(f"{where}: {name} is in {first[name]} too; give it another name, or share it")
            first.setdefault(name, where)
    return faults


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder, "a.cpp"), Path(folder, "b.cpp")
        a.write_text("namespace {\nconstexpr int one = 1, two = 2;\nint f(int x) {\n}\nstruct S {\n}  // namespace\nint g();\n")
        cases = {
            "namespace {\nconstexpr int two = 2;\n}  // namespace\n": 1,
            "namespace {\nstd::vector<int> f(int x) {\n}  // namespace\n": 1,
            "namespace {\nclass S final : T {\n}  // namespace\n": 1,
            "namespace {\nint g();\nconstexpr int three = max(one, 2);\n}  // namespace\n": 0,
            "int f(int x);\nstruct S {\nnamespace {\nusing S = int;\n}  // namespace\n": 0,
        }
        wrong = 0
        for text, expected in cases.items():
            b.write_text(text)
            if len(check_library(Path(folder))) != expected:
                print(f"expected {expected} faults of:\n{text}")
                wrong += 1
        b.write_text(next(iter(cases)))
        Path(folder, "libs.cmake").write_text("set(ALONE c.cpp b.cpp)  # for a reason\n")
        if check_library(Path(folder)):
            print("expected no faults of a file that is compiled alone")
            wrong += 1
    print(f"check_names: {len(cases) + 1 - wrong} of {len(cases) + 1} cases as expected")
    return wrong


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 1 if self_test() else 0
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    folders = libraries(root) + tests(root)
    faults = [fault for folder in folders for fault in check_library(folder)]
    print("\n".join(faults) or f"check_names: {len(folders)} folders, no name twice")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
