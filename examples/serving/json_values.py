# examples/serving/json_values.py: arrays of requests and answers in JSON; ValueError says which value cannot be one
import json

import numpy as np


def refuse(constant):
    raise ValueError(f"{constant} is no value of JSON")


def read(method, text):
    """The arrays of {"argument": nested list}, a text or what was parsed of one, in the order of the method's inputs."""
    try:
        body = json.loads(text, parse_constant=refuse) if isinstance(text, (str, bytes)) else text
    except RecursionError:
        raise ValueError("the request nests too deeply") from None
    names = [i["name"] for i in method.inputs]
    if not isinstance(body, dict) or body.keys() != set(names):
        got = ", ".join(body) if isinstance(body, dict) else type(body).__name__
        raise ValueError(f"expected an object with {', '.join(names)}, got {got or 'an empty one'}")
    return [array(i["name"], body[i["name"]], i["dtype"]) for i in method.inputs]


def array(name, values, dtype):
    try:
        found = np.asarray(values)
    except OverflowError:  # a whole number among others that no float holds
        raise ValueError(f"{name}: it has a value that {dtype} cannot hold") from None
    except ValueError:
        raise ValueError(f"{name}: lists of one level have different lengths, or are nested too deeply") from None
    if found.dtype.kind not in "biuf" and found.size:
        raise ValueError(f"{name}: expected numbers in nested lists; strings, null, objects and huge numbers are none")
    with np.errstate(all="ignore"):
        result = found.astype(dtype)
    kept = np.isfinite(result).all() if result.dtype.kind == "f" else (result == found).all()
    if not kept or not np.isfinite(found).all():
        raise ValueError(f"{name}: it has a value that {dtype} cannot hold")
    return result


def written(method, results):
    """{"result0": nested list}."""
    for result, values in zip(method.results, results):
        if not np.isfinite(values).all():
            raise ValueError(f"{result['name']}: JSON cannot hold its NaN or infinite values")
    return {result["name"]: values.tolist() for result, values in zip(method.results, results)}
