# hologram_torch/translate/faults.py: which operator an index out of range, or a division by zero, is of
"""Kernels tell that there was one, and no more: more would cost calls that are right. So after a call that failed its indices
are looked at once more, by the operators of PyTorch that compute them from the call's arguments, where nothing has changed
these; other operators are named without a number."""

import operator
import re

import torch

from .. import lines
from ..graph import dtypes
from ..graph.builder import Value
from . import left

_MOST = 40  # operators between arguments and an index

_ALONG = frozenset((
    "index_select", "gather", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "index_reduce",
))  # fmt: skip
_FROM_THE_END = frozenset(("index", "index_put", "_unsafe_index", "_unsafe_index_put", "index_fill", "take", "put"))
_DIVISIONS = frozenset(("div", "divide", "floor_divide", "remainder", "fmod"))


class Check:
    """operator, where, part: its name, the user's line and the part of the model; looks: (recipe of an index, axis, recipe of
    the axis' size), or for a division (the recipe of its divisor, None, None); None: unknown."""

    fixed = False  # whether no argument decides what it looks at, but for sizes

    def __init__(self, node, divides, looks, wraps=False):
        self.operator, self.where, self.part = _name(node), lines.of(node), _part(node)
        self.divides, self.looks, self.wraps = divides, looks, wraps

    def found(self, tensors, symbols) -> str | None:
        """What is wrong with the arguments of a call, or None."""
        for index, axis, size in self.looks or ():
            index = _value(index, tensors, symbols)
            if self.divides:
                if bool((torch.as_tensor(index) == 0).any()):
                    return f"{self.operator}: ZeroDivisionError, an integer divided by 0{lines.at(self.where)}"
                continue
            size = _value(size, tensors, symbols)
            wrong = index[(index < (-size if self.wraps else 0)) | (index >= size)]
            if wrong.numel():
                along = f"dimension {axis} with size {size}" if axis is not None else f"a tensor of {size} elements"
                return f"{self.operator}: index {int(wrong.flatten()[0])} is out of bounds for {along}{lines.at(self.where)}"
        return None


class Faults:
    """Tells what went wrong in a call of one graph."""

    def __init__(self, checks):
        self.checks = checks

    def __call__(self, divides, tensors, symbols) -> str | None:
        """The message, or None; tensors: by parameter of the graph, as the call had them; symbols: their values."""
        checks = [c for c in self.checks if c.divides == divides]
        for check in checks:
            if said := check.found(tensors, symbols):
                return said
        unknown = dict.fromkeys((c.operator, lines.at(c.where)) for c in checks if c.looks is None)
        what = "ZeroDivisionError, an integer divided by 0," if divides else "index out of range"
        if len(unknown) > 1:
            return f"{what} in a compiled graph: {' or '.join(map(''.join, unknown))}"
        return next((f"{operator}: {what} in a compiled graph{where}" for operator, where in unknown), None)


def _value(recipe, tensors, symbols):
    kind = type(recipe)
    if kind is _Tensor:
        return tensors[recipe.parameter]
    if kind is _Call:
        function = left.operator_of(recipe.operator)
        out = function(*_value(recipe.args, tensors, symbols), **_value(recipe.kwargs, tensors, symbols))
        return out if recipe.part is None else out[recipe.part]
    if kind is list:
        return [_value(x, tensors, symbols) for x in recipe]
    if kind is dict:
        return {k: _value(x, tensors, symbols) for k, x in recipe.items()}
    return recipe.evaluate(symbols) if hasattr(recipe, "evaluate") else recipe


_SAME_NUMBERS = frozenset(  # operators whose results hold their operand's numbers
    ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "expand", "permute", "transpose", "alias", "clone", "_to_copy"))


def written(faults, input_of) -> str:
    """As an archive has them (src/archive/faults.h): with the model's part of each operator. input_of: parameter → number of an
    input, or None; an index that is no input as it came, or an axis that calls choose, is unknown there."""
    out = []
    for check in faults.checks if faults is not None else ():
        looks = []
        for index, axis, size in check.looks or ():
            while type(index) is _Call and index.operator[1] in _SAME_NUMBERS:
                index = index.args[0]
            number = input_of(index.parameter) if type(index) is _Tensor else None
            if number is None or not isinstance(size, (int, type(None))):
                looks = []
                break
            looks.append(f",{number}:{-1 if axis is None else axis}:{size or 0}")
        if check.fixed and not looks and not _has_sizes(check.looks):
            continue
        kind = "d" if check.divides else "w" if check.wraps else "i"
        out.append(",".join((_word(check.operator), _word(check.part), kind)) + "".join(looks) + ";")
    return "".join(out)


def _word(text) -> str:
    return re.sub(r"[^A-Za-z0-9_.:]", "_", text)


