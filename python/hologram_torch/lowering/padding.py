# hologram_torch/lowering/padding.py: padding by a number, by mirrored and by repeated edges, and its gradients
import functools

from . import Unsupported, lower


@lower("constant_pad_nd.default")
def constant_pad_nd(c, x, pad, value=0):
    shape = x.shape
    low = [0] * len(shape)
    for i in range(len(pad) // 2):
        low[len(shape) - 1 - i] = pad[2 * i]
    if x.dtype == "b8":
        value = int(bool(value))
    return c.pad(x, low, c.out_shape, value)


def _added_and_cut(n):
    """(elements that a padding by n adds, those that it cuts away)"""
    if type(n) is int:
        return max(n, 0), max(-n, 0)
    if n.nonnegative:
        return n, 0
    if (-n).nonnegative:
        return 0, -n
    raise Unsupported("padding by a size of either sign")


def _sides(rank, pad):
    """(axis, added before, cut before, added after, cut after), from the last axis on."""
    for i in range(len(pad) // 2):
        yield rank - 1 - i, *_added_and_cut(pad[2 * i]), *_added_and_cut(pad[2 * i + 1])


def _some(n) -> bool:
    return type(n) is not int or n > 0


def _edge_pad(edge):
    """Pads from the last axis on; `edge(c, x, axis, count, first)` gives what is to stand before x's first element, or after its
    last."""

    def lowering(c, x, pad):
        for axis, low, before, high, after in _sides(len(x.shape), pad):
            parts = [edge(c, x, axis, low, True)] if _some(low) else []
            last = [edge(c, x, axis, high, False)] if _some(high) else []
            x = c.slice_axis(x, axis, before, x.shape[axis] - before - after)
            x = c.concat([*parts, x, *last], axis)
        return x

    return lowering


def _mirrored(c, x, axis, count, first):
    start = 1 if first else x.shape[axis] - 1 - count
    return c.flip(c.slice_axis(x, axis, start, count), [axis])


def _repeated(c, x, axis, count, first):
    edge = c.slice_axis(x, axis, 0 if first else x.shape[axis] - 1, 1)
    return c.broadcast(edge, [count if i == axis else n for i, n in enumerate(x.shape)])


def _edge_pad_backward(edge):
    """Gradient of _edge_pad; `edge(c, part, axis, n, first)` gives the gradient of an edge that was added to n elements, and
    where among these it begins."""

    def lowering(c, grad, x, pad):
        for axis, low, before, high, after in _sides(len(x.shape), pad):
            n, whole = x.shape[axis], grad.shape[axis]
            wanted = [n if k == axis else m for k, m in enumerate(grad.shape)]
            pieces = [(c.slice_axis(grad, axis, low, n - before - after), before)]
            if _some(low):
                pieces.append(edge(c, c.slice_axis(grad, axis, 0, low), axis, n, True))
            if _some(high):
                pieces.append(edge(c, c.slice_axis(grad, axis, whole - high, high), axis, n, False))
            placed = [c.pad(part, [at if k == axis else 0 for k in range(len(wanted))], wanted, 0) for part, at in pieces]
            grad = functools.reduce(c.add, placed)
        return grad

    return lowering


def _mirrored_backward(c, part, axis, n, first):
    return c.flip(part, [axis]), 1 if first else n - 1 - part.shape[axis]


def _repeated_backward(c, part, axis, n, first):
    return c.reduce("sum", part, [axis], keepdim=True), 0 if first else n - 1


for _n in (1, 2, 3):
    lower(f"reflection_pad{_n}d.default")(_edge_pad(_mirrored))
    lower(f"replication_pad{_n}d.default")(_edge_pad(_repeated))
    lower(f"reflection_pad{_n}d_backward.default")(_edge_pad_backward(_mirrored_backward))
    lower(f"replication_pad{_n}d_backward.default")(_edge_pad_backward(_repeated_backward))
