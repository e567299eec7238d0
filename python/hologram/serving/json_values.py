# hologram/serving/json_values.py: arrays of requests and answers in JSON
"""Errors are ValueErrors that name the array, what was expected and what came."""

from __future__ import annotations

import json
from typing import Any, Union

import numpy as np


def read(method: Any, text: Union[str, bytes, Any]) -> list[Any]:
    """The arrays of {"argument": nested list}, a text or what was parsed of one, in the order of the method's inputs."""
    try:
        body = json.loads(text, parse_constant=_refuse) if isinstance(text, (str, bytes)) else text
    except RecursionError:
        raise ValueError("the request nests too deeply") from None
    names = [i["name"] for i in method.inputs]
    if not isinstance(body, dict) or body.keys() != set(names):
        got = ", ".join(body) if isinstance(body, dict) else type(body).__name__
        raise ValueError(f"expected an object with {', '.join(names)}, got {got or 'an empty one'}")
    return [array(i["name"], body[i["name"]], i["dtype"]) for i in method.inputs]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")


def array(name: str, values: Any, dtype: str) -> Any:
    """Nested lists as an array of this dtype, bfloat16 by its bits."""
    if dtype == "bfloat16":
        return _bits(array(name, values, "float32"))
    try:
        found = np.asarray(values)
    except OverflowError:  # a whole number among others that no float holds
        raise ValueError(f"{name}: expected {dtype}, got a value that {dtype} cannot hold") from None
    except ValueError:
        text = "got lists of one level that have different lengths, or are nested too deeply"
        raise ValueError(f"{name}: expected nested lists of {dtype}, {text}") from None
    if found.dtype.kind not in "biuf" and found.size:
        wrong = next((v for v in found.flat if not isinstance(v, (int, float))), found.flat[0])
        got = repr(wrong.item() if isinstance(wrong, np.generic) else wrong)[:40]
        raise ValueError(f"{name}: expected numbers ({dtype}) in nested lists, got {got}: strings, null, objects and huge numbers are none")
    with np.errstate(all="ignore"):
        result = found.astype(dtype)
    kept = np.isfinite(result) if result.dtype.kind == "f" else result == found
    kept = kept & np.isfinite(found)
    if not kept.all():
        raise ValueError(f"{name}: expected {dtype}, got {found[~kept][0]}, a value that {dtype} cannot hold")
    return result


def _bits(values: Any) -> Any:
    """Rounds to nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def written(method: Any, results: list[Any]) -> dict[str, Any]:
    """{"result0": nested list}."""
    for result, values in zip(method.results, results):
        if not np.isfinite(values).all():
            raise ValueError(f"{result['name']}: JSON cannot hold its NaN or infinite values")
    return {result["name"]: values.tolist() for result, values in zip(method.results, results)}
