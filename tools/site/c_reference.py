# tools/site/c_reference.py: the reference of C and C++ out of the two public headers, which are regular
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SECTION = re.compile(r"^/\* ---- (.*?) -{2,}.*?(?:\*/|$)", re.M)
_DECLARED = re.compile(
    r"(?:/\*\*(?P<said>(?:[^*]|\*(?!/))*)\*/\n)?"
    r"(?P<code>(?:typedef|HOLOGRAM_API|#define HOLOGRAM_)[^\n]*(?:\n(?![\n/#]|HOLOGRAM_API|typedef).*)*)"
)
_NAME = re.compile(r"(?:#define |\b)((?:hologram|HOLOGRAM)_(?!API)\w+)(?=\(|;| \w+u? )|\}\s*(hologram_\w+);")
_CLASS = re.compile(r"(?P<said>(?:^///[^\n]*\n)+)(?P<code>(?:template [^\n]*\n)?(?:class|struct)[^\n]*\{\n.*?^\};)", re.M | re.S)


def _words(comment: str) -> str:
    lines = [re.sub(r"^\s*(\*|///) ?", "", line).rstrip() for line in comment.strip().splitlines()]
    return "\n".join(lines).strip()


def _name(code: str) -> str:
    found = _NAME.search(code)
    return (found[1] or found[2]) if found else code.split("\n")[0]


def _entries(body: str) -> list:
    """One for each comment, with the declarations below it."""
    found: list = []
    for m in _DECLARED.finditer(body):
        if m["said"] or not found:
            found.append((_words(m["said"] or ""), []))
        found[-1][1].append(m["code"].replace("HOLOGRAM_API ", "").rstrip())
    names = (", ".join(f"`{_name(code)}`" for code in codes) for _, codes in found)
    return [f"### {name}\n\n{said}\n\n```c\n" + "\n".join(codes) + "\n```\n" for name, (said, codes) in zip(names, found)]


def _c() -> list:
    text = (ROOT / "include/hologram/hologram.h").read_text()
    out = ["## Conventions\n\n```text\n" + _words(text[text.index("/*") + 2 : text.index("*/")]) + "\n```\n"]
    parts = _SECTION.split(text)
    for title, body in zip(parts[1::2], parts[2::2]):
        out.append(f"## {title}\n")
        out += _entries(body)
    return out


def _cpp() -> list:
    text = (ROOT / "include/hologram/hologram.hpp").read_text()
    out = ["## C++\n\nHeader-only over the above: `#include <hologram/hologram.hpp>`.\n"]
    for m in _CLASS.finditer(text):
        title = re.search(r"(?:class|struct) (?:\[\[\w+\]\] )?(\w+)", m["code"])[1]
        public = re.sub(r"\n private:.*?(?=\n \w+:|\n\};)", "", m["code"], flags=re.S)
        out.append(f"### `{title}`\n\n{_words(m['said'])}\n\n```cpp\n{public}\n```\n")
    return out


def page() -> str:
    first = "Made of `hologram.h` and `hologram.hpp`; [the guide](../c-api.md) shows programs.\n"
    return "\n".join(["# C and C++\n", first, *_c(), *_cpp()])


def functions() -> set:
    """Names of the C functions that the page has."""
    heads = re.findall(r"^### (.*)", "\n".join(_c()), re.M)
    return {name for head in heads for name in re.findall(r"`(hologram_\w+)`", head)}
