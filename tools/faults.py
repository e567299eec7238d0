# tools/faults.py: draws faults of source and plants them behind guards, of which the environment chooses one (tools/mutants.py)
import ast
import builtins
import copy
import json
import mmap
import os
import random
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path

TURNED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
EITHER = {" and ": " or ", " or ": " and ", " && ": " || ", " || ": " && ", " is not ": " is ", "true": "false", "false": "true",
          "True": "False", "False": "True", " + ": " - ", " - ": " + ", " * ": " + ", " // ": " / ", " += ": " -= ", "min(": "max(",
          "max(": "min(", " continue": " break", "not ": "", " in ": " not in "}  # fmt: skip
ROOM = 1 << 14  # faults at most


def put(line, match, text):
    return line[: match.start()] + text + line[match.end() :]


def ways(line):
    """The line with one fault, for each that it can have."""
    for m in re.finditer(r" (<=|>=|==|!=|<|>) ", line):
        yield put(line, m, f" {TURNED[m[1]]} ")
    for word, other in EITHER.items():
        if word not in ("not ", " in ") or " for " not in line:  # comprehensions keep theirs
            for m in re.finditer(re.escape(word), line):
                yield put(line, m, other)
    for m in re.finditer(r"(?<![\w.#%\"'])\d+(?![\w.\"'])", line):
        yield put(line, m, str(int(m[0]) + 1))
    for m in re.finditer(r"(?<=[(\[])(\w+), (\w+)(?=[)\]])", line):
        if m[1] != m[2] and not re.search(r"(min|max|add|mul|and|or|same\w*|equal)(<\w+>)?\($", line[: m.start()], re.I):
            yield put(line, m, f"{m[2]}, {m[1]}")
    for m in re.finditer(r"(?<![-/%] )\b(\w+) (-|/|//|<<|>>|%) (\w+)\b", line):
        yield put(line, m, f"{m[3]} {m[2]} {m[1]}")
    for m in re.finditer(r"(?<=[(\s])!(?=\w)", line):
        yield put(line, m, "")
    if re.fullmatch(r"\s+(return\b.*|[\w.\->\[\]]+(\(.*\)| [+\-*/|&]?= .*));", line):
        yield re.match(r"\s*", line)[0] + ";"
    if re.fullmatch(r"\s+(raise\b.*|[\w.\[\]]+(\([^()]*\)| [+\-*/|&]= .*))", line) and not line.rstrip().endswith(("(", ",")):
        yield re.match(r"\s*", line)[0] + "pass"


def same_code(old, new):
    """Whether only words in strings and comments differ; so too where the line tells people of an error."""
    code = [re.sub(r"\"(\\.|[^\"\\])*\"|(^|\s)(//|#) .*", '""', line) for line in (old, new)]
    return code[0] == code[1] or re.search(r"(Error|require|fail|warn)\(|\"{3}", old)


def statements(text):
    """(first line, last line) of what may be a statement of C++, or the head of one."""
    lines, first = text.split("\n"), None
    for i, line in enumerate(lines):
        code = re.sub(r'"(\\.|[^"\\])*"', '""', re.split(r"(^|\s)//", line)[0]).rstrip()
        if not code or code.lstrip().startswith("#") or code.endswith("\\"):
            first = None
        elif first is None:
            first, depth = i, 0
        if first is None:
            continue
        depth += len(re.findall(r"[([]", code)) - len(re.findall(r"[)\]]", code))
        if depth < 0 or i - first > 8:
            first = None
        elif depth == 0 and code.endswith((";", "{", "}", ":")):
            if not lines[i + 1 : i + 2] or not lines[i + 1].lstrip().startswith("else"):
                yield first, i
            first = None


# What of a statement a fault may be in alone: the condition of a branch or a loop, the value that a name gets.
FORMS = (
    (r"((?:} else )?(?:if|while) \((?:[^;{]*; )?)([^;{]*)(\) \{)", "bool"),
    (r"(for \([^;]*; )([^;]*)(;[^;]*\) \{)", "bool"),
    (r"((?:(?:static|const|unsigned) )*[\w:]+(?:<[^;=]*>)?[&* ]+(?:\w+|\[[\w, ]+\]) = )([^{\[;][^;]*)(;)", ""),
)
WORD = r"(?!return\b|throw\b|delete\b|if\b|for\b|else\b)[\w:]+"
DECLARES = WORD + r"(<[^;=]*>)?[&* ]+\w+\s*[({;\[=]|using |case |struct |class "


def guarded(fault, old, new):
    """C++ that does the one or the other; None where it cannot be told apart from a declaration."""
    at = f"hologram_mutants::at({fault})"
    before = re.match(r"\s*((case [\w:]+|default): )?", old)[0]
    a, b = old[len(before) :], new[len(before) :]
    if "constexpr" in a or "//" in a or not new.startswith(before) or not a:
        return None
    for form, kind in FORMS:
        m, n = re.fullmatch(form, a), re.fullmatch(form, b)
        if m and n and (m[1], m[3]) == (n[1], n[3]) and not re.match(r"(return|throw|delete)\b", a):
            return f"{before}{m[1]}{at} ? {kind}({n[2]}) : {kind}({m[2]}){m[3]}" if not re.match(r"[\w:<>]+[&* ]+\w+ = ", m[2]) else None
    declares = re.match(DECLARES, a)
    whole = a.endswith(";") and a.count("{") == a.count("}") and a.count("(") == a.count(")") and not declares
    return f"{before}{{ if ({at}) {{ {b} }} else {{ {a} }} }}" if whole and a[0] not in "}{:.,&|?+<)" else None


