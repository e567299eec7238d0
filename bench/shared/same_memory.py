# bench/shared/same_memory.py: an oracle for what no comparison of values sees: who shares memory with whom, and how tensors lie
"""A run of a function, eager or compiled, becomes facts: whose memory each argument and result lies in and where, its strides,
what autograd knows of it, what else changes as it is written. A fact may be eager's or that of `aot_eager`,
which traces as we do: where the two differ, PyTorch's own compiler differs from eager. Of versions only whether they moved counts.

Facts of gradients go one way: they may not share memory where eager's do not, and need not where eager's do.

HOLOGRAM_ORACLE: every graph of the tests that one in so many is looked at (8); 1: all, 0: none.
"""

import contextlib
import itertools
import os

import numpy as np
import torch
from torch.utils import _pytree as pytree

MOST_WRITTEN = 12  # tensors of one memory that are written in turn


def examined(t) -> bool:
    """Whether it is an ordinary tensor in the memory of the host."""
    if type(t) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return t.layout is torch.strided and t.device.type in ("cpu", "hologram") and not t.is_nested


class Run:
    """The facts of one run, whose tensors live as long as it does. To be made before the call, of its arguments."""

    def __init__(self, *arguments):
        self.arguments = tensors(arguments)
        self.before = {name: version(t) for name, t in self.arguments.items()}

    def returned(self, results, gradients=()):
        """→ {(tensor, what): fact}"""
        self.named = {**_labelled("argument", self.arguments), **_labelled("result", tensors(results))}
        facts = geometry(self.named)
        for name, t in self.arguments.items():
            facts[f"argument {name}", "written"] = version(t) != self.before[name]
        facts |= effects(self.named, self.named)
        self.gradients = _labelled("gradient", tensors(gradients))
        for (name, other), shared in together({**self.named, **self.gradients}).items():
            if name in self.gradients or other in self.gradients:
                facts[name, f"shares memory with {other}"] = shared
        return facts


def tensors(tree) -> dict:
    """Those of a tree that can be examined, by their places among its leaves."""
    return {i: leaf for i, leaf in enumerate(pytree.tree_leaves(tree)) if examined(leaf)}


def _labelled(kind, numbered):
    return {f"{kind} {i}": t for i, t in numbered.items()}


def version(t):
    return None if t.is_inference() else t._version


def place(t) -> int:
    """Where a tensor begins, one without elements too."""
    return t.untyped_storage().data_ptr() + t.storage_offset() * t.element_size()


def geometry(named) -> dict:
    """How tensors lie, and in whose memory: that of the first one in the same storage."""
    facts, owners, objects, views = {}, {}, {}, {}
    for name, t in named.items():
        objects.setdefault(id(t), name)
        views.setdefault(id(t._base), set()).add(name)
    for name, t in named.items():
        owner, start = owners.setdefault(t.untyped_storage()._cdata, (name, place(t)))
        facts[name, "is"] = objects[id(t)]
        facts[name, "memory of"] = owner
        if not name.startswith("argument"):  # no call changes it, and copies of arguments are views of nothing
            facts[name, "view of"] = None if t._base is None else objects.get(id(t._base), views[id(t._base)])
        facts[name, "offset"] = place(t) - start if t.numel() else 0
        facts[name, "size"] = tuple(t.shape)
        facts[name, "strides"] = tuple(s for n, s in zip(t.shape, t.stride()) if n != 1) if t.numel() else ()
        facts[name, "contiguous"] = [t.is_contiguous(memory_format=f) for f in _FORMATS.get(t.dim(), _FORMATS[0])]
        facts[name, "type"] = t.dtype, t.is_conj(), t.is_neg()
        facts[name, "requires_grad, grad_fn, leaf"] = t.requires_grad, t.grad_fn is not None, t.is_leaf
    return facts


_FORMATS = {
    0: [torch.contiguous_format],
    4: [torch.contiguous_format, torch.channels_last],
    5: [torch.contiguous_format, torch.channels_last_3d],
}


def together(named) -> dict:
    """Of every two tensors whose memory overlaps, True."""
    spans = {name: span for name, t in named.items() if (span := _span(t))}
    found = {}
    for (a, (begin, end)), (b, (other, last)) in itertools.combinations(sorted(spans.items(), key=lambda s: s[1]), 2):
        if other < end and begin < last:
            found[tuple(sorted((a, b)))] = True
    return found


