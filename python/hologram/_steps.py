# hologram/_steps.py: calls of NumPy as steps of a traced function
# mypy: disable-error-code="no-any-return,return-value"
"""What has no lowering, NumPy computes: the trace then is native graphs and calls of NumPy, in the order of the program.

A call needs the values of its operands, so the graph that computes them ends there; its results are arguments of the next
graph. Traces run these steps at once, and so know the dtype and shape of what NumPy gives. A later call follows the same
steps; where a result's pattern is another one, the program is traced anew with what NumPy has given so far.
"""

import functools
import math
import operator
import re
from typing import Any, Callable, Optional, Sequence

import numpy as np

from hologram import _core
from hologram._registry import FUNCTIONS, HOOKS
from hologram.trace import AGAIN, Array, Dim, TraceError, Tracer, Unknown

__all__ = ["Recorder", "Ref", "decode", "encode", "flatten", "unflatten"]


class Mismatch(Exception):
    """The steps of a trace are not for these values."""


class Ref:
    """In the arguments of a step: the value of a slot."""

    def __init__(self, slot: int) -> None:
        self.slot = slot


class Size:
    """In the arguments of a step: a size."""

    def __init__(self, expr: Any) -> None:
        self.expr = expr


def decode(template: Any, environment: list[Any], symbols: list[int]) -> Any:
    """Arguments of a step, in this call."""
    kind = type(template)
    if kind is Ref:
        return environment[template.slot]
    if kind is Size:
        return template.expr.evaluate(symbols)
    if kind in (tuple, list):
        return kind([decode(part, environment, symbols) for part in template])
    if kind is dict:
        return {name: decode(part, environment, symbols) for name, part in template.items()}
    if kind is slice:
        return slice(*decode((template.start, template.stop, template.step), environment, symbols))
    return template


def flatten(value: Any, leaves: list[Any]) -> Any:
    """The nesting of tuples (named ones too) and lists as a value; leaves are appended to `leaves`."""
    if isinstance(value, tuple) or type(value) is list:
        return (type(value), *[flatten(part, leaves) for part in value])
    leaves.append(value)
    return "leaf"


def unflatten(structure: Any, source: Any) -> Any:
    if structure == "leaf":
        return next(source)
    parts = [unflatten(part, source) for part in structure[1:]]
    return structure[0](*parts) if hasattr(structure[0], "_fields") else structure[0](parts)


def native(value: Any) -> Any:
    """The value as graphs take it."""
    return value if type(value) is float or isinstance(value, (np.ndarray, _core.Buffer)) else np.asarray(value)


def strange(value: Any) -> bool:
    """Whether it is an array with operations of its own: a masked array, a matrix, of a user's class."""
    return isinstance(value, np.ndarray) and type(value) not in (np.ndarray, np.memmap)


def fits(pattern: Any, value: Any, symbols: list[int]) -> bool:
    """Whether the value is one that the trace is right for; notes what sizes the symbols have."""
    kind = pattern[0]
    if kind == "number":
        return type(value) is float
    if kind == "object":
        return type(value) is pattern[1]
    if kind == "fixed":
        return value is pattern[1] or (type(value) is type(pattern[1]) and bool(value == pattern[1]))
    if isinstance(value, _core.Buffer):
        dtype, shape = np.dtype(value.dtype), (value.size,)
    elif isinstance(value, (np.ndarray, np.generic, int, float, complex)):
        value = np.asarray(value)
        dtype, shape = value.dtype, value.shape
    else:
        return False
    if dtype != pattern[1] or len(shape) != len(pattern[2]):
        return False
    for n, want in zip(shape, pattern[2]):
        if want >= 0:
            if n != want:
                return False
        elif n < 2 or symbols[~want] not in (-1, n):
            return False
        else:
            symbols[~want] = n
    return True


class Check:
    """Holds that values of slots have their patterns and that guards hold, before a step that cannot be taken back."""

    def __init__(self, slots: list[Any], guards: list[Any]) -> None:
        self.slots, self.guards = slots, guards

    def run(self, plan: Any, environment: list[Any], symbols: list[int], log: Any) -> None:
        for slot, pattern in self.slots:
            if not fits(pattern, environment[slot], symbols):
                raise Mismatch
        for guard in self.guards:
            if guard.evaluate(symbols) < 0:
                raise Mismatch


