# hologram_torch/frozen.py: freeze(): a captured model that is called without Dynamo's guards
import functools
from unittest import mock

import torch
from hologram import _core
from torch.nn import functional

from . import lowering, parameters
from .capture import decomp, rewrite
from .compiler import compile_graph
from .options import Options

_PLAIN = (bool, int, float, str, type(None))
_TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
_WHOLE = {f"aten.{name}.default" for name in decomp._WHOLE}
_MOST = 8


def freeze(model, example_inputs, **options):
    """Captures `model` for arguments like `example_inputs` and compiles it for calls without gradients.

    model: a torch.nn.Module; example_inputs: its positional arguments, tensors and plain numbers; options: as in
    torch.compile(options=...). → a callable that gives what model(*inputs) gives under torch.no_grad().

    Each call checks types, dtypes, sizes and strides of all tensors, every parameter, buffer, submodule, plain attribute and
    number of hooks of the modules; where something differs, the model is captured again. Parameters may be written in place or
    replaced. What Python code reads beyond that (lists in a module, global variables) is taken as captured.

    Raises TypeError for other arguments, ValueError for a model that writes into its buffers or inputs, and, in a call,
    RuntimeError where gradients or autocast are on.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"freeze: expected a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(example_inputs, (tuple, list)):
        raise TypeError(f"freeze: example_inputs must be a tuple of the model's arguments, got {type(example_inputs).__name__}")
    frozen = Frozen(model, Options.make(None, options or None))
    with torch.no_grad():
        frozen(*example_inputs)
    return frozen


class Frozen:
    """What freeze() returns; `captures` tells how often the model was captured."""

    def __init__(self, model, options):
        self.model, self.options = model, options
        self.captures = 0
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

    def _captured(self, inputs):
        self._variants = [v for v in self._variants if v.guard.same_model()][: _MOST - 1]
        variant = _Variant(self.model, inputs, self.options)
        self.captures += 1
        self._variants.insert(0, variant)
        result = variant.call(inputs)
        if result is None:
            raise RuntimeError("freeze: the model changes itself while it is captured")
        return variant.finish(result)


class _Variant:
    """One capture: a native graph, where its tensors come from, and the guard."""

    def __init__(self, model, inputs, options):
        for x in inputs:
            if not isinstance(x, (torch.Tensor, *_PLAIN)) or isinstance(x, torch.Tensor) and x.is_neg():
                raise TypeError(f"freeze: arguments are tensors and plain values, got {type(x).__name__}")
        with mock.patch.object(functional, "scaled_dot_product_attention", rewrite._attend), torch.no_grad():
            program = torch.export.export(model, tuple(inputs), strict=False).run_decompositions(_decompositions())
        signature = program.graph_signature
        written = [s.target or s.arg for s in signature.output_specs if s.kind.name != "USER_OUTPUT"]
        if written:
            raise ValueError(f"freeze: the model writes into {', '.join(map(str, written))}; put it into eval mode")
        arguments, static = [], []  # of the graph: the model's tensors, or numbers of inputs
        user = iter(range(len(inputs)))
        for position, spec in enumerate(signature.input_specs):
            if spec.kind.name == "USER_INPUT":
                arguments.append(next(user))
                continue
            tensor = program.constants.get(spec.target) if spec.kind.name == "CONSTANT_TENSOR" else _find(model, spec.target)
            arguments.append(tensor)
            if parameters.plain(tensor):
                static.append(position)
        self.native = compile_graph(program.graph_module, "inference", options, static)
        self.guard = _core.FreezeGuard(torch.Tensor.__dlpack_c_exchange_api__, *_state(model), arguments, tuple(inputs))
        self.spec = program.call_spec.out_spec
        self.single = self.spec is None or self.spec.is_leaf()

    def call(self, inputs):
        """The graph's results, or None where the guard fails."""
        arguments = self.guard.arguments(*inputs)
        return None if arguments is None else self.native(arguments)

    def finish(self, results):
        return results[0] if self.single else torch.utils._pytree.tree_unflatten(results, self.spec)


@functools.cache
def _decompositions():
    """The backend's table, and what AOT autograd does beside it: operators that are made of others are taken apart."""
    composite = torch.export.default_decompositions().items()
    own = {op: function for op, function in composite if not lowering.has_lowering(str(op)) and str(op) not in _WHOLE}
    return own | decomp.table()


def _find(model, path):
    """The parameter or buffer of this name as the module holds it now."""
    owner, _, name = path.rpartition(".")
    module = model.get_submodule(owner)
    found = module._parameters.get(name)
    return found if found is not None else module._buffers[name]


def _state(model):
    """Entries of the modules' dictionaries that must stay the same objects, and the dictionaries' sizes."""
    entries, sizes = [], []
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
