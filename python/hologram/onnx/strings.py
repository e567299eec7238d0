# hologram/onnx/strings.py: operators of strings, by Python between graphs
# mypy: ignore-errors
"""Strings are arrays of Python's, of dtype object."""

import re

import numpy as np

from hologram.onnx.table import STRINGS, operator


def _each(function, x, dtype=object):
    """function of each element."""
    out = np.empty(x.shape, dtype)
    out.reshape(-1)[:] = [function(s) for s in x.reshape(-1)]
    return out


@operator("Equal", domain=STRINGS, host=True)
def equal(call, x, y):
    return np.asarray(x == y, bool)


@operator("StringConcat", host=True)
def concat(call, x, y):
    return np.asarray(x + y, object)


@operator("RegexFullMatch", host=True)
def full_match(call, x):
    pattern = re.compile(call.attr("pattern"))
    return _each(lambda s: pattern.fullmatch(s) is not None, x, bool)


@operator("StringSplit", host=True)
def split(call, x):
    """The parts, as many for each string as the most that one has, and how many each has."""
    delimiter, most = call.attr("delimiter") or None, call.attr("maxsplit")
    parts = [s.split(delimiter, -1 if most is None else most) for s in x.reshape(-1)]
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    longest = max(map(len, parts), default=0)
    out = np.full((len(parts), longest), "", object)
    for row, found in zip(out, parts):
        row[: len(found)] = found
    return out.reshape(*x.shape, longest), counts


@operator("StringNormalizer", host=True)
def normalizer(call, x):
    """Drops stop words of a line [n] or [1, n], then changes the case; where nothing is left there is one empty string."""
    change = {"UPPER": str.upper, "LOWER": str.lower}.get(call.attr("case_change_action", "NONE"), str)
    fold = str if call.attr("is_case_sensitive", 0) else str.lower
    stop = {fold(s) for s in call.attr("stopwords", [])}
    kept = [change(s) for s in x.reshape(-1) if fold(s) not in stop] or [""]
    return np.array(kept, object).reshape((1, -1) if x.ndim == 2 else -1)


_DEFAULTS = {"floats": ("default_float", -0.0, np.float32), "int64s": ("default_int64", -1, np.int64),
             "strings": ("default_string", "_Unused", object)}  # fmt: skip


@operator("LabelEncoder", domain="ai.onnx.ml", since=2, host=True)
def label_encoder(call, x):
    """What a table has for each element, which may be a string, as its results may."""
    kind = next(k for k in (*_DEFAULTS, "tensor") if call.attr(f"values_{k}") is not None)
    keys = next(v for v in (call.attr(f"keys_{k}") for k in (*_DEFAULTS, "tensor")) if v is not None)
    values = call.attr(f"values_{kind}")
    if kind == "tensor":
        default, dtype = call.attr("default_tensor").item(), values.dtype
    else:
        name, default, dtype = _DEFAULTS[kind]
        default = call.attr(name, default)
    table = dict(zip(map(_key, np.asarray(keys).reshape(-1).tolist()), np.asarray(values).reshape(-1).tolist()))
    return _each(lambda s: table.get(_key(s), default), x, dtype)


def _key(value):
    """Numbers that are none are one key."""
    return value if value == value else "nan"
