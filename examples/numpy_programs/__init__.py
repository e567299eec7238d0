# examples/numpy_programs/__init__.py: programs as people write them in NumPy, each with a maker of its arguments
"""PROGRAMS by name: (function, maker). `maker(random, n)` gives the arguments, of about n elements in all, from a Generator."""

import importlib
from typing import Any, Callable

import numpy as np

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def program(maker: Callable[..., Any]) -> Callable[..., Any]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        assert function.__name__ not in PROGRAMS, function.__name__
        PROGRAMS[function.__name__] = (function, maker)
        return function

    return register


def side(n: int) -> int:
    return max(4, int(n**0.5))


def vector(r: Any, n: int) -> Any:
    return (r.standard_normal(n),)


def singles(r: Any, n: int) -> Any:
    return (r.standard_normal(n).astype(np.float32),)


def two(r: Any, n: int) -> Any:
    return r.standard_normal(n), r.standard_normal(n)


def three(r: Any, n: int) -> Any:
    return r.standard_normal(n), r.standard_normal(n), r.standard_normal(n)


def positive(r: Any, n: int) -> Any:
    return (r.uniform(0.1, 10, n),)


def whole(r: Any, n: int) -> Any:
    return (r.integers(0, 50, n),)


def matrix(r: Any, n: int) -> Any:
    return (r.standard_normal((side(n), side(n))),)


def image(r: Any, n: int) -> Any:
    return (r.random((side(n), side(n)), dtype=np.float32),)


def table(r: Any, n: int) -> Any:
    """Rows of eight columns."""
    return (r.standard_normal((max(10, n // 8), 8)),)


def points(r: Any, n: int) -> Any:
    return (r.standard_normal((max(4, n // 3), 3)),)


def square(r: Any, n: int) -> Any:
    """A well-conditioned system and its right side."""
    m = side(n)
    return r.standard_normal((m, m)) + m * np.eye(m), r.standard_normal(m)


for _name in ("signals", "statistics", "physics", "images", "tables", "linear", "learning"):
    importlib.import_module(f"{__name__}.{_name}")