def part(old, new):
    """The smallest statements of two lists that differ; None where more than one pair does."""
    differ = [(a, b) for a, b in zip(old, new) if ast.dump(a) != ast.dump(b)]
    if len(old) != len(new) or len(differ) != 1:
        return None
    (a, b), bodies = differ[0], [f for f in ("body", "orelse", "finalbody", "handlers") if isinstance(getattr(differ[0][0], f, None), list)]

    def head(node):
        node = copy.copy(node)
        for f in bodies:
            setattr(node, f, [])
        return ast.dump(node)

    found = [p for f in bodies if type(a) is type(b) and head(a) == head(b) for p in [part(getattr(a, f), getattr(b, f))] if p]
    return found[0] if len(found) == 1 and isinstance(found[0][0], ast.stmt) else (a, b)


def place(fault, lines):
    """The first line of a fault's statement, wherever it moved to; None where it is gone."""
    old = fault["old"].split("\n")
    there = [i for i in range(len(lines)) if lines[i : i + len(old)] == old]
    return min(there, key=lambda i: abs(i + 1 - fault["line"]), default=None)


def planted_python(text, faults):
    tree, ways, lines = ast.parse(text), {}, text.split("\n")
    for fault in faults:
        i = place(fault, lines)
        new = None if i is None else "\n".join([*lines[:i], fault["new"], *lines[i + 1 :]])
        try:
            found = new and part(tree.body, ast.parse(new).body)
        except SyntaxError:
            continue
        if found and isinstance(found[0], ast.stmt) and not (isinstance(found[0], ast.Expr) and isinstance(found[0].value, ast.Constant)):
            ways.setdefault(found[0], []).append((fault["id"], found[1]))

    class Guards(ast.NodeTransformer):
        def visit(self, node):
            self.generic_visit(node)
            for fault, other in ways.get(node, []):
                test = ast.Call(ast.Name("hologram_mutants_at", ast.Load()), [ast.Constant(fault)], [])
                node = ast.fix_missing_locations(ast.copy_location(ast.If(test, [other], [node]), node))
            return node

    return Guards().visit(tree), {fault for found in ways.values() for fault, _ in found}


def planted_cpp(text, faults):
    lines, done = text.split("\n"), set()
    for fault in faults:
        i = place(fault, lines)
        new = None if i is None else guarded(fault["id"], fault["old"], fault["new"])
        if new:
            done.add(fault["id"])
            lines[i : i + fault["old"].count("\n") + 1] = new.split("\n")
    return '#include "hologram_mutants.h"\n' * bool(done) + "\n".join(lines), done


def by_file(faults, suffix):
    files = {}
    for fault in faults:
        if fault["file"].endswith(suffix):
            files.setdefault(fault["file"], []).append(fault)
    return files


def draw(faults, paths, count, seed):
    """The faults and `count` more of the files below the paths, one in a statement."""
    files = [f for p in map(Path, paths) for f in (sorted(p.rglob("*")) if p.is_dir() else [p]) if f.suffix in (".py", ".cpp")]
    texts, places, draw, wanted = {f: f.read_text() for f in files}, [], random.Random(seed), len(faults) + count
    for f, text in texts.items():
        found = statements(text) if f.suffix == ".cpp" else ((i, i) for i in range(text.count("\n")))
        places += [] if 'R"' in text and f.suffix == ".cpp" else [(f, a, b) for a, b in found for _ in range(a, b + 1)]
    while places and len(faults) < wanted:
        f, first, last = draw.choice(places)
        places = [p for p in places if p != (f, first, last)]
        old = texts[f].split("\n")[first : last + 1]
        found = [(i, new) for i, line in enumerate(old) for new in ways(line) if not same_code(line, new)]
        if found and not (f.suffix == ".py" and re.match(r"\s*([#\"'@]|import |from |def |class )", old[0])):
            i, new = draw.choice(found)
            other = "\n".join([*old[:i], new, *old[i + 1 :]])
            fault = {"id": len(faults), "file": str(f), "line": first + 1, "old": "\n".join(old), "new": other}
            if (planted_cpp if f.suffix == ".cpp" else planted_python)(texts[f], [fault])[1]:
                faults.append(fault)
    return faults


class Reached:
    """Which faults were reached: a file that all processes of a test share."""

    def __init__(self):
        path = os.environ.get("MUTANTS_REACHED")
        self.map = mmap.mmap(os.open(path, os.O_RDWR), ROOM) if path else bytearray(ROOM)
        self.chosen = int(os.environ.get("MUTANT", -1))

    def take(self):
        found = [i for i, byte in enumerate(self.map[:]) if byte]
        self.map[:] = bytes(ROOM)
        return found


state = None


def at(fault):
    global state
    state = state or Reached()
    state.map[fault] = 1
    return fault == state.chosen


def hook(path):
    """Modules are imported with their faults."""
    files = {os.path.abspath(f): those for f, those in by_file(json.loads(Path(path).read_text()), ".py").items()}
    builtins.hologram_mutants_at, get_code = at, SourceFileLoader.get_code

    def get(self, name):
        file = os.path.abspath(self.get_filename(name))
        return compile(planted_python(Path(file).read_text(), files[file])[0], file, "exec") if file in files else get_code(self, name)

    SourceFileLoader.get_code = get
