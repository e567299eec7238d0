# tools/site/diagrams.py: flow charts of the pages as pictures of Graphviz, so that the site needs no script from elsewhere
import re
import subprocess

_RANKS = {"TD": "TB", "TB": "TB", "BT": "BT", "LR": "LR", "RL": "RL"}
_BOX = re.compile(r'^(\w+)\["(.*)"\]$')
_ARROW = re.compile(r'^(\w+) -->(?:\|"?(.*?)"?\|)? (\w+)$')
_STYLE = (
    'graph [bgcolor=transparent, nodesep=0.25, ranksep=0.4]; '
    'node [shape=box, style="rounded", fontname="sans-serif", fontsize=12, height=0.35]; '
    'edge [arrowsize=0.6, fontname="sans-serif", fontsize=10];'
)


def dot(text: str) -> str:
    """Mermaid's `flowchart` of boxes and arrows in Graphviz' language. Raises ValueError naming a line that is neither."""
    head, *lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    kind, _, direction = head.partition(" ")
    if kind != "flowchart" or direction not in _RANKS:
        raise ValueError(f"diagram: {head!r} is not `flowchart TD`, BT, LR or RL")
    out = [f"digraph {{ rankdir={_RANKS[direction]}; {_STYLE}"]
    for line in lines:
        if box := _BOX.match(line):
            label = box[2].replace("<br>", "\\n").replace('"', '\\"')
            out.append(f'"{box[1]}" [label="{label}"];')  # quoted: `graph` is a word of Graphviz' own
        elif arrow := _ARROW.match(line):
            out.append(f'"{arrow[1]}" -> "{arrow[3]}" [label="{arrow[2] or ""}"];')
        else:
            raise ValueError(f"diagram: {line!r} is neither a box nor an arrow")
    return "\n".join([*out, "}"])


def svg(text: str) -> str:
    """The picture, in the colours of the text around it."""
    done = subprocess.run(["dot", "-Tsvg"], input=dot(text), capture_output=True, text=True, check=True)
    picture = done.stdout[done.stdout.index("<svg") :]
    return re.sub(r'(stroke|fill)="black"', r'\1="currentColor"', picture).replace("<text ", '<text fill="currentColor" ')


def draw(source, language, css_class, options, md, **kwargs) -> str:
    """What superfences asks for a fence."""
    return f'<figure class="{css_class}">{svg(source)}</figure>'