def _has_sizes(recipe) -> bool:
    if type(recipe) is _Call:
        return _has_sizes([recipe.args, *recipe.kwargs.values()])
    return any(map(_has_sizes, recipe)) if isinstance(recipe, (list, tuple)) else hasattr(recipe, "evaluate")


class _Tensor:
    def __init__(self, parameter):
        self.parameter = parameter


class _Call:
    def __init__(self, operator, args, kwargs, part):
        self.operator, self.args, self.kwargs, self.part = operator, args, kwargs, part


class _Unknown(Exception):
    """A value that arguments of the call do not give again."""


class Recipes:
    """Makes checks of the nodes of one graph, which `c`, a Translator, has translated."""

    def __init__(self, c, written):
        self.c, self.written = c, written  # placeholders

    def index(self, node, fixed) -> Check:
        try:
            looks = [(self.recipe(index), axis, size) for index, axis, size in self._indices(node)]
        except _Unknown:
            looks = None
        check = Check(node, False, looks or None, _packet(node) in _FROM_THE_END)
        check.fixed = fixed
        return check

    def division(self, node) -> Check:
        try:
            looks = [(self.recipe(node.args[1]), None, None)]
        except _Unknown:
            looks = None
        return Check(node, True, looks)

    def _indices(self, node):
        """(index, axis, the axis' size) of what an operator reads or writes by indices; none: unknown."""
        packet, args = _packet(node), node.args
        if packet == "embedding":
            yield args[1], 0, self._size(args[0], 0)
        elif packet in _ALONG:
            shape = args[0].meta["val"].shape
            axis = args[1] % max(len(shape), 1)
            yield args[2], axis, self._size(args[0], axis) if shape else 1
        elif packet in ("index", "index_put", "_unsafe_index", "_unsafe_index_put"):
            for axis, index in enumerate(args[1]):
                if index is not None:
                    if index.meta["val"].dtype == torch.bool:
                        raise _Unknown
                    yield index, axis, self._size(args[0], axis)
        elif packet in ("take", "put"):
            yield args[1], None, self.c.size(args[0].meta["val"].numel())

    def _size(self, node, axis):
        return self.c.size(node.meta["val"].shape[axis])

    def recipe(self, x, room=None):
        """How an argument of a node is computed from those of the call. Raises _Unknown."""
        room = room if room is not None else [_MOST]
        if isinstance(x, (list, tuple)):
            return [self.recipe(y, room) for y in x]
        if isinstance(x, dict):
            return {k: self.recipe(y, room) for k, y in x.items()}
        if not isinstance(x, torch.fx.Node):
            return x
        room[0] -= 1
        value, val = self.c.env.get(x), x.meta.get("val")
        if room[0] < 0 or x in self.written:
            raise _Unknown
        if not isinstance(val, (torch.Tensor, tuple, list)):
            if isinstance(value, (bool, int, float)) or hasattr(value, "evaluate"):
                return value
            raise _Unknown
        if x.op == "get_attr":
            return self._constant(x)
        if x in self.c.parameter_of and type(value) is Value and value.dtype != dtypes.HOST:
            return _Tensor(self.c.parameter_of[x])
        return self._call(x, room)

    def _constant(self, x):
        tensor = operator.attrgetter(x.target)(self.c.module)
        number = next((number for number, kept in self.c.constants if kept is tensor), None)
        if number is None:
            raise _Unknown
        return _Tensor(number)

    def _call(self, x, room):
        part, target = None, x.target
        if x.op == "call_function" and getattr(target, "__name__", "") == "getitem":
            part, x = x.args[1], x.args[0]
            target = x.target
        known = isinstance(target, torch._ops.OpOverload) and target.namespace == "aten" and x not in self.written
        if not known or target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags:
            raise _Unknown
        return _Call(left.name_of(target), self.recipe(list(x.args), room), self.recipe(dict(x.kwargs), room), part)


def _part(node) -> str:
    """The path of the module that calls the operator, as the model names it."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack and isinstance(stack[-1], tuple) else ""
    return path.removeprefix("L['self']").lstrip(".")


def divides(node) -> bool:
    """Whether an operator divides integers by what may be 0."""
    if _packet(node) not in _DIVISIONS:
        return False
    val, divisor = node.meta.get("val"), node.args[1]
    integers = isinstance(val, torch.Tensor) and not val.dtype.is_floating_point and not val.dtype.is_complex
    return integers and (isinstance(divisor, torch.fx.Node) or divisor == 0)


def _packet(node) -> str:
    return node.target.overloadpacket.__name__ if isinstance(node.target, torch._ops.OpOverload) else ""


def _name(node) -> str:
    """The operator as the user called it, where tracing took that apart."""
    whole = node.meta.get("original_aten")
    return whole.overloadpacket.__name__ if isinstance(whole, torch._ops.OpOverload) else _packet(node) or str(node.target)
