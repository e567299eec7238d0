# bench/conformance/opinfo_worker.py: the process that runs samples of PyTorch's operator database
"""Takes requests, dicts, from a connection, and answers on it.

A request names an operator and how to run it (see DEFAULTS). Before each sample comes
{"at": number, "label": text}, behind it {"sample": number, "status": …, "message": …}, and at the
end {"end": count of samples}, so that a crash is known to be of the sample begun last."""

import fnmatch
import functools
import itertools
import os
import random

STATUSES = ("crash", "timeout", "error", "fail", "nograph", "nondet", "fallback", "native", "skip")
PASSED = STATUSES[5:8]
KEPT = 32  # graphs that samples of other sizes are tried on
TOGETHER = "several samples"
FAILED = "a graph that failed to compile"
HOST = "kernels left to the host"
DEFAULTS = {
    "backend": "hologram",
    "device": "cpu",  # of the samples; "hologram": operators run there, one by one, beside those on "cpu"
    "dtype": "float32",
    "mode": "inference",
    "dynamic": False,
    "edges": False,  # samples with axes of 0 and 1 in place of the samples themselves
    "samples": 1,  # at most so many, spread over them; 0: all
    "seed": None,  # picks them at random in place of spreading them
    "only": None,  # number of the one sample to run
    "first": 0,  # number of the first sample to run
    "together": 1,  # so many samples in a graph, with "direct"; one by one where they do not pass
    "memory": True,  # looked at by same_memory.py too
    "lazy": False,  # operators of device "hologram" wait: each sample is called a second time, in which they run as one graph
    "outs": False,  # samples with tensors for the results, out=; of device "hologram"
    "errors": False,  # calls that eager refuses in place of the samples: the backend has to refuse them
    "direct": False,  # captured by make_fx, without Dynamo; with "dynamic", graphs serve the samples that follow
}
# Uninitialised memory, or meaningless in a graph.
SKIPPED = ("empty*", "new_empty*", "jiterator*")


