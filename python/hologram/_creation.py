# hologram/_creation.py: arrays that a traced function makes itself
# mypy: disable-error-code="no-any-return,return-value"
"""NumPy asks no stand-in when it makes an array (`np.zeros(n)`, `np.array([a, b])`) or indexes its own by one (`table[k]`).

So the traced function sees another `np` among its globals: sizes may be open there, and tables take traced indices.
"""

import builtins
import functools
import types
from typing import Any, Callable

import numpy as np

from hologram._indexed import INDEXED, Indexed
from hologram._operands import boxed, lifted
from hologram._registry import HOOKS
from hologram.trace import Array, Dim, TraceError, Unknown


class Table(np.ndarray):
    """An array of the program whose elements may be chosen by traced indices."""

    tracer: Any = None

    def __array_finalize__(self, source: Any) -> None:
        self.tracer = getattr(source, "tracer", None)

    def __getitem__(self, key: Any) -> Any:
        if self.tracer is not None and _holds(key, (Array, Dim)):
            return lifted(self.tracer, plain(self))[key]
        return super().__getitem__(key)


def plain(value: Any) -> Any:
    """The value, as NumPy's own array if it is a table."""
    return value.view(np.ndarray) if isinstance(value, Table) else value


def table(tracer: Any, value: Any) -> Any:
    if type(value) is not np.ndarray or not value.ndim:
        return value
    made = value.view(Table)
    made.tracer = tracer
    return made


def _holds(value: Any, types_: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_holds(part, types_) for part in value)
    if isinstance(value, slice):
        return False  # a size within a slice is an int to NumPy
    return isinstance(value, types_)


def _settled(value: Any) -> Any:
    """Sizes as ints, which holds the graph for these sizes."""
    if isinstance(value, Dim):
        return int(value)
    return type(value)(map(_settled, value)) if type(value) in (tuple, list) else value


def _shape(shape: Any) -> list[Any]:
    return [getattr(n, "expr", n) for n in (shape if isinstance(shape, (tuple, list)) else [shape])]


def _filled(tracer: Any, shape: Any, value: Any, dtype: Any = None) -> Array:
    a = lifted(tracer, value)
    node = tracer.cast(a, dtype if dtype is not None else a.dtype)
    return boxed(Array(tracer, tracer.graph.broadcast(node, _shape(shape))))


def _zeros(tracer: Any, shape: Any, dtype: Any = float, order: Any = "C", **_: Any) -> Any:
    return _filled(tracer, shape, 0, dtype)


def _ones(tracer: Any, shape: Any, dtype: Any = None, order: Any = "C", **_: Any) -> Any:
    return _filled(tracer, shape, 1, dtype or float)