class Graph:
    """A native graph of some arguments and slots that fills others."""

    work = math.inf
    ufunc: Any = None  # (function, operands) of NumPy that gives the same

    def __init__(self, call: Any, leaves: int, inputs: list[int], given: list[bool], outputs: list[tuple[int, bool, bool]]) -> None:
        self.call, self.leaves, self.inputs, self.given, self.outputs = call, leaves, inputs, given, outputs

    def run(self, plan: Any, environment: list[Any], symbols: list[int], log: Any, out: Any = None) -> None:
        leaves = [value if given else None for value, given in zip(environment, self.given)]
        results = self.call((*leaves, *[native(environment[slot]) for slot in self.inputs]), out)
        if results is None:
            raise Mismatch
        for (slot, scalar, weak), result in zip(self.outputs, results):
            environment[slot] = result.item() if weak else result[()] if scalar else result


_MOVES = frozenset("parameter constant broadcast reshape cast iota slice permute".split())
_SIMPLE = frozenset("add sub mul neg abs lt le eq ne min max bit_and bit_or bit_not".split())


def work_of(graph: Any) -> float:
    """How many operations a graph has that NumPy does about as fast by themselves; infinity where it has others."""
    ops = [op for op in re.findall(r"= (\w+)", str(graph)) if op not in _MOVES]
    return len(ops) if _SIMPLE.issuperset(ops) else math.inf


