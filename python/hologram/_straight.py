# hologram/_straight.py: the steps of a plan as one function, written in Python
# mypy: disable-error-code="no-any-return,return-value"
"""Following steps as objects takes longer than what many of them do: 5 µs beside 7 µs of NumPy's at 10,000 elements."""

import collections
import operator
import re
from typing import Any, Callable, Optional

import numpy as np

from hologram import _core

__all__ = ["Slow", "straight"]


class Slow(Exception):
    """The arguments are of a kind that steps as objects serve."""


def as_array(value: Any, mismatch: Any) -> Any:
    """What is no plain array as one."""
    if isinstance(value, _core.Buffer):
        raise Slow
    if isinstance(value, (np.ndarray, np.generic, int, float, complex)):
        return np.asarray(value)
    raise mismatch


class Writer:
    """Lines of the function. `e3` is the value of slot 3, `s1` that of symbol 1, `k7` an object that the function holds."""

    def __init__(self, steps: Any, mismatch: type[Exception]) -> None:
        self.steps, self.lines = steps, ["def follow(leaves, log):"]
        self.held: dict[str, Any] = {"ndarray": np.ndarray, "array": np.array, "as_array": as_array, "Mismatch": mismatch}
        self.known: set[int] = set()  # symbols with a value
        self.owned: set[int] = set()  # slots whose arrays nothing outside of the plan has
        self.uses: collections.Counter[int] = collections.Counter()  # by slot

    def hold(self, value: Any) -> str:
        name = f"k{len(self.held)}"
        self.held[name] = value
        return name

    def line(self, text: str) -> None:
        self.lines.append("    " + text)

    def refuse(self, condition: str) -> None:
        self.line(f"if {condition}: raise Mismatch")

    def count(self, plan: Any, steps: Any) -> None:
        """How often each slot is read."""

        def visit(value: Any) -> None:
            if type(value) is steps.Ref:
                self.uses[value.slot] += 1
            elif type(value) in (tuple, list):
                for part in value:
                    visit(part)
            elif type(value) is dict:
                visit(list(value.values()))
            elif type(value) is slice:
                visit([value.start, value.stop, value.step])

        visit(plan._results)
        for step in plan._steps:
            if type(step) is steps.Graph:
                self.uses.update(step.inputs)
            elif type(step) is not steps.Check:
                visit([step.args, step.kwargs])

    # --- checks
    def check(self, step: Any, fits: Any) -> None:
        for slot, pattern in step.slots:
            if pattern[0] == "number":
                self.refuse(f"type(e{slot}) is not float")
            elif pattern[0] == "object":
                self.refuse(f"type(e{slot}) is not {self.hold(pattern[1])}")
            elif pattern[0] == "fixed":
                self.held["fits"] = fits
                self.refuse(f"e{slot} is not {self.hold(pattern[1])} and not fits({self.hold(pattern)}, e{slot}, ())")
            else:
                self.check_array(slot, *pattern[1:3])
        for guard in step.guards:
            self.refuse(f"{self.size(guard)} < 0")

    def check_array(self, slot: int, dtype: Any, dims: Any) -> None:
        self.line(f"t = e{slot} if type(e{slot}) is ndarray else as_array(e{slot}, Mismatch)")
        held = self.hold(dtype)
        self.refuse(f"t.dtype is not {held} and t.dtype != {held} or t.ndim != {len(dims)}")
        for axis, want in enumerate(dims):
            if want >= 0:
                self.refuse(f"t.shape[{axis}] != {want}")
            elif ~want in self.known:
                self.refuse(f"t.shape[{axis}] != s{~want}")
            else:
                self.line(f"s{~want} = t.shape[{axis}]")
                self.refuse(f"s{~want} < 2")
                self.known.add(~want)

    def size(self, expr: Any) -> str:
        text = str(expr)
        if re.fullmatch(r"s\d+", text) and int(text[1:]) in self.known:
            return text
        values = [f"s{n}" if n in self.known else "-1" for n in range(max(self.known, default=-1) + 1)]
        return f"{self.hold(expr)}.evaluate([{', '.join(values)}])"

    # --- steps
    def graph(self, step: Any, arrays: set[int], native: Any) -> None:
        self.held["native"] = native
        given = [f"e{i}" if step.given[i] else "None" for i in range(step.leaves)]
        given += [f"e{s}" if s in arrays else f"e{s} if type(e{s}) is ndarray else native(e{s})" for s in step.inputs]
        self.line(f"r = {self.hold(step.call)}(({''.join(text + ', ' for text in given)}))")
        self.refuse("r is None")
        self.line("".join(f"e{slot}, " for slot, _, _ in step.outputs) + "= r")
        for slot, scalar, weak in step.outputs:
            if weak or scalar:
                self.line(f"e{slot} = e{slot}.item()" if weak else f"e{slot} = e{slot}[()]")
            else:
                arrays.add(slot)
                self.owned.add(slot)

    def host(self, step: Any, encoded: Any, flatten: Any) -> None:
        arguments = [self.template(a, encoded) for a in step.args]
        named = [f"{name}={self.template(a, encoded)}" for name, a in step.kwargs.items()]
        if step.function is operator.getitem:
            self.line(f"r = {arguments[0]}[{arguments[1]}]")
        else:
            function = step.function
            position, write = getattr(function, "in_place", (None, None))
            if position is not None:
                target = step.args[position]
                function = write if type(target) is encoded[0] and target.slot in self.owned and self.uses[target.slot] == 1 else function
                self.owned.add(step.results[0])
            self.line(f"r = {self.hold(function)}({', '.join(arguments + named)})")
        self.line("log.append(r)")
        structure = step.structure
        if structure == "leaf":
            self.refuse("type(r) is not ndarray and isinstance(r, (tuple, list))")
            self.line(f"e{step.results[0]} = r")
        elif all(part == "leaf" for part in structure[1:]) and step.results:
            self.refuse(f"type(r) is not {self.hold(structure[0])} or len(r) != {len(step.results)}")
            self.line("".join(f"e{slot}, " for slot in step.results) + "= r")
            for slot in step.results:
                self.refuse(f"type(e{slot}) is not ndarray and isinstance(e{slot}, (tuple, list))")
        else:
            self.held["flatten"] = flatten
            self.line("found = []")
            self.refuse(f"flatten(r, found) != {self.hold(structure)}")
            if step.results:
                self.line("".join(f"e{slot}, " for slot in step.results) + "= found")

    def template(self, value: Any, encoded: Any) -> str:
        ref, size = encoded
        if type(value) is ref:
            return f"e{value.slot}"
        if type(value) is size:
            return self.size(value.expr)
        if type(value) in (tuple, list):
            inner = "".join(self.template(part, encoded) + ", " for part in value)
            return f"({inner})" if type(value) is tuple else f"[{inner}]"
        if type(value) is dict:
            return "{" + ", ".join(f"{self.hold(key)}: {self.template(part, encoded)}" for key, part in value.items()) + "}"
        if type(value) is slice:
            return f"{self.hold(slice)}({', '.join(self.template(v, encoded) for v in (value.start, value.stop, value.step))})"
        return repr(value) if value is None or type(value) in (bool, int) else self.hold(value)

    # --- nestings of arguments and results
    def nested(self, structure: Any, leaves: Any) -> str:
        if structure == "leaf":
            return next(leaves)
        if structure[0] is dict:
            return "{" + ", ".join(f"{self.hold(k)}: {self.nested(s, leaves)}" for k, s in zip(structure[1], structure[2:])) + "}"
        inner = "".join(self.nested(part, leaves) + ", " for part in structure[1:])
        if structure[0] is list:
            return f"[{inner}]"
        return f"{self.hold(structure[0])}({inner})" if structure[0] is not tuple else f"({inner})"

    def finish(self) -> Callable[..., Any]:
        exec(compile("\n".join(self.lines), "<steps of hologram.jit>", "exec"), self.held)
        return self.held["follow"]


