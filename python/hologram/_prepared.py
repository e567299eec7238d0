# hologram/_prepared.py: calls of NumPy with what they take made once, for steps that NumPy does as fast as a graph
# mypy: disable-error-code="no-any-return,return-value"
"""NumPy makes an array of each number and list that it is given, in every call: of 255 in `255 - x` for 0.2 µs, where the difference
of 10,000 bytes takes 0.4; and functions such as rot90 look for 3 µs before they make a view that indexing makes in 0.1."""

import re
from typing import Any, Optional

import numpy as np

__all__ = ["lists", "numbers", "ufunc_of", "view_of"]

SMALL = 1 << 15  # elements: for fewer than these no other thread is asked

_UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
}  # fmt: skip
_DTYPES = {"f32": "f4", "f64": "f8", **{f"{kind}{8 * n}": f"{kind}{n}" for kind in "iu" for n in (1, 2, 4, 8)}}
_TURNS = {
    getattr(np, name)
    for name in "flip fliplr flipud rot90 rollaxis swapaxes moveaxis transpose matrix_transpose".split()
    if hasattr(np, name)
}
_LINE = r"%(\d+): (\w+)\[(.*?)\] = (\w+) ?(.*)"


def number(value: Any, dtype: Any) -> Any:
    """A number of Python's as an operand beside arrays of this dtype, as NumPy converts it each time; None where it does otherwise."""
    if type(value) is not int and not (type(value) is float and dtype.kind == "f") or dtype.kind not in "iuf":
        return None
    if dtype.kind != "f" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        return None
    with np.errstate(all="ignore"):
        made = np.array(value, dtype)
    made.flags.writeable = False
    return made


def ufunc_of(graph: str, slots: list[Optional[int]]) -> Optional[tuple[Any, list[Any]]]:
    """(ufunc, operands) of a graph with one operation on whole parameters and numbers: ("slot", its number) or an array without
    dimensions. `slots`: of the parameters. None for others."""
    values: dict[str, Any] = {}
    shapes, found, returned = {}, None, []
    for line in graph.splitlines()[1:]:
        if line.startswith("return"):
            returned.append(line.split()[1])
            continue
        match = re.fullmatch(_LINE, line)
        if match is None:
            continue
        name, dtype, shape, op, rest = match.groups()
        shapes["%" + name] = shape
        if op == "parameter" and dtype in _DTYPES:
            index = re.search(r"index=(\d+)", rest)
            assert index is not None
            values["%" + name] = ("slot", slots[int(index[1])])
        elif op == "constant" and dtype in _DTYPES:
            kind = np.dtype(_DTYPES[dtype])
            text = rest.removeprefix("value=")
            values["%" + name] = number(float(text) if kind.kind == "f" else int(text), kind)
        elif op in _UFUNCS and found is None:
            found = ("%" + name, op, rest.split(", "))
        else:
            return None
    if found is None or returned != [found[0]]:
        return None
    operands = [values.get(operand) for operand in found[2]]
    whole = all(shapes[o] == shapes[found[0]] for o in found[2] if type(values.get(o)) is tuple)
    if not whole or tuple not in map(type, operands) or any(o is None or (type(o) is tuple and o[1] is None) for o in operands):
        return None
    return _UFUNCS[found[1]], operands


def numbers(step: Any, patterns: list[Any], ref: Any) -> bool:
    """Makes the numbers beside a ufunc's operands arrays of their dtype. Whether there were any."""
    if not isinstance(step.function, np.ufunc) or step.kwargs:
        return False
    read = [patterns[a.slot] for a in step.args if type(a) is ref]
    dtypes = {pattern[1] for pattern in read if pattern[0] in ("array", "computed") and pattern[2]}
    if len(dtypes) != 1 or not all(pattern[0] in ("array", "computed") and pattern[2] for pattern in read):
        return False
    (dtype,) = dtypes
    made = [None if type(a) is ref else number(a, np.dtype(dtype)) for a in step.args]
    step.args = tuple(a if m is None else m for a, m in zip(step.args, made))
    return any(m is not None for m in made)


def lists(step: Any) -> bool:
    """Makes lists of places arrays, for functions that do so themselves. Whether there were any."""
    owner = getattr(step.function, "__self__", None)
    if not isinstance(owner, np.ufunc) or step.function.__name__ != "reduceat":
        return False
    made = [np.array(a, np.intp) if type(a) is list and a and all(type(i) is int for i in a) else a for a in step.args]
    found = any(m is not a for m, a in zip(made, step.args))
    step.args = tuple(made)
    return found


def view_of(function: Any, ndim: int, rest: Any, kwargs: Any, primes: tuple[int, ...]) -> Optional[tuple[Any, Any]]:
    """(key, order): that the function's view of an array is array[key].transpose(order), either None where it is not needed; None
    for other functions than those that NumPy has written in Python. `primes`: sizes to tell dimensions by."""
    if function not in _TURNS:
        return None
    view = function(np.empty(primes[:ndim], np.bool_), *rest, **kwargs)
    order = [primes.index(n) for n in view.shape]
    back = {axis for axis, step in zip(order, view.strides) if step < 0}
    key = tuple(slice(None, None, -1) if axis in back else slice(None) for axis in range(ndim)) if back else None
    return key, tuple(order) if order != sorted(order) else None
