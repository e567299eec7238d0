# hologram_torch/frozen.py: freeze(): a captured model that is called without Dynamo's guards
import collections
import gc
import typing

import torch
from hologram import _core
from torch.multiprocessing.reductions import StorageWeakRef

from . import counters, memory, parameters, precision, released, runtimes
from .capture import exported
from .compiler import compile_graph
from .graph.symbols import Unsupported
from .options import Options

_PLAIN = (bool, int, float, str, type(None))
_TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
_MOST = 8


def freeze(model, example_inputs, *, release_weights=False, **options):
    """Captures `model` for arguments like `example_inputs` and compiles it for calls without gradients.

    model: a torch.nn.Module; example_inputs: its positional arguments, tensors and plain numbers; options: as in
    torch.compile(options=...). → a callable that gives what model(*inputs) gives under torch.no_grad().

    Each call checks types, dtypes, sizes and strides of all tensors, every parameter, buffer, submodule, plain attribute and
    number of hooks of the modules; where something differs, the model is captured again. Parameters may be written in place or
    replaced. What Python code reads beyond that (lists in a module, global variables) is taken as captured.

    release_weights: after the first call gives back the memory of parameters and buffers of which later calls read only
    packed copies. The model then holds a ReleasedWeight in their place: it can be used through the frozen model alone, and for
    arguments like example_inputs alone. `released` of the result tells which, a log line and stats()["memory"] how much. What
    others hold of these tensors (optimizers, views) stays in memory, and writes into it are no longer seen. Pages of a mapped
    file that another process maps as well stay too: they are one copy for all.

    Raises TypeError for other arguments, ValueError for a model that writes into its buffers or inputs, or for
    release_weights where products may change their precision from call to call, and, in a call, RuntimeError where gradients or
    autocast are on or where another capture would need released weights.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"freeze: expected a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(example_inputs, (tuple, list)):
        raise TypeError(f"freeze: example_inputs must be a tuple of the model's arguments, got {type(example_inputs).__name__}")
    chosen = Options.make(None, options or None)
    runtimes.check_settings(chosen.device)
    frozen = Frozen(model, chosen, release_weights)
    with torch.no_grad():
        frozen(*example_inputs)
        if release_weights:
            frozen._release(tuple(example_inputs))
    return frozen


class Frozen:
    """What freeze() returns; `captures` tells how often the model was captured, `released` the bytes by name of each weight whose
    memory was given back."""

    def __init__(self, model, options, hold):
        self.model, self.options = model, options
        self._hold = hold  # what calls keep of weights is not given back: the weights will be
        self.captures = 0
        self.released = {}
        self._variants = []

    def __call__(self, *inputs):
        if torch.is_grad_enabled():
            raise RuntimeError("a frozen model computes no gradients; call it under torch.no_grad() or inference_mode()")
        if torch._C._is_any_autocast_enabled():
            raise RuntimeError("a frozen model does not follow autocast; call the model itself")
        for variant in self._variants:
            result = variant.call(inputs)
            if result is not None:
                return variant.finish(result)
        return self._captured(inputs)

    def __repr__(self):
        gone = f", released {len(self.released)} weights ({sum(self.released.values()) / 2**20:.1f} MiB)" if self.released else ""
        return f"Frozen({type(self.model).__name__}, captures={self.captures}{gone})"

    def _release(self, inputs):
        weights = self._variants[0].release(self.model, inputs)
        gc.collect()  # the traced graph has circles that hold weights
        gone = [w for w in weights if w.storage.expired()]
        self.released = {w.name: w.bytes for w in gone}
        memory.give_back((w.address, w.bytes) for w in gone)
        memory.tell_released(self, sum(self.released.values()))
        counters.log.info("freeze: released %d weights, %.1f MiB; %d more are held elsewhere",
                          len(gone), sum(self.released.values()) / 2**20, len(weights) - len(gone))  # fmt: skip

    def _captured(self, inputs):
        self._variants = [v for v in self._variants if v.guard.same_model()][: _MOST - 1]
        variant = _Variant(self.model, inputs, self.options)
        self.captures += 1
        self._variants.insert(0, variant)
        if self._hold and hasattr(variant.native, "hold"):
            variant.native.hold()
        result = variant.call(inputs)
        if result is None:
            raise RuntimeError("freeze: the model changes itself while it is captured")
        return variant.finish(result)


class _Weight(typing.NamedTuple):
    """A weight that a model no longer has; a storage that several share has its bytes in the first."""

    name: str
    storage: StorageWeakRef
    address: int
    bytes: int


class _Variant:
    """One capture: a native graph, where its tensors come from, and the guard."""

    def __init__(self, model, inputs, options):
        if gone := released.missing(model):
            raise RuntimeError(
                f"freeze: these arguments or changes of the model need another capture, but the values of {len(gone)} weights "
                f"({gone[0]!r}, ...) were released; load the weights again, or freeze without release_weights"
            )
        for x in inputs:
            if not isinstance(x, (torch.Tensor, *_PLAIN)) or isinstance(x, torch.Tensor) and x.is_neg():
                raise TypeError(f"freeze: arguments are tensors and plain values, got {type(x).__name__}")
        try:
            program = exported.capture(model, inputs)
        except Unsupported as refusal:
            raise ValueError(f"freeze: {refusal}") from None
        signature = program.graph_signature
        written = [s.target or s.arg for s in signature.output_specs if s.kind.name != "USER_OUTPUT"]
        if written:
            raise ValueError(f"freeze: the model writes into {', '.join(map(str, written))}; put it into eval mode")
        arguments, static, self.names = [], [], {}  # of the graph: the model's tensors, or numbers of inputs
        user = iter(range(len(inputs)))
        for position, spec in enumerate(signature.input_specs):
            if spec.kind.name == "USER_INPUT":
                arguments.append(next(user))
                continue
            tensor = program.constants.get(spec.target) if spec.kind.name == "CONSTANT_TENSOR" else exported.find(model, spec.target)
            arguments.append(tensor)
            if parameters.plain(tensor):
                static.append(position)
                self.names[position] = spec.target
        self.native = compile_graph(program.graph_module, "inference", options, static)
        self.arguments, self.static = arguments, static
        self._guard(model, inputs)
        self.spec = program.call_spec.out_spec
        self.single = self.spec is None or self.spec.is_leaf()

    def call(self, inputs):
        """The graph's results, or None where the guard fails."""
        arguments = self.guard.arguments(*inputs)
        return None if arguments is None else self.native(arguments)

    def _guard(self, model, inputs):
        self.guard = _core.FreezeGuard(torch.Tensor.__dlpack_c_exchange_api__, *_state(model), self.arguments, tuple(inputs))

    def release(self, model, inputs):
        """Replaces the model's tensors that calls no longer read, and gives what they were."""
        if isinstance(self.native, precision.ByPrecision):
            raise ValueError("freeze: release_weights needs float32 products of one precision; not with fast=True, nor while "
                             "torch.set_float32_matmul_precision is \"high\" or \"medium\"")  # fmt: skip
        if not hasattr(self.native, "release"):  # the graph was left to PyTorch
            return []
        times = collections.Counter(id(x) for x in self.arguments)
        times.update(id(inner) for *_, inner in _inner(model))  # what these wrap stays with them
        positions = self.native.release([i for i in self.static if times[id(self.arguments[i])] == 1])
        tensors = [self.arguments[i] for i in positions]
        for i in positions:
            self.arguments[i] = None
        weights, counted = [], set()
        for i, x in zip(positions, tensors):
            storage = x.untyped_storage()
            bytes = 0 if storage._cdata in counted else storage.nbytes()
            weights.append(_Weight(self.names[i], StorageWeakRef(storage), storage.data_ptr(), bytes))
            counted.add(storage._cdata)
        released.replace(model, tensors)
        self._guard(model, inputs)
        return weights

    def finish(self, results):
        return results[0] if self.single else torch.utils._pytree.tree_unflatten(results, self.spec)


def _inner(model):
    """What tensors of the model that wrap others hold: the tensor, the name there, the one that is wrapped."""
    tables = (table for m in model.modules() for table in (m._parameters, m._buffers))
    for x in (x for table in tables for x in table.values() if x is not None and not parameters.plain(x)):
        yield from exported.wrapped(x)


def _state(model):
    """Entries of the modules' dictionaries that must stay the same objects, and the dictionaries' sizes."""
    entries, sizes = [(vars(x), name, inner) for x, name, inner in _inner(model) if name in vars(x)], []
    for module in model.modules():
        attributes = module.__dict__
        for name, value in attributes.items():
            if isinstance(value, (*_PLAIN, tuple)):
                entries.append((attributes, name, value))
        for name in _TABLES:
            table = attributes[name]
            entries.append((attributes, name, table))
            sizes.append((table, len(table)))
            if name in _TABLES[:3]:
                entries += [(table, key, value) for key, value in table.items() if value is not None]
    return entries, sizes