def overlaps(tree) -> list:
    """The places of every two leaves whose memory overlaps: tensors, or NumPy's arrays."""
    arrays = {i: torch.as_tensor(leaf) for i, leaf in enumerate(pytree.tree_leaves(tree)) if type(leaf) is np.ndarray}
    return sorted(together(tensors(tree) | arrays))


def _span(t):
    """The bytes from its first element to its last, or None."""
    if not t.numel():
        return None
    size = sum((n - 1) * s for n, s in zip(t.shape, t.stride())) + 1
    return t.data_ptr(), t.data_ptr() + size * t.element_size()


def _storages(named) -> list:
    """Groups of names whose storages overlap as addresses."""
    spans = []
    for name, t in named.items():
        storage = t.untyped_storage()
        if storage.nbytes():
            spans.append((storage.data_ptr(), storage.data_ptr() + storage.nbytes(), name))
    groups, end = [], 0
    for begin, last, name in sorted(spans):
        if begin >= end:
            groups.append([])
        groups[-1].append(name)
        end = max(end, last)
    return groups


def effects(named, writers) -> dict:
    """What else changes as each of the writers is written: elements, and versions. All are as before afterwards."""
    facts = {}
    for group in _storages(named):
        members = {name: named[name] for name in named if name in group}  # in the order of the run
        written = [name for name in members if name in writers][:MOST_WRITTEN]
        if len(members) == 1 or not any(name.startswith("result") for name in written):
            continue
        for name in written:
            facts[name, "as it is written, these change"] = _written(name, members)
            facts[name, "versions that move with its own"] = _moved(name, members)
    return facts


def _written(name, members):
    before = {other: bits(t).clone() for other, t in members.items()}
    wholes = [whole(t) for t in members.values()]
    kept = [w.clone() for w in wholes]
    try:
        bits(members[name]).bitwise_not_()
        return {other: _places(bits(t) != before[other]) for other, t in members.items() if other != name}
    except RuntimeError:
        return "several of its elements are one place"
    finally:
        for w, old in zip(wholes, kept):
            w.copy_(old)


def _places(mask):
    count = int(mask.sum())
    return count if count in (0, mask.numel()) else mask.flatten().nonzero().flatten()[:256].tolist()


def _moved(name, members):
    if any(t.is_inference() for t in members.values()):
        return None
    before = [t._version for t in members.values()]
    torch.autograd.graph.increment_version(members[name])
    try:
        return [other for (other, t), old in zip(members.items(), before) if t._version != old]
    finally:
        torch._C._autograd._unsafe_set_version_counter(tuple(members.values()), tuple(before))


def whole(t):
    """The storage of a tensor as bytes, with a version counter of its own."""
    return torch.empty(0, dtype=torch.uint8, device=t.device).set_(t.untyped_storage())


def bits(t):
    """The elements of a tensor as integers in the same memory, repeated ones once, with a version counter of their own."""
    word = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}[t.element_size()]
    times = t.element_size() // word.itemsize
    shape = [n if s else min(n, 1) for n, s in zip(t.shape, t.stride())]
    strides, first = [s * times for s in t.stride()], t.storage_offset() * times
    if times > 1:
        shape, strides = [*shape, times], [*strides, 1]
    return torch.empty(0, dtype=word, device=t.device).set_(t.untyped_storage(), first, shape, strides)


def overwrite(t):
    """Gives every element of a tensor other bits, past its version."""
    try:
        bits(t).bitwise_not_()
    except RuntimeError:  # several of its elements are one place
        pass


def _agree(fact, wanted) -> bool:
    """Whether two facts are the same: where nothing names what some tensors (a set) are views of, it may be one of them."""
    return fact == wanted or type(wanted) is set and (fact is None or type(fact) is str and fact in wanted)


def differences(facts, eager, bound=None) -> list[str]:
    """Facts that are neither eager's nor `bound`'s, those of aot_eager."""
    out = []
    for key in eager | facts:
        ours, wanted = facts.get(key), eager.get(key)
        if _agree(ours, wanted) or (bound is not None and _agree(ours, bound.get(key))):
            continue
        if "gradient" in key[0] + key[1] and not ours:
            continue
        out.append(f"{key[0]}: {key[1]}: {ours}, eager: {wanted}" + ("" if bound is None else f", aot_eager: {bound.get(key)}"))
    return out


