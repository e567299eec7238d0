# bench/conformance/opinfo_ties.py: results of operators that may choose among equal elements
"""Which of equal elements comes first, eager leaves to its C++ library where no stable sort is asked for; ours are in the order of
their places. So what differs from eager's is right where the values are eager's, each is the element that its index names, no index
comes twice, and the gradient is of these elements."""

PARAMETERS = {  # of the operators, behind the tensor
    "sort": ("dim", "descending"), "argsort": ("dim", "descending", "stable"), "msort": (), "topk": ("k", "dim", "largest", "sorted"),
    "kthvalue": ("k", "dim", "keepdim"), "median": ("dim", "keepdim"), "nanmedian": ("dim", "keepdim"), "mode": ("dim", "keepdim"),
}  # fmt: skip


def same_numbers(a, b):
    return (a == b) | (a != a) & (b != b)


def in_order(keys, others, dim):
    """Pairs along `dim`, by the keys and then by the others."""
    for number in (1, 0):
        at = (keys, others)[number].argsort(dim=dim, stable=True)
        keys, others = keys.gather(dim, at), others.gather(dim, at)
    return keys, others


def right(name, inputs, eager, actual, directions) -> bool:
    """Whether `actual` is one of the results that the operator may have for the inputs. Results are pairs of outputs and gradients,
    `directions` what the gradients are of, for each output with one."""
    (x, *rest), named = inputs
    options = dict(zip(PARAMETERS.get(name, ()), rest)) | named
    if name not in PARAMETERS or options.get("stable") or "median" in name and "dim" not in options:
        return False
    if len(actual[0]) != len(eager[0]) or any(g is None for g in actual[1]):
        return False
    dim = options.get("dim", 0 if name == "msort" else -1)
    x = x.detach().reshape(x.shape or [1])

    def line(t):
        return t if t.dim() == x.dim() else t.unsqueeze(dim)

    (theirs, ours), directions = ([line(t) for t in outputs] for outputs in (eager[0], actual[0])), [line(d) for d in directions]
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(ours, theirs)):
        return False
    gradient = [g.reshape(x.shape) for g in actual[1]]
    if name == "msort":  # no indices: gradients move among equal elements
        pairs = in_order(x, gradient[0], dim), in_order(ours[0], directions[0], dim)
        return all(same_numbers(a, b).all() for a, b in zip((*pairs[0], ours[0]), (*pairs[1], theirs[0])))
    places = ours[-1]
    taken = x.gather(dim, places)
    if not same_numbers(taken, x.gather(dim, theirs[-1])).all() or not places.sort(dim).values.diff(dim=dim).all():
        return False
    if len(ours) > 1 and not (same_numbers(ours[0], taken) & (taken.signbit() == ours[0].signbit())).all():
        return False
    wanted = [x.new_zeros(x.shape).scatter(dim, places, d) for d in directions]
    return all(same_numbers(a, b).all() for a, b in zip(gradient, wanted, strict=True))
