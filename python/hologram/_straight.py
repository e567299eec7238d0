# hologram/_straight.py: the steps of a plan as one function, written in Python
# mypy: disable-error-code="no-any-return,return-value"
"""Following steps as objects takes longer than what many of them do: 5 µs beside 7 µs of NumPy's at 10,000 elements."""

import collections
import functools
import operator
import re
from typing import Any, Callable, Optional

import numpy as np

from hologram import _core, _steps as steps
from hologram._prepared import SMALL
from hologram.trace import AGAIN, Parted

__all__ = ["straight"]


def as_array(value: Any) -> Any:
    """What is no plain array as one; None where it is none at all."""
    if isinstance(value, _core.Buffer):  # an argument
        raise Parted([])
    return np.asarray(value) if isinstance(value, (np.ndarray, np.generic, int, float, complex)) else None


def as_argument(value: Any) -> Any:
    """As as_array(), of an argument."""
    if steps.strange(value):
        raise Parted()
    return as_array(value)


def refs(value: Any, kind: type) -> list[Any]:
    """The references in arguments of a step."""
    if type(value) is kind:
        return [value]
    if type(value) is dict:
        value = list(value.values())
    if type(value) is slice:
        value = [value.start, value.stop, value.step]
    return [found for part in value for found in refs(part, kind)] if type(value) in (tuple, list) else []


# Beside ufuncs: their results are new arrays, and dtype and shape follow from those of the operands.
_FFTS = ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "fftshift", "ifftshift")


@functools.cache
def _elementwise() -> dict[Any, int]:
    return {np.where: 3, np.zeros_like: 1, np.ones_like: 1, **{getattr(np.fft, name): 1 for name in _FFTS}}


def elementwise(step: Any) -> bool:
    if isinstance(step.function, np.ufunc):
        return step.structure == "leaf" and len(step.args) == step.function.nin and not step.kwargs
    return not step.kwargs and len(step.args) == _elementwise().get(step.function)


def _arguments(step: Any) -> list[Any]:
    return [getattr(step, "args", ()), getattr(step, "kwargs", {})]


class Lives:
    """Where the values of slots are read, which of them need no check, and whose memory nothing else has."""

    def __init__(self, plan: Any) -> None:
        self.patterns, self.ref = plan._patterns, steps.Ref
        self.uses: collections.Counter[int] = collections.Counter()
        self.last: dict[int, int] = {}  # by slot: the step that reads it last
        self.seen_through: set[int] = set()  # slots that results of other steps may be views of
        self.settled: set[int] = set()  # slots of a dtype and a shape that follow from what was checked
        self.unread: set[int] = set()  # slots that are results and nothing else: right as they are
        for number, step in enumerate(plan._steps):
            if type(step) is steps.Check:
                self.last.update((slot, number) for slot, _ in step.slots)
                continue
            read = step.inputs if type(step) is steps.Graph else [r.slot for r in refs([step.args, step.kwargs], steps.Ref)]
            self.uses.update(read)
            self.last.update(dict.fromkeys(read, number))
            if type(step) is steps.Host and not elementwise(step):
                self.seen_through.update(read)
            elif type(step) is steps.Host and self._follows(step):
                self.settled.add(step.results[0])
        sized = any(type(s) is steps.Check and s.guards or refs(_arguments(s), steps.Size) for s in plan._steps)
        for value in refs(plan._results, steps.Ref):
            if not self.uses[value.slot] and value.slot >= plan._leaves and not sized and self.patterns[value.slot][0] == "array":
                self.unread.add(value.slot)
        for value in refs(plan._results, steps.Ref):
            self.uses[value.slot] += 1
            self.last[value.slot] = len(plan._steps)

    def _follows(self, step: Any) -> bool:
        """Whether the result has the shape of an operand, and nothing depends on values."""
        shapes = []
        for a in step.args:
            pattern: Any = self.patterns[a.slot] if type(a) is self.ref else ("number",)
            if type(a) is not self.ref and type(a) not in (bool, int, float, complex):
                return False
            if pattern[0] in ("array", "foreign", "computed") and pattern[2]:
                shapes.append(list(pattern[2]))
            elif pattern[0] != "number":
                return False
        result = self.patterns[step.results[0]]
        return result[0] in ("array", "foreign") and list(result[2]) in shapes

    def target(self, number: int, step: Any, owned: set[int]) -> Optional[int]:
        """The operand that the result of a ufunc may be written over: as it, and not read afterwards."""
        if not isinstance(step.function, np.ufunc) or step.results[0] not in self.settled:
            return None
        read = [a.slot for a in step.args if type(a) is self.ref]
        like = [(p[1], list(p[2])) if len(p) > 2 else None for p in map(self.patterns.__getitem__, [*read, step.results[0]])]
        for slot, kind in zip(read, like):
            if slot in owned and slot not in self.seen_through and self.last[slot] == number and read.count(slot) == 1:
                if kind == like[-1]:
                    return slot
        return None


