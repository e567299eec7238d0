# bench/conformance/opinfo_edges.py: samples of the operator database with other sizes, above all of 0 and 1
import itertools

import torch
from torch.utils import _pytree as pytree

MOST_VARIANTS = 40  # of one sample


def edges(inputs):
    """Yields (label, inputs) for `inputs`, a tree with tensors, with an axis cut to 0 and to 1.

    Every size that occurs is cut wherever it occurs, then every axis of every tensor alone; the
    whole-number arguments equal to a size that was cut everywhere are cut with it in a further
    variant. Whether eager accepts a variant is for the caller to find out."""
    leaves, _ = pytree.tree_flatten(inputs)
    tensors = [i for i, leaf in enumerate(leaves) if _can_cut(leaf)]
    axes = [(i, axis) for i in tensors for axis in range(leaves[i].dim())]
    sizes = sorted({leaves[i].shape[axis] for i, axis in axes})
    seen, plans = set(), []
    for size, new in itertools.product(sizes, (0, 1)):
        if new < size:
            everywhere = [(i, a) for i, a in axes if leaves[i].shape[a] == size]
            plans.append((f"{size} becomes {new}", everywhere, new, None))
            if size > 1:
                plans.append((f"{size} becomes {new}, numbers too", everywhere, new, size))
    for (i, axis), new in itertools.product(axes, (0, 1)):
        if new < leaves[i].shape[axis]:
            place = f"axis {axis} of tensor {tensors.index(i)} becomes {new}"
            plans.append((place, [(i, axis)], new, None))
    for label, where, new, number in plans:
        made = _cut(inputs, where, new, number)
        key = _signature(made)
        if key not in seen and len(seen) < MOST_VARIANTS:
            seen.add(key)
            yield label, made


def others(inputs):
    """Yields (label, inputs) with every axis of at least 2 elements twice as long, and so the numbers that equal a size;
    then with one axis of the first tensor alone so, as where the others are parameters of a model."""
    leaves, spec = pytree.tree_flatten(inputs)
    sizes = {n for leaf in leaves if _can_cut(leaf) for n in leaf.shape if n > 1}
    wide = [2 * leaf if type(leaf) is int and leaf in sizes else _longer(leaf) for leaf in leaves]
    yield "every size doubled", pytree.tree_unflatten(wide, spec)
    first = next((i for i, leaf in enumerate(leaves) if _can_cut(leaf)), None)
    for axis in range(leaves[first].dim() if first is not None else 0):
        if leaves[first].shape[axis] > 1:
            made = [_longer(leaf, axis) if i == first else leaf for i, leaf in enumerate(leaves)]
            yield f"axis {axis} of the first tensor doubled", pytree.tree_unflatten(made, spec)


def _longer(leaf, axis=None):
    """A tensor with that axis twice as long, or all of at least 2 elements. Floats are drawn from its elements and made
    smaller: copies of a matrix side by side are of no full rank, and equal elements have no order. Others are repeated."""
    if not _can_cut(leaf) or not leaf.dim():
        return leaf
    times = [1 + (n > 1 and axis in (i, None)) for i, n in enumerate(leaf.shape)]
    with torch.no_grad():
        made = leaf.detach().repeat(times)
        if made.numel() and made.is_floating_point():
            generator = torch.Generator().manual_seed(0)
            picked = torch.randint(leaf.numel(), made.shape, generator=generator)
            smaller = 0.75 + 0.25 * torch.rand(made.shape, generator=generator)
            made = leaf.detach().flatten()[picked] * smaller.to(leaf.dtype)
    return made.requires_grad_(leaf.requires_grad)


def _can_cut(leaf):
    return isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and not leaf.is_nested


def _cut(inputs, where, new, number):
    leaves, spec = pytree.tree_flatten(inputs)
    made = {}
    for i, axis in where:
        leaf = made.get(i, leaves[i])
        with torch.no_grad():
            made[i] = leaf.detach().narrow(axis, 0, new).clone()
    for i, leaf in enumerate(leaves):
        if i in made:
            made[i].requires_grad_(leaf.requires_grad)
        elif number is not None and type(leaf) is int and leaf == number:
            made[i] = new
    return pytree.tree_unflatten([made.get(i, leaf) for i, leaf in enumerate(leaves)], spec)


def _signature(inputs):
    def text(leaf):
        if isinstance(leaf, torch.Tensor):
            return f"{leaf.dtype}{tuple(leaf.shape)}"
        return repr(leaf)

    return tuple(text(leaf) for leaf in pytree.tree_leaves(inputs))
