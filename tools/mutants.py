#!/usr/bin/env python3
# tools/mutants.py: which faults, planted one at a time, do these tests find?
"""usage: mutants.py [--seed N] [--count N] [--build COMMAND] --check NAME=COMMAND [--check ...] FILE...

Draws lines of the files (Python, C or C++), plants one fault each (a comparison turned, a constant off by one, a negation
dropped, operands swapped, `and` for `or`, a statement left out) and runs every check: a fault is found by those that fail or
take more than --timeout seconds. Faults that do not build, or leave a Python file's syntax tree as it is, are drawn anew.

Files are changed where they are and restored; in a copy of the tree other work goes on undisturbed. The same seed and files
draw the same faults: give the tests of before and after as two checks, or compare two tables (--json).
"""

import argparse
import ast
import json
import random
import re
import subprocess
import sys
from pathlib import Path

TURNED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
EITHER = {" and ": " or ", " or ": " and ", " && ": " || ", " || ": " && ", " is not ": " is ", "true": "false", "false": "true",
          "True": "False", "False": "True", " + ": " - ", " - ": " + ", " * ": " + ", " // ": " / ", " += ": " -= ", "min(": "max(",
          "max(": "min(", " continue": " break", "not ": "", " in ": " not in "}  # fmt: skip


def at(line, match, text):
    return line[: match.start()] + text + line[match.end() :]


def turned(line):
    for m in re.finditer(r" (<=|>=|==|!=|<|>) ", line):
        yield at(line, m, f" {TURNED[m[1]]} ")


def either(line):
    for word, other in EITHER.items():
        if word not in ("not ", " in ") or " for " not in line:  # comprehensions keep theirs
            for m in re.finditer(re.escape(word), line):
                yield at(line, m, other)


def off_by_one(line):
    for m in re.finditer(r"(?<![\w.#%\"'])\d+(?![\w.\"'])", line):
        yield at(line, m, str(int(m[0]) + 1))


def swapped(line):
    for m in re.finditer(r"(?<=[(\[])(\w+), (\w+)(?=[)\]])", line):
        if m[1] != m[2]:
            yield at(line, m, f"{m[2]}, {m[1]}")
    for m in re.finditer(r"\b(\w+) (-|/|//|<<|>>|%) (\w+)\b", line):
        yield at(line, m, f"{m[3]} {m[2]} {m[1]}")


def unnegated(line):
    for m in re.finditer(r"(?<=[(\s])!(?=\w)", line):
        yield at(line, m, "")


def left_out(line):
    """A statement of one line that declares nothing."""
    if re.fullmatch(r"\s+(return\b.*|[\w.\->\[\]]+(\(.*\)| [+\-*/|&]?= .*));", line):
        yield re.match(r"\s*", line)[0] + ";"
    if re.fullmatch(r"\s+(raise\b.*|[\w.\[\]]+(\([^()]*\)| [+\-*/|&]= .*))", line) and not line.rstrip().endswith(("(", ",")):
        yield re.match(r"\s*", line)[0] + "pass"


WAYS = (turned, either, off_by_one, swapped, unnegated, left_out)


def is_code(line, python):
    text = line.strip()
    if python:
        return bool(text) and not text.startswith(("#", '"', "'", "import ", "from ", "@", "def ", "class "))
    return bool(text) and not text.startswith(("//", "/*", "*", "#", "using ", "namespace", "static_assert", "inline constexpr"))


def strings_apart(line):
    """The line up to a comment; nothing where it is text for people."""
    code = re.split(r"  # |  // ", line)[0]
    return "" if re.search(r"(Error|require|fail|warn)\(|\"{3}", code) else code


def same_tree(old, new):
    try:
        return ast.dump(ast.parse(old)) == ast.dump(ast.parse(new))
    except SyntaxError:
        return True


def faults(files, seed):
    """Endless: (file, line number, the old text, the new one)."""
    draw = random.Random(seed)
    lines = [(f, i) for f in files for i, line in enumerate(f.read_text().split("\n")) if is_code(line, f.suffix == ".py")]
    while True:
        file, i = draw.choice(lines)
        text = file.read_text().split("\n")
        code = strings_apart(text[i])
        found = [new for way in draw.sample(WAYS, len(WAYS)) for new in way(code) if new != code]
        if not found:
            continue
        changed = [*text[:i], draw.choice(found) + text[i][len(code) :], *text[i + 1 :]]
        if file.suffix != ".py" or not same_tree("\n".join(text), "\n".join(changed)):
            yield file, i, text[i], "\n".join(changed)


def passes(command, timeout):
    try:
        return subprocess.run(command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--build", help="a command that fails where a fault does not compile")
    parser.add_argument("--check", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    checks = dict(check.split("=", 1) for check in options.check)
    found = [f for path in options.files for f in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    files = [f for f in found if f.suffix in (".py", ".cpp", ".h")]
    for name, command in checks.items():
        if not passes(command, 10 * options.timeout):
            sys.exit(f"{name} fails without a fault")
    rows, drawn = [], faults(files, options.seed)
    while len(rows) < options.count:
        file, i, old, changed = next(drawn)
        before = file.read_text()
        file.write_text(changed)
        try:
            if options.build and not passes(options.build, 10 * options.timeout):
                continue
            found = {name: not passes(command, options.timeout) for name, command in checks.items()}
        finally:
            file.write_text(before)
        rows.append({"file": str(file), "line": i + 1, "old": old.strip(), "new": changed.split("\n")[i].strip(), "found": found})
        print(f"{file}:{i + 1}: {old.strip()}  ->  {rows[-1]['new']}: {' '.join(n for n, f in found.items() if f) or '-'}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    if options.build:
        passes(options.build, 10 * options.timeout)
    for name in checks:
        print(f"{name}: {sum(row['found'][name] for row in rows)} of {len(rows)} found")


if __name__ == "__main__":
    main()