class Checker:
    """Runs one operator's samples under one request."""

    def __init__(self, op, request):
        import same_memory
        import torch

        self.torch, self.memory, self.op, self.request = torch, same_memory, op, request
        self.dtype = getattr(torch, request["dtype"])
        self.training = request["mode"] == "training"
        self.eagerly = kind_of(request["device"]) == "hologram"
        self.backend, self.fallbacks = load_device(request["lazy"]) if self.eagerly else load_backend(request["backend"])
        self.graphs = []  # the newest of symbolic sizes, for the samples that follow
        self.captured = 0
        self.wider = False  # whether the sample's out= is wider than what the operator computes

    def inputs(self) -> list:
        """(label, (arguments, keywords), what to differentiate of the result)"""
        from opinfo_edges import edges
        from opinfo_outs import outs

        self.torch.manual_seed(0)
        if self.request["errors"]:
            import opinfo_errors

            return [(*refused, None) for refused in opinfo_errors.inputs(self.op, self.request["device"], self.dtype)]
        samples = self.op.sample_inputs(self.request["device"], self.dtype, requires_grad=self.training)
        made = []
        if self.request["outs"] and not self.op.supports_out:
            return made
        samples = list(enumerate(itertools.islice(samples, 2000)))
        if self.request["outs"]:  # all ways of some samples
            samples = [samples[i] for i in spread(self.request["samples"], len(samples))]
        for number, sample in samples:
            inputs = (sample.input, *sample.args), sample.kwargs
            process = sample.output_process_fn_grad if self.training else None
            if self.request["edges"]:
                made += [(f"{number}: {label}", cut, process) for label, cut in edges(inputs)]
            elif self.request["outs"]:
                made += [(f"{number}: {label}", given, None) for label, given in outs(self.op, inputs, self.for_eager)]
            else:
                made.append((str(number), inputs, process))
        return made

    def chosen(self, count: int) -> list[int]:
        request = self.request
        if request["only"] is not None:
            return [request["only"]]
        picked = spread(0 if request["outs"] else request["samples"], count)
        if request["seed"] is not None:
            picked = sorted(random.Random(request["seed"]).sample(range(count), len(picked)))
        return [i for i in picked if i >= request["first"]]

    def run(self, answer) -> None:
        try:
            inputs = self.inputs()
        except Exception as error:
            answer({"sample": 0, "status": "skip", "message": f"sample_inputs: {error}"[:300]})
            inputs = []
        chosen = self.chosen(len(inputs))
        size = max(1, self.request["together"] if self.request["direct"] else 1)
        for group in (chosen[i : i + size] for i in range(0, len(chosen), size)):
            found = None
            if len(group) > 1:
                answer({"at": group[0], "label": TOGETHER})
                found = self.together([inputs[number] for number in group])
            for number in group:
                label, arguments, process = inputs[number]
                answer({"at": number, "label": label})
                self.wider = self.request["outs"] and label.endswith(": wider")
                status, message = found or self.sample(self.op.op, arguments, process)
                answer({"sample": number, "status": status, "message": message})
                if kind_of(self.request["device"]) == "cuda":
                    self.torch.cuda.synchronize()  # a device that failed stays so: the process ends, and another goes on
        answer({"end": len(chosen)})

    def together(self, group):
        """The samples in one graph: (status, message) of each, None where they are to be looked at one by one."""
        processes = [process for _, _, process in group]

        def function(*parts):
            results = [self.op.op(*args, **kwargs) for args, kwargs in parts]
            return [r if process is None else process(r) for r, process in zip(results, processes)]

        found = self.sample(function, (tuple(inputs for _, inputs, _ in group), {}), None)
        return found if found[0] in ("fallback", "native") else None

    def sample(self, function, inputs, process) -> tuple[str, str]:
        if self.request["errors"]:
            import opinfo_errors

            if self.eagerly:
                return opinfo_errors.examine_operators(function, inputs, self.for_eager, self.clone)
            return opinfo_errors.examine(function, inputs, self.backend, self.clone)
        if self.request["outs"]:
            import opinfo_errors

            refused = opinfo_errors.examine_operators(function, inputs, self.for_eager, self.clone)
            if refused[0] != "skip":
                return refused
        status, message = self.examine(
            function, inputs, process, lambda: self.compiled(function, inputs, process)
        )
        if status in PASSED and self.request["direct"] and self.request["dynamic"]:
            from opinfo_edges import others

            for label, other in others(inputs):
                graph = next((graph for graph in self.graphs if graph.holds(other)), None)
                if graph is not None:
                    worse, what = self.examine(function, other, process, lambda g=graph: g)
                    if worse in ("error", "fail"):
                        return worse, f"{label}: {what}"
        return status, message

    def examine(self, function, inputs, process, compiled) -> tuple[str, str]:
        """`compiled()` gives what is compared with `function`."""
        torch = self.torch
        try:
            eager_inputs = self.clone(self.for_eager(inputs))
            eager = self.call(function, *eager_inputs, process)
            eager_facts = self.facts
            again = self.call(function, *self.clone(self.for_eager(inputs)), process, seed=43)
            nondeterministic = not self.equal(eager, again)
        except Exception as error:  # not the backend's concern
            return "skip", f"eager: {type(error).__name__}: {error}"[:300]
        torch._dynamo.reset()
        counters = torch._dynamo.utils.counters
        counters.clear()
        before = self.fallbacks()
        compiled_inputs = self.clone(inputs)
        try:
            compiled = compiled()
            actual = self.brought(self.call(compiled, *compiled_inputs, process))
            facts = self.facts
            compiled_inputs = self.brought(compiled_inputs)
        except Exception as error:
            return "error", f"{type(error).__name__}: {error}"[:600]
        values = not nondeterministic
        ends = [torch.utils._pytree.tree_leaves(x) for x in (eager_inputs, compiled_inputs)]
        near = functools.cache(lambda: self.as_near_the_truth(function, inputs, process, (*eager, ends[0]), (*actual, ends[1])))
        try:
            self.compare(eager[0], actual[0], "output", values)
            self.compare(*self.known_gradients(eager[1], actual[1]), "gradient", values, scale=10)
        except AssertionError as error:
            if not near() and not self.of_equals(function, inputs, eager, actual):
                return "fail", str(error)[:600]
        try:
            if values:
                self.compare(*ends, "input after the call")
        except AssertionError as error:
            if not near():
                return "fail", str(error)[:600]
        try:
            if self.request["memory"]:
                self.compare_memory(function, inputs, process, eager_facts, facts)
                if values:
                    self.call_again(function, compiled, inputs, process, actual)
        except AssertionError as error:
            return "fail", str(error)[:600]
        after = self.fallbacks()
        left = sorted(name for name, calls in after.items() if calls > before.get(name, 0))
        if FAILED in left:
            return "error", FAILED
        if not counters["stats"].get("unique_graphs", 0) and not (self.request["direct"] or self.eagerly):
            return "nograph", "; ".join(list(counters["graph_break"])[:1])[:200]
        if nondeterministic:
            return "nondet", ""
        return ("fallback", " ".join(left)) if left else ("native", "")

    def for_eager(self, inputs):
        """The inputs where eager is right."""
        return self.brought(inputs) if self.eagerly else inputs

    def brought(self, tree):
        """The tree with tensors of our device, and its name, in the host's place. AssertionError where there is none of the device's,
        but of the host's."""
        if not self.eagerly:
            return tree
        torch, kind = self.torch, self.request["device"]
        found = torch.utils._pytree.tree_leaves(tree)
        strange = [t for t in found if isinstance(t, torch.Tensor) and t.device.type != kind and t.dim()]
        assert not strange, f"{len(strange)} of the tensors are on {strange[0].device}"

        seen = {}  # so that shared tensors stay shared

        def bring(x):
            if isinstance(x, torch.Tensor):
                if id(x) not in seen:
                    there = x.detach().cpu()
                    if there.layout == torch.strided and there.stride() != x.stride() and 0 not in x.stride():
                        there = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(there)
                    seen[id(x)] = there.requires_grad_() if x.requires_grad and x.is_leaf else there
                return seen[id(x)]
            return "cpu" if x == kind else torch.device("cpu") if isinstance(x, torch.device) else x

        return torch.utils._pytree.tree_map(bring, tree)

    def compiled(self, function, inputs, process):
        torch = self.torch
        if self.eagerly:
            for _ in range(1 if self.request["lazy"] else 0):
                self.call(function, *self.clone(inputs), process)
            return function
        if not self.request["direct"]:
            dynamic = self.request["dynamic"]
            return torch.compile(
                lambda *a, **k: function(*a, **k), backend=self.backend, dynamic=dynamic
            )
        from opinfo_direct import Graph, SymbolicGraph

        if not self.request["dynamic"]:
            return Graph(function, self.clone(inputs), self.backend, self.training)
        found = next((graph for graph in self.graphs if graph.holds(inputs)), None)
        if found is None:
            self.captured += 1
            found = SymbolicGraph(
                function, self.clone(inputs), self.backend, self.training, self.captured % 2 == 0
            )
            self.graphs = [found, *self.graphs[: KEPT - 1]]
        return found

    def compare_memory(self, function, inputs, process, eager, facts):
        """Raises where results lie as neither eager's nor aot_eager's do."""
        bound = None
        differs = self.memory.differences(facts, eager)
        if self.eagerly:
            assert not differs, "memory: " + "; ".join(differs)
        if not differs:
            return
        mine = self.backend, self.request
        self.backend, self.request = "aot_eager", {**self.request, "dynamic": False}
        try:
            self.call(self.compiled(function, inputs), *self.clone(inputs), process)
            bound = self.facts
        except Exception:  # it has no answer
            pass
        finally:
            self.backend, self.request = mine
        found = self.memory.differences(facts, eager, bound)
        assert not found, "memory: " + "; ".join(found)

    def call_again(self, function, compiled, inputs, process, first):
        """Another call gives what the first one did, but for rounding, whatever was written into its results meanwhile."""
        kept = [[t.detach().clone() if isinstance(t, self.torch.Tensor) else t for t in part] for part in first]
        for t in self.memory.tensors(first).values():
            self.memory.overwrite(t)
        second = self.call(compiled, *self.clone(inputs), process)
        alike = self.equal(kept, self.brought(second)) or self.as_near_the_truth(function, inputs, process, kept, self.brought(second))
        assert alike, "a second call, after writing into the first one's results, gives other values"
        mine, others = (self.memory.tensors(part) for part in (first, second))
        both = self.memory.together({f"{call} {i}": t for call, part in (("first", mine), ("second", others)) for i, t in part.items()})
        shared = [pair for pair in both if pair[0].split()[0] != pair[1].split()[0]]
        assert not shared, f"results of two calls share memory: {shared}"

    def clone(self, tree):
        """A copy with the same strides and requires_grad in which shared tensors stay shared."""
        torch, seen = self.torch, {}

        def copy(tensor):
            if id(tensor) not in seen:
                with torch.no_grad():
                    new = tensor.detach().clone()
                    if tensor.layout == torch.strided and new.stride() != tensor.stride() \
                            and 0 not in tensor.stride():  # fmt: skip
                        new = torch.empty_strided(
                            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
                        )
                        new.copy_(tensor)
                seen[id(tensor)] = new.requires_grad_() if tensor.requires_grad else new
            return seen[id(tensor)]

        return torch.utils._pytree.tree_map_only(torch.Tensor, copy, tree)

    def call(self, function, args, kwargs, process, seed=42):
        """→ (flat outputs, gradients of the differentiable inputs)"""
        torch, leaves = self.torch, self.torch.utils._pytree.tree_leaves
        torch.manual_seed(seed)
        run = self.memory.Run(args, kwargs) if self.request["memory"] else None
        with torch.set_grad_enabled(self.training):
            result = function(*args, **kwargs)
            outputs = leaves(process(result) if process is not None else result)
        self.facts = run.returned(result) if run else {}
        if not self.training:
            return outputs, []
        roots = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
        inputs = [t for t in leaves((args, kwargs))
                  if isinstance(t, torch.Tensor) and t.requires_grad and t.is_leaf]  # fmt: skip
        if not roots or not inputs:
            return outputs, []
        gradients = torch.autograd.grad(roots, inputs, self.directions(roots), allow_unused=True)
        self.facts = run.returned(result, gradients) if run else {}
        return [t.detach() if isinstance(t, torch.Tensor) else t for t in outputs], list(gradients)

    def directions(self, roots):
        generator = self.torch.Generator().manual_seed(7)
        return [self.torch.randn(t.shape, generator=generator, dtype=self.torch.float64).to(t) for t in roots]

    def of_equals(self, function, inputs, eager, actual) -> bool:
        """Whether the results differ by the choice among equal elements alone."""
        import opinfo_ties

        directions = self.directions(eager[0][:1]) if actual[1] else []  # of the values
        return function is self.op.op and opinfo_ties.right(self.op.name, self.for_eager(inputs), eager, actual, directions)

    def known_gradients(self, eager, actual):
        """Eager may give None where a traced graph gives zeros; drops pairs without any
        gradient."""
        zeros = self.torch.zeros_like
        pairs = [(zeros(a) if e is None else e, zeros(e) if a is None else a)
                 for e, a in zip(eager, actual) if e is not None or a is not None]  # fmt: skip
        return [e for e, _ in pairs], [a for _, a in pairs]

    def compare(self, expected, actual, what, values=True, scale=1.0):
        torch = self.torch
        assert len(expected) == len(actual), (
            f"{what}: {len(actual)} results, eager has {len(expected)}"
        )
        for index, (e, a) in enumerate(zip(expected, actual)):
            where = f"{what} {index}"
            if not isinstance(e, torch.Tensor):
                same = (
                    e == a
                    or e != e
                    and a != a
                    or isinstance(e, float)
                    and abs(e - a) <= 1e-4 * max(1, abs(e))
                )
                assert not values or same, f"{where}: {a!r}, eager has {e!r}"
                continue
            kind = lambda t: (
                (tuple(t.shape), t.dtype, t.layout, t.device.type) if isinstance(t, torch.Tensor) else type(t)
            )
            assert kind(e) == kind(a), f"{where}: {kind(a)}, eager has {kind(e)}"
            if values:
                dense = lambda t: t.detach().to_dense() if t.layout != torch.strided else t.detach()
                e, a = (dense(t).resolve_conj().resolve_neg() for t in (e, a))
                bound = scale * tolerance(torch, self.dtype if self.wider else e.dtype)
                torch.testing.assert_close(
                    a, e, rtol=bound, atol=bound, equal_nan=True, msg=lambda m, w=where: f"{w}: {m}"
                )

    def as_near_the_truth(self, function, inputs, process, eager, actual) -> bool:
        """Whether results, gradients and inputs after the call differ by rounding alone: each one's error against the same
        computation in float64 is at most three times eager's, in the root of the mean square, and within the tolerance where
        eager overflows on the way."""
        torch, leaves = self.torch, self.torch.utils._pytree.tree_leaves
        if not self.op.supports_dtype(torch.float64, home_of(self.request["device"])):
            return False

        def widen(t):
            if t.dtype != self.dtype:
                return t
            return t.detach().double().requires_grad_(t.requires_grad)

        try:
            args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, widen, self.clone(self.for_eager(inputs)))
            truth = (*self.call(function, args, kwargs, process), leaves((args, kwargs)))[: len(eager)]
        except Exception:  # it has no such computation
            return False
        if [len(part) for part in truth] != [len(part) for part in eager]:
            return False
        for e, a, t in zip(*map(leaves, (eager, actual, truth)), strict=True):
            rounded = all(isinstance(x, torch.Tensor) and x.is_floating_point() and x.layout == torch.strided for x in (e, a, t))
            if not rounded or not e.shape == a.shape == t.shape:
                if not self.equal(([e], []), ([a], [])):
                    return False
                continue
            finite, bound = e.isfinite() & t.isfinite(), tolerance(torch, e.dtype)
            near = t.to(e.dtype).isfinite() & torch.isclose(a.double(), t.double(), rtol=bound, atol=bound)
            e = torch.where(near & ~e.isfinite(), a, e)
            infinite = [torch.where(x.isfinite(), torch.zeros_like(x), x) for x in (e, a)]
            if not self.equal(([infinite[0]], []), ([infinite[1]], [])):
                return False
            error_of = lambda x, t=t, at=finite: (x.double() - t.double())[at].square().mean().sqrt()
            if finite.any() and not error_of(a) <= 3 * error_of(e):
                return False
        return True

    def equal(self, first, second) -> bool:
        try:
            self.compare(first[0], second[0], "")
            self.compare(*self.known_gradients(first[1], second[1]), "")
            return True
        except AssertionError:
            return False