def compare(function, compiled, make, **options):
    """Calls both with the arguments that `make()` gives → (results of eager, of the compiled one, what differs). `options`: of
    torch.compile, for aot_eager."""

    def run(call):
        arguments = make()
        seen = Run(*arguments)
        results = call(*arguments)
        return (*arguments, results), seen.returned(results)

    (expected, eager), (actual, facts) = run(function), run(compiled)
    found = differences(facts, eager)
    if found:
        found = differences(facts, eager, run(torch.compile(function, backend="aot_eager", **options))[1])
    return expected, actual, found


# --- graphs of Dynamo
class Watched:
    """A backend for torch.compile that looks at the first call of one in `every` of its graphs; what differs is in `found`."""

    def __init__(self, backend, every):
        self.backend, self.every = backend, every
        self._torchdynamo_orig_backend = backend
        self.graphs, self.calls, self.busy = 0, 0, False
        self.found = []
        if hasattr(backend, "_dynamo_backend_init"):
            self._dynamo_backend_init = backend._dynamo_backend_init
        self.__name__ = getattr(backend, "__name__", "hologram")

    def __call__(self, graph, examples, **options):
        self.graphs += 1
        if not self.every or self.graphs % self.every:
            return self.backend(graph, examples, **options)
        mine = torch.fx.Graph()
        mine.output(mine.graph_copy(graph.graph, {}))
        copy = torch.fx.GraphModule(graph, mine)  # what backends change is `graph`
        compiled = self.backend(graph, examples, **options)
        if hasattr(compiled, "serialize"):  # a kept graph is to be stored as it is
            return compiled
        waiting = [copy]

        @torch._dynamo.disable
        def first_looked_at(*arguments):
            if not waiting or self.busy or not all(map(_simple, arguments)):
                return compiled(*arguments)
            self.busy = True
            try:
                return self.examine(waiting.pop(), compiled, arguments)
            finally:
                self.busy = False

        return first_looked_at

    def examine(self, graph, compiled, arguments):
        self.calls += 1
        state = torch.get_rng_state()

        def reference(function):
            torch.set_rng_state(state)
            copies = copied(arguments)
            run = Run(*copies)
            return run.returned(function(*copies))

        try:
            spare = copied(arguments)
            eager = reference(graph)
        except Exception:  # eager refuses: so will what is compiled, or a test says so
            torch.set_rng_state(state)
            return compiled(*arguments)
        torch.set_rng_state(state)
        run = Run(*arguments)
        results = compiled(*arguments)
        facts = run.returned(results)
        if differences(facts, eager):
            after = torch.get_rng_state()
            bound = None
            with contextlib.suppress(Exception):
                arguments = spare
                bound = reference(bounding(graph, spare))
            self.found += [f"{line}\n{graph.code}" for line in differences(facts, eager, bound)]
            torch.set_rng_state(after)
        return results


def bounding(graph, arguments):
    """The graph by aot_eager."""
    return torch._dynamo.lookup_backend("aot_eager")(torch.fx.GraphModule(graph, graph.graph), list(arguments))


def _simple(argument) -> bool:
    # a list's tensors (compiled autograd's) are no copies: a second run would add to the gradients again
    return examined(argument) or not isinstance(argument, (torch.Tensor, list, tuple, dict))


def copied(arguments) -> list:
    """Arguments that lie in copies of their memory as these do."""
    storages = {}

    def copy(t):
        if not examined(t):
            return t
        storage = t.untyped_storage()
        with torch.inference_mode(t.is_inference()), torch.no_grad():
            mine = storages.setdefault(storage._cdata, storage.clone())
            new = torch.empty(0, dtype=t.dtype).set_(mine, t.storage_offset(), t.shape, t.stride())
            new = new.conj() if t.is_conj() else new
            new = torch._neg_view(new) if t.is_neg() else new
        if not t.requires_grad:
            return new
        new.requires_grad_()
        return new if t.is_leaf else new.view_as(new)

    return [copy(t) for t in arguments]


def watch(name="hologram"):
    """Puts Watched in the place of a registered backend, as HOLOGRAM_ORACLE asks → it, or None."""
    every = int(os.environ.get("HOLOGRAM_ORACLE", 8))
    if not every:
        return None
    backends = torch._dynamo.backends.registry._COMPILER_FNS
    backends[name] = watched = Watched(torch._dynamo.lookup_backend(name), every)
    return watched
