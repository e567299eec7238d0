# hologram/page/plan.py: a compiled graph as plain data: what the page shows of it
"""Also used where a table shows the share of the limit."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Optional

from hologram.limits import Limits
from hologram.page.layout import Layout

MOST_TEXT = 20_000  # characters of a program that a page holds
_PRODUCTS = ("product", "attention")


@dataclass
class Plan:
    """What there is to show of one compiled graph.

    plan: Executable.describe(); times: by step (calls, total seconds, least seconds), or none; costs: by step (FLOP, bytes) at the
    sizes of the call, else those of `plan` that are numbers; programs: Atlas text by number; origins: by node of the graph
    (operator, line of the user's program); notes: lines of text beside the picture.
    """

    name: str
    plan: dict[str, Any]
    times: Any = ()
    costs: Any = ()
    programs: Any = ()
    origins: dict[int, tuple[str, str]] = field(default_factory=dict)
    device: str = ""
    notes: Any = ()

    def steps(self) -> list[int]:
        """Numbers of the steps of a steady-state call: what packs weights runs once."""
        return [i for i, step in enumerate(self.plan["steps"]) if not step["cached"]]

    def cost(self, number: int) -> tuple[Optional[int], Optional[int]]:
        """FLOP and bytes; None where they depend on sizes that are not known."""
        if self.costs:
            flop, bytes = self.costs[number]
            return flop, bytes
        step = self.plan["steps"][number]
        return _number(step.get("flop", "0")), _number(step.get("bytes", "0"))

    def operand(self, number: int) -> str:
        """The dtype whose arithmetic bounds a step."""
        step, slots = self.plan["steps"][number], self.plan["slots"]
        types = [slots[i]["dtype"] for i in step.get("reads", ())]
        if kind(step) in _PRODUCTS and len(types) > 1:
            narrow = {"bf16": 0, "i8": 1, "u8": 1}
            if types[0] in narrow and narrow[types[0]] == narrow.get(types[1]):
                return str(types[0])
        written = [slots[i]["dtype"] for i in step.get("writes", ()) if i >= 0]
        return "f64" if "f64" in written or "f64" in types[:2] else "f32"

    def share(self, number: int, seconds: float, limits: Optional[Limits]) -> Optional[tuple[float, str]]:
        """The least time of a step's work over the time that it took, and what binds; None where either is not known."""
        flop, bytes = self.cost(number)
        if limits is None or self.device or flop is None or bytes is None or seconds <= 0 or not flop + bytes:
            return None
        if self.plan["steps"][number]["kind"] == "host":
            return None
        least, what = limits.least(flop, bytes, self.operand(number), self._written(number, bytes))
        return least / seconds, what

    def _written(self, number: int, bytes: int) -> Optional[int]:
        """Those of a step's bytes that it writes; None where some are read too, or depend on sizes that are not known."""
        step = self.plan["steps"][number]
        moved = dict(zip(step.get("slots", ()), step.get("moved", ())))
        sizes = [[_number(moved.get(n, "")) for n in step.get(what, ())] for what in ("reads", "writes")]
        read, written = (None if None in found else sum(n for n in found if n is not None) for found in sizes)
        return written if read is not None and written is not None and read + written == bytes else None


def kind(step: dict[str, Any]) -> str:
    """What a step is, for its colour."""
    if step["kind"] == "host":
        return "host"
    names = [step["name"], *(name for name, _ in step.get("operations", ()))]
    if any("attention" in name for name in names):
        return "attention"
    if "dot_general" in step["name"] or any(name == "dot_general" for name in names):
        return "product"
    if any(name.startswith(("reduce", "sum", "max", "min", "argm")) and "reduce" in name for name in names):
        return "reduction"
    return "loop"


def _number(text: str) -> Optional[int]:
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def data(plan: Plan, limits: Optional[Limits]) -> dict[str, Any]:
    """What the page's script reads of a plan."""
    shown = plan.steps()
    index = {number: i for i, number in enumerate(shown)}
    edges = _edges(plan, index)
    layout = Layout(len(shown), sorted({(a, b) for a, b, _ in edges}))
    route = dict(zip(layout.edges, layout.routes))
    lines: dict[str, int] = {}
    steps = [_step(plan, number, limits, lines) for number in shown]
    for step, (x, y) in zip(steps, layout.places):
        step["x"], step["y"] = round(x, 1), round(y, 1)
    used = {step["program"] for step in steps if step["program"] >= 0}
    return {
        "name": plan.name,
        "notes": list(plan.notes),
        "device": plan.device,
        "steps": steps,
        "slots": [_slot(slot) for slot in plan.plan["slots"]],
        "edges": [{"from": a, "to": b, "slot": slot, "at": [[round(v, 1) for v in p] for p in route[a, b]]} for a, b, slot in edges],
        "programs": {n: _shortened(plan.programs[n]) for n in sorted(used) if n < len(plan.programs)},
        "lines": list(lines),
        "width": round(layout.width),
        "height": round(layout.height),
        "arena": plan.plan["arena_bytes"],
        "eager": plan.plan["eager_bytes"],
    }


def _edges(plan: Plan, index: dict[int, int]) -> list[tuple[int, int, int]]:
    """(from, to, slot) between steps that are shown."""
    writer: dict[int, int] = {}
    out = []
    for number, step in enumerate(plan.plan["steps"]):
        if number in index:
            out += [(writer[slot], index[number], slot) for slot in dict.fromkeys(step.get("reads", ())) if slot in writer]
        for slot in step.get("writes", ()):
            writer.pop(slot, None)
            if number in index and slot >= 0:
                writer[slot] = index[number]
    return [edge for edge in out if edge[0] != edge[1]]


def _step(plan: Plan, number: int, limits: Optional[Limits], lines: dict[str, int]) -> dict[str, Any]:
    step = plan.plan["steps"][number]
    flop, bytes = plan.cost(number)
    calls, total, least = plan.times[number] if plan.times else (0, 0.0, 0.0)
    share = plan.share(number, least, limits)
    operations = step.get("operations", ())
    origins = [plan.origins[node] for _, node in operations if node in plan.origins]
    where = dict.fromkeys(line for _, line in origins if line)
    for line in where:
        lines.setdefault(line, len(lines))
    return {
        "number": number,
        "name": step["name"],
        "kind": kind(step),
        "program": step["program"],
        "operations": [[name, times] for name, times in Counter(name for name, _ in operations).items()],
        "operators": list(dict.fromkeys(operator for operator, _ in origins)),
        "lines": [lines[line] for line in where],
        "flop": flop,
        "bytes": bytes,
        "flopText": step.get("flop", ""),
        "bytesText": step.get("bytes", ""),
        "calls": calls,
        "seconds": least,
        "total": total,
        "share": share and round(share[0], 4),
        "bound": share and share[1],
        "reads": list(step.get("reads", ())),
        "writes": [slot for slot in step.get("writes", ()) if slot >= 0],
    }


def _slot(slot: dict[str, Any]) -> dict[str, Any]:
    shape = "×".join(map(str, slot["shape"])) or "scalar"
    return {"name": slot["name"], "kind": slot["kind"], "dtype": slot["dtype"], "shape": shape, "bytes": slot["bytes"]}


def _shortened(text: str) -> str:
    rest = len(text) - MOST_TEXT
    return text if rest <= 0 else f"{text[:MOST_TEXT]}\n… {rest:,} characters more: HOLOGRAM_DUMP=atlas writes them all"