def straight(plan: Any, steps: Any, whole: Optional[tuple[Any, Any]]) -> Callable[..., Any]:
    """function(leaves, log) → what the traced function returns, or Mismatch or Slow; `log` takes what NumPy's functions give.
    `steps`: the module that made the plan; `whole`: (function, nesting of its arguments) where NumPy computes all of it."""
    writer = Writer(plan._steps, steps.Mismatch)
    if plan._leaves:
        writer.line("".join(f"e{i}, " for i in range(plan._leaves)) + "= leaves")
    arrays: set[int] = set()
    writer.count(plan, steps)
    for slot, value in enumerate(plan._blank):
        if slot >= plan._leaves and value is not None:
            writer.held[f"e{slot}"] = value
    for step in plan._steps:
        if type(step) is steps.Check:
            writer.check(step, steps.fits)
        elif whole is not None:
            break
        elif type(step) is steps.Graph:
            writer.graph(step, arrays, steps.native)
        else:
            writer.host(step, (steps.Ref, steps.Size), steps.flatten)
    if whole is not None:
        function, (positional, named) = whole
        names = iter([f"e{i}" for i in range(plan._leaves)])
        first = [writer.nested(part, names) for part in positional[1:]]
        second = [f"{key}={writer.nested(part, names)}" for key, part in zip(named[1], named[2:])]
        writer.line(f"return {writer.hold(function)}({', '.join(first + second)})")
        return writer.finish()
    texts = []
    for value in plan._results:
        if type(value) is not steps.Ref:
            texts.append(writer.hold(value))
        elif value.slot < plan._leaves:
            texts.append(f"(array(e{value.slot})[()] if isinstance(e{value.slot}, ndarray) else e{value.slot})")
        else:
            texts.append(f"e{value.slot}")
    writer.line(f"return {writer.nested(plan._structure, iter(texts))}")
    return writer.finish()
