# hologram_torch/capture/foreach.py: torch._foreach_*, and what unscales gradients, as the operators of each tensor
"""torch.optim with foreach=True and clip_grad_norm_ work on lists. Taken apart, what is done to one tensor is one kernel."""

import torch

aten = torch.ops.aten
_OTHERWISE = {"norm": "linalg_vector_norm", "zero": "zeros_like"}  # whose operator of one tensor has another name
_BOUNDS = {"minimum": "clamp_max", "maximum": "clamp_min"}  # of numbers, in place of a second tensor
_BY_KEYWORD = ("value", "alpha", "dtype", "memory_format")


def table() -> dict:
    """The functions by operator overload, of those that return new tensors."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if name.startswith("_foreach_") and not name.endswith("_") and "out" not in schema.overload_name:
            form = _each(name.removeprefix("_foreach_"), schema)
            if form is not None:
                found[getattr(getattr(aten, name), schema.overload_name or "default")] = form
    unscale = getattr(aten, "_amp_foreach_non_finite_check_and_unscale", None)
    return found if unscale is None else found | {unscale.default: _unscale}


def _each(name, schema):
    numbers = "Scalar" in schema.overload_name
    single = getattr(aten, _OTHERWISE.get(name, _BOUNDS.get(name, name) if numbers else name), None)
    if single is None:
        return None
    kinds = {argument.name: str(argument.type) for argument in schema.arguments}
    lists = [key for key, kind in kinds.items() if kind.startswith("List[")]
    defaults = {argument.name: argument.default_value for argument in schema.arguments}

    def form(*args, **kwargs):
        given = defaults | dict(zip(kinds, args)) | kwargs
        if kinds.get("scalars") == "Tensor":  # of a list of numbers
            return _by_numbers(single, given)
        if name == "copy":
            return [source.to(like).broadcast_to(like.shape).clone() for like, source in zip(given["self"], given["src"])]
        if name == "clone" or name == "zero":
            given = {"self": given["self"]}
        counts = {len(given[key]) for key in lists}
        if len(counts) != 1:
            return NotImplemented
        return [_one(single, {key: v[i] if key in lists else v for key, v in given.items()}) for i in range(counts.pop())]

    return form


def _one(single, given):
    """The operator of one tensor."""
    if "tensor1" in given and "scalars" in given:
        given["value"] = given.pop("scalars")
    keywords = {key: given.pop(key) for key in _BY_KEYWORD if key in given}
    return single(*given.values(), **{key: value for key, value in keywords.items() if value is not None})


def _by_numbers(single, given):
    combine = torch.mul if single is aten.addcmul else torch.div
    rows = zip(given["self"], given["tensor1"], given["tensor2"], given["scalars"].unbind())
    return [x + combine(a, b) * number for x, a, b, number in rows]


def _unscale(tensors, found, inverse):
    """GradScaler's: gradients times a number, and whether any of them was not finite."""
    finite = [x.isfinite().all() for x in tensors]
    scaled = [torch.where(inverse == 1, x, (x * inverse).to(x.dtype)) for x in tensors]
    if not finite:
        return scaled, found.clone()
    return scaled, torch.where(torch.stack(finite).all(), found, torch.ones_like(found))