class Host:
    """A call of NumPy."""

    def __init__(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.name, self.function, self.args, self.kwargs = name, function, args, kwargs
        self.opaque = function in OPAQUE
        self.structure: Any = None
        self.results: list[int] = []

    def compute(self, environment: list[Any], symbols: list[int], log: "Log") -> Any:
        if log.used == len(log.results):
            kwargs = decode(self.kwargs, environment, symbols)
            log.results.append(self.function(*decode(self.args, environment, symbols), **kwargs))
            log.names.append(self.name)
        elif log.results[log.used] is AGAIN:
            kwargs = decode(self.kwargs, environment, symbols)
            log.results[log.used] = self.function(*decode(self.args, environment, symbols), **kwargs)
        log.used += 1
        return log.results[log.used - 1]

    def parts(self, value: Any, leaves: list[Any]) -> Any:
        """The nesting of a result, whose leaves are appended to `leaves`."""
        if not self.opaque:
            return flatten(value, leaves)
        leaves.append(value)
        return "leaf"

    def run(self, plan: Any, environment: list[Any], symbols: list[int], log: "Log") -> None:
        leaves: list[Any] = []
        if self.parts(self.compute(environment, symbols, log), leaves) != self.structure:
            raise Mismatch
        for slot, value in zip(self.results, leaves):
            environment[slot] = value


def filled(step: Any) -> list[int]:
    """The slots that a step fills."""
    return step.results if isinstance(step, Host) else [slot for slot, _, _ in step.outputs] if isinstance(step, Graph) else []


class Log:
    """What NumPy has given in one call of the function, for traces of the same call that come later."""

    def __init__(self, results: Sequence[Any] = (), names: Sequence[str] = ()) -> None:
        self.results, self.names = list(results), list(names)
        self.used = 0


class Recorder(Tracer):
    """A tracer that runs what it traces, step by step, once it meets what only NumPy can do."""

    def __init__(self, compile_graph: Callable[[Any], Any], log: Optional[Log]) -> None:
        super().__init__()
        self.compile_graph, self.log = compile_graph, log or Log()
        self.log.used = 0
        self.steps: list[Any] = []
        self._checked = 0
        self._guarded = 0
        self.views = False  # whether NumPy's views are made another way than by its functions
        self._known: dict[Any, int] = {}  # what ufuncs gave, by the call: the same call again is that slot

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Calls the function with the stand-ins."""
        from hologram._creation import seen

        return seen(function, self)(*args, **kwargs)

    def check(self) -> None:
        """A step that holds what was assumed since the last one."""
        trusted = self._trusted | self.kept
        slots = [(slot, self.slots[slot][0]) for slot in range(self._checked, len(self.slots)) if slot not in trusted]
        guards = list(self.guards.values())[self._guarded :]
        self._checked, self._guarded = len(self.slots), len(self.guards)
        if slots or guards:
            self.steps.append(Check(slots, guards))

    @property
    def _trusted(self) -> set[int]:
        """Slots that need no check: what graphs compute."""
        return {slot for step in self.steps if isinstance(step, Graph) for slot, _, _ in step.outputs}

    def end_graph(self, arrays: list[Array]) -> list[int]:
        """A step that computes the arrays, which have slots from now on; begins the next graph."""
        results = [self.output(array) for array in arrays]
        given = [self.slots[slot][0][0] not in ("object", "foreign") for slot in range(self.leaves)]
        call = _core.ArrayCall(self.compile_graph(self), self.graph, self.patterns, results, list(self.guards.values()))
        outputs = [(len(self.slots) + i, not shape, array.weak) for i, (array, (_, shape)) in enumerate(zip(arrays, results))]
        step = Graph(call, self.leaves, list(self.inputs), given, outputs)
        step.work = work_of(self.graph)
        if step.work == 1 and len(outputs) == 1 and not self.guards:
            places = [*range(self.leaves), *self.inputs]
            from hologram._prepared import ufunc_of

            step.ufunc = ufunc_of(str(self.graph), [s for s, pattern in zip(places, self.patterns) if pattern[0] != "fixed"])
        self.environment += [None] * len(outputs)
        step.run(None, self.environment, self.hints, None)
        for (slot, _, _), array, (_, shape) in zip(outputs, arrays, results):
            dims = [self._dimension(n, size) for n, size in zip(shape, np.shape(self.environment[slot]))]
            self.slots.append((("computed", array.dtype, dims), list(shape)))
            array.slot = slot
        self.steps.append(step)
        self._guarded = len(self.guards)  # the call holds them
        self.next_graph()
        return [slot for slot, _, _ in outputs]

    def _dimension(self, size: Any, hint: int) -> int:
        """What ArrayCall knows of a size: its symbol, for sums and products of symbols one that nothing else uses."""
        if isinstance(size, int) or hint < 2:
            return hint
        for number, symbol in self._symbols.values():
            if _core.provably_equal(size, symbol):
                return ~number
        self.hints.append(hint)
        return ~(len(self.hints) - 1)

    def settle_operands(self, operands: list[Array]) -> None:
        """Sees to it that the operands have slots: with all that the program holds, lest it be computed again."""
        if all(a.slot is not None or a.python is not None for a in operands):
            return
        held = [reference() for reference in list(self.live.values())]
        self.end_graph([a for a in held if a is not None and a.pending])

    def host(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Calls NumPy now and in every later call; stand-ins for what it gives."""
        from hologram._selection import chosen

        args, kwargs = chosen(args), {key: chosen(value) for key, value in kwargs.items()}
        operands: list[Array] = []
        _find_arrays((args, kwargs), operands)
        if any(a.tracer is not self for a in operands):
            raise TraceError("hologram.jit: a value of another trace was used")
        for operand in operands:
            operand.refresh()
        self.settle_operands(operands)
        step = Host(name, function, encode(args), encode(kwargs))
        if getattr(function, "__objclass__", None) is np.ndarray and isinstance(args[0], Array) and not args[0].ndim:
            step.function = functools.partial(_of_number, function)
        key = _key(step)
        if key in self._known:
            return self._result(self._known[key], name)
        self.check()
        leaves: list[Any] = []
        step.structure = step.parts(step.compute(self.environment, self.hints, self.log), leaves)
        self.steps.append(step)
        made = []
        for leaf in leaves:
            slot = self.add_slot(leaf, fixed=None)  # type: ignore[arg-type]
            step.results.append(slot)
            if step.opaque:
                self.slots[slot] = (("object", type(leaf)), [])
                return Opaque(self, slot)
            made.append(self._result(slot, name))
            for operand in operands if isinstance(leaf, np.ndarray) else ():
                if operand.slot is not None and np.may_share_memory(leaf, self.environment[operand.slot]):
                    made[-1].alias = HOOKS["view"](operand, None, None)
        if key is not None and step.structure == "leaf":
            self._known[key] = step.results[0]
        return unflatten(step.structure, iter(made))

    def _result(self, slot: int, name: str) -> Any:
        pattern, value = self.slots[slot][0], self.environment[slot]
        if pattern[0] == "fixed":
            if value is None or isinstance(value, (str, np.dtype, type)):
                return value
            raise TraceError(f"hologram.jit: {name} gives a {type(value).__name__}, which is not supported")
        if pattern[0] == "object":
            return Stateful(self, slot)
        return Array(self, None, weak=type(value) in (int, float), slot=slot)


def _key(step: Host) -> Any:
    """What says that two calls of a ufunc give the same; None for other calls."""
    if not isinstance(step.function, np.ufunc) or step.kwargs:
        return None
    parts = [("slot", a.slot) if type(a) is Ref else (type(a), repr(a)) for a in step.args]
    return (step.function, *parts) if all(kind in ("slot", bool, int, float, complex) for kind, _ in parts) else None


class Stateful:
    """A generator of random numbers: its methods are steps, in the order of the program."""

    def __init__(self, tracer: Any, slot: int) -> None:
        self._tracer, self._slot = tracer, slot

    def __getattr__(self, name: str) -> Any:
        kind = self._tracer.slots[self._slot][0][1]
        if name.startswith("__") or not callable(getattr(kind, name, None)):
            raise AttributeError(f"hologram.jit: {kind.__name__} has no method {name}")

        def call(*args: Any, **kwargs: Any) -> Any:
            return function_call(self._tracer, getattr(kind, name), None, (self, *args), kwargs, f"{kind.__name__}.{name}")

        return call


def _of_number(method: Callable[..., Any], a: Any, *args: Any, **kwargs: Any) -> Any:
    """A method of arrays, of what may be NumPy's scalar."""
    result = method(np.asarray(a), *args, **kwargs)
    return result[()] if isinstance(result, np.ndarray) else result


class Opaque(Stateful):
    """A list or bytes that NumPy makes of an array: the program may return it."""

    def _unknown(self, *_: Any, **__: Any) -> Any:
        kind = self._tracer.slots[self._slot][0][1].__name__
        raise Unknown(
            f"hologram.jit: the {kind} that is made of an array has values that are not known while the function is traced; "
            "it can be returned, what is computed must be computed with the array"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._unknown()

    __len__ = __iter__ = __getitem__ = __bool__ = __add__ = __radd__ = __mul__ = __rmul__ = __contains__ = _unknown
    __eq__ = __array__ = _unknown
    __hash__ = object.__hash__


# What has parts that are no arrays.
OPAQUE = {np.ndarray.tolist, np.ndarray.tobytes, np.ndarray.dumps, np.array2string, np.array_repr, np.array_str}


def _find_arrays(value: Any, found: list[Array]) -> None:
    if isinstance(value, Array):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for part in value:
            _find_arrays(part, found)
    elif isinstance(value, dict):
        _find_arrays(list(value.values()), found)
    elif isinstance(value, slice):
        _find_arrays([value.start, value.stop, value.step], found)


def encode(value: Any) -> Any:
    """A value of the trace in the arguments of a step; decode() is the other way."""
    if isinstance(value, Array):
        return value.python if value.python is not None else Ref(value.slot)
    if isinstance(value, Dim):
        return Size(value.expr)
    if isinstance(value, Stateful):
        return Ref(value._slot)
    if isinstance(value, np.ndarray):
        from hologram._creation import plain

        return plain(value)
    if type(value) in (tuple, list):
        return type(value)([encode(part) for part in value])
    if type(value) is dict:
        return {name: encode(part) for name, part in value.items()}
    if type(value) is slice:
        return slice(encode(value.start), encode(value.stop), encode(value.step))
    return value


# --- what traced arrays ask for


def name_of_function(function: Any) -> str:
    if isinstance(function, np.ufunc):
        return f"numpy.{function.__name__}"
    if getattr(function, "__objclass__", None) is np.ndarray:
        return f"ndarray.{function.__name__}"
    return "ndarray.__getitem__" if function is operator.getitem else f"{function.__module__}.{function.__name__}"


def function_call(tracer: Any, function: Any, lowering: Any, args: Any, kwargs: Any, name: str = "") -> Any:
    """A function of NumPy: by its lowering, else by a step."""
    if tracer.depth:  # within a lowering, which as a whole gives way to NumPy
        result = NotImplemented if lowering is None else lowering(*args, **kwargs)
        if result is NotImplemented:
            raise TraceError(f"hologram.jit: {name or name_of_function(function)} is not supported")
        return result
    name = name or name_of_function(function)
    if function in (np.real, np.imag) and isinstance(args[0], Array) and args[0].foreign:
        return attribute(args[0], function.__name__)
    if HOOKS["written"](tracer, function, args, kwargs, name):
        return None
    out = kwargs.get("out")
    if out is not None and not (isinstance(out, tuple) and all(o is None for o in out)):
        if args and isinstance(args[0], Stateful):
            return HOOKS["fill"](tracer, function, args, kwargs, name)
        kwargs = {key: value for key, value in kwargs.items() if key != "out"}
        if function in _SUMS and isinstance(out, Array):
            kwargs.setdefault("dtype", out.dtype)
        return HOOKS["out"](function_call(tracer, function, lowering, args, kwargs, name), out, "same_kind")
    if lowering is not None:
        tracer.depth += 1
        try:
            result = lowering(*args, **kwargs)
            if result is not NotImplemented:
                HOOKS["viewed"](function, lowering, args, kwargs, result)
                return result
        except TypeError:  # TraceError, and arguments that the lowering does not know
            pass
        finally:
            tracer.depth -= 1
    result = tracer.host(name, function, args, kwargs)
    if function is operator.getitem and isinstance(args[0], Array):
        HOOKS["part"](*args, result)
    return result


_SUMS = (np.sum, np.prod, np.cumsum, np.cumprod)  # whose dtype is that of out

def ufunc_call(tracer: Any, ufunc: Any, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    def lowering(*inputs: Any, **options: Any) -> Any:
        return FUNCTIONS[np.ufunc](tracer, ufunc, method, inputs, options)

    name = name_of_function(ufunc) + ("" if method == "__call__" else f".{method}")
    function = ufunc if method == "__call__" else getattr(ufunc, method)
    out, where = options.get("out"), options.get("where", True)
    if out is not None and any(o is not None for o in out) and not tracer.depth:
        kept = ("out", "casting") if where is True or method != "__call__" else ("out", "casting", "where")
        options = {key: value for key, value in options.items() if key not in kept}
        if method in ("reduce", "accumulate") and isinstance(out[0], Array) and ufunc in (np.add, np.multiply):
            options.setdefault("dtype", out[0].dtype)
        result = function_call(tracer, function, lowering, inputs, options, name)
        if isinstance(out[0], Array) and not out[0].ndim:
            tracer.arrays.update(filter(tracer.is_boxed, range(tracer.leaves)))
            if out[0].alias is None and not out[0].boxed:
                return result  # NumPy's scalars do not change
        return HOOKS["out"](result, out, "same_kind", where if "where" in kept else True)
    return function_call(tracer, function, lowering, inputs, options, name)


def compared(a: Array, b: Any, ufunc: Any, compare: Any) -> Any:
    """a == b or a != b: by NumPy's operator where its ufunc has no loop, of structures, of text beside numbers."""
    if all(map(_is_numeric, (a, b))):
        return ufunc(a, b)
    return function_call(a.tracer, compare, None, (a, b), {}, f"numpy.{ufunc.__name__}")


def _is_numeric(value: Any) -> bool:
    if not isinstance(value, (Array, np.ndarray, np.generic)):
        return not isinstance(value, (str, bytes))
    return value.dtype.kind in "biufc" or not (isinstance(value, Array) and value.foreign) and value.dtype.name == "bfloat16"


def attribute(array: Array, name: str) -> Any:
    """What traced arrays have no attribute for: ndarray's."""
    found = getattr(np.ndarray, name, None)
    if found is None:
        raise AttributeError(f"an array has no attribute {name}")
    if name in ("real", "imag") and array.foreign:
        part = function_call(array.tracer, operator.attrgetter(name), None, (array,), {}, f"ndarray.{name}")
        HOOKS["half"](array, name, part)
        return part
    if name == "real" and not array.foreign:
        return array[...] if array.ndim else array
    if name == "tolist" and not array.ndim:
        return array.item
    if callable(found):
        return lambda *args, **kwargs: function_call(array.tracer, found, None, (array, *args), kwargs)
    return function_call(array.tracer, operator.attrgetter(name), None, (array,), {}, f"ndarray.{name}")