class Writer:
    """Lines of the function. `e3` is the value of slot 3, `s1` that of symbol 1, `k7` an object that the function holds."""

    def __init__(self, plan: Any, light: bool) -> None:
        self.plan, self.light, self.lines = plan, light, ["def follow(leaves):"]
        self.checked: set[int] = set()  # slots whose dtype and sizes were looked at
        self.held: dict[str, Any] = {"ndarray": np.ndarray, "array": np.array, "as_array": as_array, "as_argument": as_argument}
        self.held.update(Parted=Parted, AGAIN=AGAIN, calls=plan.quick_calls, flatten=steps.flatten, native=steps.native, fits=steps.fits)
        self.known: set[int] = set()  # symbols with a value
        self.owned: set[int] = set()  # slots whose arrays nothing outside of the plan has
        self.arrays: set[int] = set()  # slots that hold plain arrays
        self.lives = Lives(plan)
        self.hosts = 0  # calls of NumPy so far
        self.logs = False  # whether the function keeps what they give

    def hold(self, value: Any) -> str:
        name = f"k{len(self.held)}"
        self.held[name] = value
        return name

    def line(self, text: str) -> None:
        self.lines.append("    " + text)

    def refuse(self, condition: str) -> None:
        given = "" if not self.hosts else "log" if self.logs else f"[AGAIN] * {self.hosts}"
        self.line(f"if {condition}: raise Parted({given})")

    def forget(self, number: int, step: Any) -> None:
        """Frees what no later step reads."""
        made = step.results if type(step) is steps.Host else [slot for slot, _, _ in step.outputs]
        read = step.inputs if type(step) is steps.Graph else [r.slot for r in refs([step.args, step.kwargs], steps.Ref)]
        done = [s for s in {*made, *read} if self.lives.last.get(s, number) <= number and s in self.made]
        if done:
            self.line("del " + ", ".join(f"e{slot}" for slot in sorted(done)))

    # --- checks
    def check(self, slots: Any, sizes: bool = True) -> None:
        for slot, pattern in slots:
            if slot in self.lives.settled or slot in self.lives.unread or slot in self.checked:
                continue
            if sizes:
                self.checked.add(slot)
            if pattern[0] == "number":
                self.refuse(f"type(e{slot}) is not float")
            elif pattern[0] == "object":
                self.refuse(f"type(e{slot}) is not {self.hold(pattern[1])}")
            elif pattern[0] == "fixed":
                self.refuse(f"e{slot} is not {self.hold(pattern[1])} and not fits({self.hold(pattern)}, e{slot}, ())")
            else:
                self.check_array(slot, pattern[1], pattern[2], sizes)

    def check_array(self, slot: int, dtype: Any, dims: Any, sizes: bool) -> None:
        other = "as_argument" if slot < self.plan._leaves else "as_array"
        self.line(f"t = e{slot} if type(e{slot}) is ndarray else {other}(e{slot})")
        held = self.hold(dtype)
        self.refuse(f"t is None or t.dtype is not {held} and t.dtype != {held} or t.ndim != {len(dims)}")
        wrong = []
        names = []
        for axis, want in enumerate(dims if sizes else ()):
            new = want < 0 and ~want not in self.known
            names.append(f"s{~want}" if new else f"d{axis}")
            wrong.append(f"s{~want} < 2" if new else f"d{axis} != {want if want >= 0 else f's{~want}'}")
            self.known.update([~want] * new)
        if names:
            self.line(f"{', '.join(names)}, = t.shape")
            self.refuse(" or ".join(wrong))
        if self.hosts:
            self.line("t = None")

    def size(self, expr: Any) -> str:
        text = str(expr)
        if re.fullmatch(r"s\d+", text) and int(text[1:]) in self.known:
            return text
        values = [f"s{n}" if n in self.known else "-1" for n in range(max(self.known, default=-1) + 1)]
        return f"{self.hold(expr)}.evaluate([{', '.join(values)}])"

    # --- steps
    def all_steps(self) -> None:
        last = max((n for n, step in enumerate(self.plan._steps) if self.may_part(step)), default=-1)
        self.logs = any(type(s) is steps.Host and not elementwise(s) for s in self.plan._steps[: last + 1])
        self.made = {slot for step in self.plan._steps for slot in steps.filled(step)}
        if self.logs:
            self.line("log = []")
        for number, step in enumerate(self.plan._steps):
            if type(step) is steps.Check:
                self.check(step.slots)
                for guard in step.guards:
                    self.refuse(f"{self.size(guard)} < 0")
                continue
            if type(step) is steps.Graph:
                self.graph(step)
            else:
                self.host(number, step, self.logs and number <= last)
            self.forget(number, step)

    def may_part(self, step: Any) -> bool:
        if type(step) is steps.Check:
            return bool(step.guards) or any(slot not in self.lives.settled | self.lives.unread for slot, _ in step.slots)
        if type(step) is steps.Graph:
            return not (self.light and self.by_ufunc(step))
        return not (step.results and step.results[0] in self.lives.settled or self.is_array(step))

    def by_ufunc(self, step: Any) -> bool:
        """Whether NumPy's function may stand for a graph: of arrays that are checked, it gives an array."""
        (slot, scalar, weak), *_ = step.outputs
        return step.ufunc is not None and not scalar and not weak

    def is_array(self, step: Any) -> bool:
        """Whether NumPy gives an array for certain: a part of an array that has its dimensions, or their order."""
        if step.structure != "leaf" or not step.args or type(step.args[0]) is not steps.Ref:
            return False
        of, result = (self.lives.patterns[slot] for slot in (step.args[0].slot, step.results[0]))
        array = len(of) > 2 and len(result) > 2 and len(result[2]) == len(of[2]) > 0
        return array and step.function in (operator.getitem, np.ndarray.transpose) and not refs(step.args[1:], steps.Ref)

    def graph(self, step: Any) -> None:
        if not self.by_ufunc(step):
            return self.native(step)
        function, operands = step.ufunc
        slot = step.outputs[0][0]
        read = [o[1] for o in operands if type(o) is tuple]
        self.check([(s, self.plan._patterns[s]) for s in read if s < self.plan._leaves])
        call = f"e{slot} = {self.hold(function)}({', '.join(f'e{o[1]}' if type(o) is tuple else self.hold(o) for o in operands)})"
        if not self.light:
            self.line(f"if getattr(e{read[0]}, 'size', {SMALL}) < {SMALL}: {call}")
            self.line("else:")
        before = len(self.lines)
        if self.light:
            self.line(call)
        else:
            self.native(step)
            self.lines[before:] = ["    " + line for line in self.lines[before:]]
        self.arrays.add(slot)
        self.owned.add(slot)

    def native(self, step: Any) -> None:
        given = [f"e{i}" if step.given[i] else "None" for i in range(step.leaves)]
        given += [f"e{s}" if s in self.arrays else f"e{s} if type(e{s}) is ndarray else native(e{s})" for s in step.inputs]
        self.line(f"r = {self.hold(step.call)}(({''.join(text + ', ' for text in given)}))")
        self.refuse("r is None")
        self.line("".join(f"e{slot}, " for slot, _, _ in step.outputs) + "= r")
        self.line("r = None")
        for slot, scalar, weak in step.outputs:
            if weak or scalar:
                self.line(f"e{slot} = e{slot}.item()" if weak else f"e{slot} = e{slot}[()]")
            else:
                self.arrays.add(slot)
                self.owned.add(slot)

    def host(self, number: int, step: Any, log: bool) -> None:
        name = f"e{step.results[0]}" if step.structure == "leaf" else "r"
        self.line(f"{name} = {self.call(number, step)}")
        if log:
            self.line(f"log.append({'AGAIN' if elementwise(step) else name})")
        self.hosts += 1
        structure = step.structure
        if step.results and step.results[0] in self.lives.settled:
            self.owned.add(step.results[0])
            self.arrays.add(step.results[0])
        elif structure == "leaf" and not step.opaque and not self.is_array(step):
            self.refuse(f"type({name}) is not ndarray and isinstance({name}, (tuple, list))")
        elif structure != "leaf":
            self.take_apart(step)

    def take_apart(self, step: Any) -> None:
        structure = step.structure
        if all(part == "leaf" for part in structure[1:]) and step.results:
            self.refuse(f"type(r) is not {self.hold(structure[0])} or len(r) != {len(step.results)}")
            self.line("".join(f"e{slot}, " for slot in step.results) + "= r")
            for slot in step.results:
                self.refuse(f"type(e{slot}) is not ndarray and isinstance(e{slot}, (tuple, list))")
        else:
            self.line("found = []")
            self.refuse(f"flatten(r, found) != {self.hold(structure)}")
            if step.results:
                self.line("".join(f"e{slot}, " for slot in step.results) + "= found")
            self.line("found = None")
        self.line("r = None")

    def call(self, number: int, step: Any) -> str:
        arguments = [self.template(a) for a in step.args]
        named = [f"{name}={self.template(a)}" for name, a in step.kwargs.items()]
        function = step.function
        if function is operator.getitem:
            return f"{arguments[0]}[{arguments[1]}]"
        position, write = getattr(function, "in_place", (None, None))
        if position is not None:
            slot = step.args[position].slot if type(step.args[position]) is steps.Ref else -1
            function = write if slot in self.owned and self.lives.uses[slot] == 1 else function
            self.owned.add(step.results[0])
        over = self.lives.target(number, step, self.owned)
        if over is not None:
            arguments.append(f"e{over}")
        return f"{self.hold(function)}({', '.join(arguments + named)})"

    def template(self, value: Any) -> str:
        if type(value) is steps.Ref:
            return f"e{value.slot}"
        if type(value) is steps.Size:
            return self.size(value.expr)
        if type(value) in (tuple, slice) and not refs(value, steps.Ref) and not refs(value, steps.Size):
            return self.hold(value)
        if type(value) in (tuple, list):
            inner = "".join(self.template(part) + ", " for part in value)
            return f"({inner})" if type(value) is tuple else f"[{inner}]"
        if type(value) is dict:
            return "{" + ", ".join(f"{self.hold(key)}: {self.template(part)}" for key, part in value.items()) + "}"
        if type(value) is slice:
            return f"{self.hold(slice)}({', '.join(self.template(v) for v in (value.start, value.stop, value.step))})"
        return repr(value) if value is None or type(value) in (bool, int) else self.hold(value)

    # --- nestings of arguments and results
    def nested(self, structure: Any, leaves: Any) -> str:
        if structure in ("leaf", "scalar"):
            return next(leaves)
        if structure[0] is dict:
            return "{" + ", ".join(f"{self.hold(k)}: {self.nested(s, leaves)}" for k, s in zip(structure[1], structure[2:])) + "}"
        inner = "".join(self.nested(part, leaves) + ", " for part in structure[1:])
        if structure[0] is list:
            return f"[{inner}]"
        return f"{self.hold(structure[0])}({inner})" if structure[0] is not tuple else f"({inner})"

    def whole(self, function: Any, arguments: Any) -> None:
        """The function itself, which is right for any arguments: of those that it was traced for only the kind is looked at."""
        self.check(list(enumerate(self.plan._patterns[: self.plan._leaves])), sizes=False)
        positional, named = arguments
        names = iter([f"e{i}" for i in range(self.plan._leaves)])
        first = [self.nested(part, names) for part in positional[1:]]
        second = [f"{key}={self.nested(part, names)}" for key, part in zip(named[1], named[2:])]
        self.line("calls[0] += 1")
        self.line(f"return {self.hold(function)}({', '.join(first + second)})")

    def results(self) -> None:
        texts = []
        for value in self.plan._results:
            if type(value) is not steps.Ref:
                texts.append(self.hold(value))
            elif value.slot < self.plan._leaves:
                texts.append(f"(array(e{value.slot})[()] if isinstance(e{value.slot}, ndarray) else e{value.slot})")
            else:
                texts.append(f"e{value.slot}")
        self.line("calls[0] += 1")
        self.line(f"return {self.nested(self.plan._structure, iter(texts))}")

    def finish(self) -> Callable[..., Any]:
        exec(compile("\n".join(self.lines), "<steps of hologram.jit>", "exec"), self.held)
        return self.held["follow"]


def straight(plan: Any, whole: Optional[tuple[Any, Any]], light: bool) -> Callable[..., Any]:
    """function(leaves) → what the traced function returns, or Parted. `whole`: (function, nesting of its arguments) where NumPy
    computes all of it; `light`: graphs that are a ufunc are NumPy's, of any size."""
    writer = Writer(plan, light)
    writer.refuse(f"len(leaves) != {plan._leaves}")
    if plan._leaves:
        writer.line("".join(f"e{i}, " for i in range(plan._leaves)) + "= leaves")
    for slot, value in enumerate(plan._blank):
        if slot >= plan._leaves and value is not None:
            writer.held[f"e{slot}"] = value
    if whole is not None:
        writer.whole(*whole)
    else:
        writer.all_steps()
        writer.results()
    return writer.finish()