def spread(wanted: int, count: int) -> list[int]:
    """At most so many numbers below `count`, spread over them; 0: all."""
    wanted = min(wanted or count, count)
    return [i * count // wanted for i in range(wanted)]


def tolerance(torch, dtype) -> float:
    return {torch.float16: 1e-2, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.complex64: 2e-5,
            torch.float64: 1e-7, torch.complex128: 1e-7}.get(dtype, 0.0)  # fmt: skip


def load_backend(name: str):
    """→ (backend for torch.compile, function that returns its counts of what it did not compile)

    `name` is a registered backend, or FILE:FUNCTION."""
    if ":" in name:
        import importlib.util

        path, function = name.rsplit(":", 1)
        spec = importlib.util.spec_from_file_location("backend_under_test", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, function), dict
    if name == "hologram":
        import hologram_torch

        def counts():
            stats = hologram_torch.stats()
            elsewhere = "HOLOGRAM_BACKEND" in os.environ
            return {**stats["fallback_ops"], FAILED: stats["failed_graphs"], HOST: elsewhere * stats["host_runs"]}

        return name, counts
    return name, dict


def load_device(lazy):
    """The same of operators on device="hologram", one by one, or lazily fused."""
    import hologram_torch

    hologram_torch.device.lazy(lazy)
    if lazy:
        from hologram_torch.accelerator import lazily

        lazily.MET = 0  # compiles sequences of calls that it has not met before
    return None, lambda: hologram_torch.device.stats()["fallback_ops"]


def operators() -> dict:
    from torch.testing._internal.common_methods_invocations import op_db

    named = {op.name + "." * bool(op.variant_test_name) + op.variant_test_name: op for op in op_db}
    skipped = lambda op: any(fnmatch.fnmatchcase(op.name, pattern) for pattern in SKIPPED)
    return {name: op for name, op in named.items() if not skipped(op)}


def kind_of(device: str) -> str:
    return device.partition(":")[0]


def home_of(device: str) -> str:
    """The device whose samples and types are those of a device."""
    return "cpu" if kind_of(device) == "hologram" else kind_of(device)


def supports(op, dtype, training: bool, device="cpu") -> bool:
    if not op.supports_dtype(dtype, home_of(device)):
        return False
    return not training or (op.supports_autograd and dtype.is_floating_point)


def serve(connection, device="cpu"):
    """Answers requests; what operators print goes nowhere. `device`: whose operators are named."""
    import logging
    import warnings

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    if kind_of(device) == "hologram":
        import hologram_torch

        hologram_torch.device.use()
    torch._dynamo.config.suppress_errors = False
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # a measurement, at each capture
    table = operators()
    logging.disable(logging.WARNING)
    names = {
        f"{dtype} {mode}": [
            n for n, op in table.items() if supports(op, getattr(torch, dtype), mode == "training", device)
        ]
        for dtype in ("float32", "bfloat16", "float16", "float64", "int64", "complex64")
        for mode in ("inference", "training")
    }
    connection.send({"names": names})
    while True:
        try:
            request = {**DEFAULTS, **connection.recv()}
        except EOFError:
            return
        Checker(table[request["op"]], request).run(connection.send)