def _full(tracer: Any, shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", **_: Any) -> Any:
    return _filled(tracer, shape, fill_value, dtype)


def _line(tracer: Any, n: Any) -> Array:
    return Array(tracer, tracer.graph.iota("i64", [getattr(n, "expr", n)], 0))


def _arange(tracer: Any, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, **_: Any) -> Any:
    if stop is None:
        start, stop = 0, start
    if isinstance(step, Dim) or not all(isinstance(v, (int, np.integer, Dim)) for v in (start, stop, step)) or step <= 0:
        return np.arange(*_settled((start, stop, step)), dtype=dtype)
    count = (stop - start + (int(step) - 1)) // int(step)
    if not count >= 0:
        count = 0
    line = _line(tracer, count)
    line = line if step == 1 else line * int(step)
    line = line if isinstance(start, int) and start == 0 else line + start
    return line if dtype is None else line.astype(dtype)


def _linspace(tracer: Any, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, **options: Any) -> Any:
    scalar = all(isinstance(v, (int, float, Dim, np.number)) for v in (start, stop))
    if options or not scalar or not num >= 2:
        make: Any = np.linspace
        return make(*_settled((start, stop, num)), endpoint, **options)
    low, high = (float(v) if not isinstance(v, Dim) else Array(tracer, tracer.cast(lifted(tracer, v), float)) for v in (start, stop))
    step = (high - low) / (num - 1 if endpoint else num)
    line = _line(tracer, num)
    made = line * step + low
    return np.where(line == num - 1, high, made) if endpoint else made


def _eye(tracer: Any, N: Any, M: Any = None, k: int = 0, dtype: Any = float, **_: Any) -> Any:  # noqa: N803
    off = _line(tracer, N if M is None else M)[None, :] - _line(tracer, N)[:, None]
    return (off == int(k)).astype(dtype)


def _array(tracer: Any, value: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    if isinstance(value, Array):
        made = value.copy()
    elif isinstance(value, (list, tuple)):
        parts = [_array(tracer, part) if _holds(part, Array) else lifted(tracer, _settled(part)) for part in value]
        made = np.stack(parts)
    else:
        made = lifted(tracer, value)
    return boxed(made if dtype is None else made.astype(dtype))


def _as_array(tracer: Any, value: Any, dtype: Any = None, *_: Any, **__: Any) -> Any:
    if isinstance(value, Array):
        made = value if dtype is None else value.astype(dtype, copy=False)
        return made if made.ndim or made.boxed else boxed(made.copy())
    return _array(tracer, value, dtype)


def _grid(tracer: Any, shape: Any) -> list[Any]:
    """By axis: the index of each element, of size 1 along the other axes."""
    lines = [_line(tracer, n) for n in shape]
    return [line[(*[None] * i, slice(None), *[None] * (len(lines) - 1 - i))] for i, line in enumerate(lines)]


def _from_function(tracer: Any, function: Any, shape: Any, *, dtype: Any = float, **options: Any) -> Any:
    indices = [np.broadcast_to(index.astype(dtype), tuple(shape)) for index in _grid(tracer, shape)]
    return function(*indices, **options)


# by name: what makes a traced array, and of what in its arguments that is wanted (None: always)
_NATIVE: dict[str, tuple[Callable[..., Any], Any]] = {
    "zeros": (_zeros, None),
    "empty": (_zeros, None),
    "ones": (_ones, None),
    "full": (_full, None),
    "arange": (_arange, Dim),
    "linspace": (_linspace, Dim),
    "eye": (_eye, Dim),
    "identity": (_eye, Dim),
    "array": (_array, Array),
    "asarray": (_as_array, Array),
    "asanyarray": (_as_array, Array),
    "ascontiguousarray": (_as_array, Array),
    "fromfunction": (_from_function, Dim),
}
_OF_INTS = ("hanning", "hamming", "blackman", "bartlett", "kaiser", "tri", "indices", "logspace", "geomspace", "fftfreq", "rfftfreq")


@functools.cache
def _modules() -> tuple[Any, ...]:
    return np, np.fft, np.linalg, np.lib, np.lib.stride_tricks  # NumPy imports some of them when they are asked for


class Module:
    """NumPy, or a module of it, as a traced function sees it."""

    def __init__(self, tracer: Any, module: Any) -> None:
        self._tracer, self._module = tracer, module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if name in INDEXED and self._module is np:
            return Indexed(self._tracer, value, name)
        return substitute(self._tracer, value)


def _of_lists(tracer: Any, function: Any) -> Any:
    """The function, which makes arrays of lists of traced values where NumPy would."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return table(tracer, function(*args, **kwargs))
        except Unknown:
            lists = [isinstance(a, (list, tuple)) and _holds(a, Array) for a in args]
            if not any(lists):
                raise
            return function(*(_array(tracer, a) if is_list else a for a, is_list in zip(args, lists)), **kwargs)

    return call


class Ufunc:
    """A ufunc, whose methods take lists of traced values."""

    def __init__(self, tracer: Any, ufunc: Any) -> None:
        self._tracer, self._ufunc = tracer, ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _of_lists(self._tracer, self._ufunc)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._ufunc, name)
        return _of_lists(self._tracer, value) if callable(value) else value

    def __repr__(self) -> str:
        return repr(self._ufunc)


class Vectorized:
    """What np.vectorize makes, of traced arrays too: a step that NumPy runs."""

    def __init__(self, tracer: Any, *args: Any, **kwargs: Any) -> None:
        self._tracer, self._call = tracer, np.vectorize(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _holds((*args, *kwargs.values()), Array):
            return self._call(*args, **kwargs)
        return HOOKS["function"](self._tracer, self._call, None, args, kwargs, "numpy.vectorize")


def _strided(tracer: Any, x: Any, shape: Any = None, strides: Any = None, **options: Any) -> Any:
    """np.lib.stride_tricks.as_strided: NumPy's view of the memory."""
    if not isinstance(x, Array):
        return np.lib.stride_tricks.as_strided(x, _settled(shape), _settled(strides), **options)
    given = [s for s in strides or () if not isinstance(s, Array)]
    if given and x.ndim > 1 and x.lies_as_computed:
        raise TraceError(
            "hologram.jit: as_strided of an array that was computed, which may lie in memory otherwise than NumPy's: "
            "take the strides from it (x.strides)"
        )
    return HOOKS["function"](tracer, np.lib.stride_tricks.as_strided, None, (x, shape, strides), options, "numpy.as_strided")


def substitute(tracer: Any, value: Any) -> Any:
    """What stands for a global of a traced function."""
    if any(value is module for module in _modules()):
        return Module(tracer, value)
    if type(value) is np.ndarray:
        return table(tracer, value)
    if isinstance(value, types.FunctionType) and (value.__module__ or "").split(".")[0] not in ("numpy", "hologram"):
        return seen(value, tracer)  # what the function calls
    name = getattr(value, "__name__", "")
    if value is np.vectorize:
        return functools.partial(Vectorized, tracer)
    if value is np.lib.stride_tricks.as_strided:
        return functools.partial(_strided, tracer)
    if isinstance(value, np.ufunc):
        return Ufunc(tracer, value) if value is getattr(np, name, None) else value
    if not callable(value) or isinstance(value, type) or value not in [getattr(m, name, None) for m in _modules()]:
        return value
    if name not in _NATIVE and name not in _OF_INTS:
        return _of_lists(tracer, value)
    native, wanted = _NATIVE.get(name, (None, ()))

    def create(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if native is not None and (wanted is None or any(_holds(v, wanted) for v in given)):
            lowering = functools.partial(native, tracer)
            made = HOOKS["function"](tracer, value, lowering, args, kwargs, f"numpy.{name}")
            if wanted is None:
                made.dense = True
            return made
        return table(tracer, value(*_settled(args), **{key: _settled(v) for key, v in kwargs.items()}))

    return create


def seen(function: Any, tracer: Any) -> Any:
    """The function with those globals that it names substituted."""
    if not isinstance(function, types.FunctionType):
        return function
    if function in tracer.seen:
        return tracer.seen[function]
    tracer.seen[function] = function  # one that calls itself does so as it is, until it is known
    names = _names(function.__code__)
    known = {name: substitute(tracer, function.__globals__[name]) for name in names if name in function.__globals__}
    if all(known[name] is function.__globals__[name] for name in known):
        return function
    made = types.FunctionType(
        function.__code__, {"__builtins__": builtins, **function.__globals__, **known}, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    if function.__name__ in known and known[function.__name__] is function:
        made.__globals__[function.__name__] = made
    tracer.seen[function] = made
    return made


def _names(code: Any) -> set[str]:
    """Names that the code and the functions within it may look up."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))
