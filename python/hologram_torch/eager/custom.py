# hologram_torch/eager/custom.py: custom_op: a kernel of one's own as an operator of PyTorch
"""A NumPy function, or a program in Atlas' text form, becomes an operator that autograd, torch.func, torch.export and every
compiler of PyTorch know. In graphs of this backend the NumPy function is part of the graph: its operations are fused with others."""

import functools
import inspect

import numpy as np
import torch
from hologram import _core, jit
from hologram._jit import Jitted
from hologram.trace import Array, Tracer

from .. import lowering, runtimes
from ..graph import dtypes
from ..graph.builder import contiguous_strides
from ..graph.symbols import Unsupported
from .buffers import as_array, as_tensor

__all__ = ["CustomOperator", "custom_op"]
_SCHEMA = {float: "float", int: "int", bool: "bool", str: "str"}


def custom_op(name, kernel=None, *, gradient=None, fake=None, batch=None, elementwise=False, results=1, symbols=None):
    """Registers a kernel as torch.ops.NAMESPACE.NAME and returns what calls it; without `kernel`, a decorator.

    name: "namespace::name".
    kernel: a function over NumPy arrays, which hologram.jit compiles; parameters annotated with float, int, bool or str are numbers
        and texts, the others tensors. Or an Atlas block program's text: its buffers that are only read are the operands, in row-major
        order, the others the results.
    gradient: function(gradient, …, result, …, *arguments) over NumPy arrays → for each tensor argument its gradient, or None. One
        gradient and one result where there is one result. Or an operator that custom_op made, with a gradient for every tensor
        argument among its results: a `gradient` of its own is what gradients of gradients take.
    fake: function over tensors → tensors of the results' sizes and dtypes; by default what tracing the NumPy function tells.
    batch: function(info, in_dims, *arguments), as torch.library.register_vmap takes it; by default one call for each element, and
        one for all where the kernel is `elementwise` and broadcasts.
    results: how many tensors the kernel returns.
    symbols: of an Atlas program that has symbols: function over the operands → their values.

    Raises:
        ValueError: a name without a namespace; an Atlas program that is not sound, or without `fake`; an operator in `gradient`'s
            place with other arguments or results.
        RuntimeError: where the gradient of a gradient is asked for that has none.
    """
    if kernel is None:
        return functools.partial(custom_op, name, gradient=gradient, fake=fake, batch=batch, elementwise=elementwise, results=results)
    if "::" not in name:
        raise ValueError(f"custom_op: name must be 'namespace::name', got {name!r}")
    if isinstance(kernel, str):
        if fake is None:
            raise ValueError("custom_op: fake= has to tell the results' sizes of an Atlas program")
        kernel = _Program(kernel, fake, symbols)
    return CustomOperator(name, kernel, gradient, fake, batch, elementwise, results)


class CustomOperator:
    """What custom_op returns: call it like the kernel, on tensors. `operator` is PyTorch's torch.library.CustomOpDef."""

    def __init__(self, name, kernel, gradient, fake, batch, elementwise, results):
        arguments = kernel.arguments if isinstance(kernel, _Program) else _arguments(kernel)
        self.__name__, self.__doc__ = name, getattr(kernel, "__doc__", None)
        returned = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
        self._several, self._results = results > 1, results
        self.operator = _register(name, arguments, returned, kernel, fake)
        self._tensors = [kind == "Tensor" for _, kind, _ in arguments]
        if gradient is not None:
            self._differentiate(name, arguments, gradient, results)
        rule = batch or functools.partial(broadcast if elementwise else _one_by_one, self.operator, self._several)
        torch.library.register_vmap(self.operator, rule)

    def __call__(self, *args, **kwargs):
        return self.operator(*args, **kwargs)

    def __repr__(self):
        return f"<custom operator {self.__name__}>"

    def _backward(self, name, arguments, gradient, results):
        """What calls `gradient` with tensors: → for each tensor argument its gradient or None"""
        if isinstance(gradient, CustomOperator):
            taken, tensors = len(arguments) + 2 * results, sum(self._tensors)
            if (len(gradient._tensors), gradient._results) != (taken, tensors):
                raise ValueError(
                    f"custom_op: the gradient of {name} takes {taken} arguments and gives {tensors} results, "
                    f"got {gradient.__name__} with {len(gradient._tensors)} and {gradient._results}"
                )
            return lambda *values: gradient(*values) if gradient._several else (gradient(*values),)
        given = [(f"{what}{i}", "Tensor", "") for what in ("gradient_", "result_") for i in range(results)]
        present = {}  # which tensors have a gradient; told by each run

        def kernel(*values):
            found = gradient(*values)
            found = found if isinstance(found, (tuple, list)) else (found,)
            present["here"] = [g is not None for g in found]
            return [g for g in found if g is not None]

        operator = _register(f"{name}_gradient", [*given, *((n, k, "") for n, k, _ in arguments)], "Tensor[]", kernel, None)

        def refuse(ctx, *gradients):
            raise RuntimeError(
                f"hologram: the gradient of {name} has no gradient of its own: custom_op's gradient= may be an operator with one"
            )

        operator.register_autograd(refuse)

        def call(*values):
            found = iter(operator(*values))
            return [next(found) if here else None for here in present["here"]]

        return call

    def _differentiate(self, name, arguments, gradient, results):
        backward = self._backward(name, arguments, gradient, results)

        def setup(ctx, inputs, output):
            outputs = output if self._several else (output,)
            ctx.others = [None if isinstance(v, torch.Tensor) else v for v in inputs]
            ctx.save_for_backward(*outputs, *(v for v in inputs if isinstance(v, torch.Tensor)))

        def differentiate(ctx, *gradients):
            saved = iter(ctx.saved_tensors)
            outputs = [next(saved) for _ in range(results)]
            gradients = [torch.zeros_like(o) if g is None else g for g, o in zip(gradients, outputs)]
            values = [next(saved) if tensor else other for tensor, other in zip(self._tensors, ctx.others)]
            found = iter(backward(*gradients, *outputs, *values))
            return tuple(next(found) if tensor else None for tensor in self._tensors)

        self.operator.register_autograd(differentiate, setup_context=setup)


def _arguments(function):
    """(name, type in PyTorch's schema, default) of each parameter."""
    found = []
    for parameter in inspect.signature(getattr(function, "__wrapped__", function)).parameters.values():
        kind = _SCHEMA.get(parameter.annotation, {t.__name__: n for t, n in _SCHEMA.items()}.get(parameter.annotation, "Tensor"))
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        found.append((parameter.name, kind, default))
    return found


def _register(name, arguments, returned, kernel, fake):
    """The operator, known to this backend's graphs too where the kernel is a NumPy function."""
    schema = f"({', '.join(f'{kind} {n}{default}' for n, kind, default in arguments)}) -> {returned}"
    compiled = kernel if isinstance(kernel, (Jitted, _Program)) else jit(kernel)

    def run(*values):
        found = compiled(*(as_array(v) if isinstance(v, torch.Tensor) else v for v in values))
        return _returned(found, returned, lambda r: _own(as_tensor(r), values))

    operator = torch.library.custom_op(name, run, mutates_args=(), schema=schema, device_types="cpu")
    operator.register_fake(fake or (lambda *values: _returned(_traced(kernel, values), returned, lambda r: r)))
    if not isinstance(kernel, _Program):
        lowering.add(f"{name.replace('::', '.')}.default", functools.partial(inlined, kernel, returned))
    return operator


def _returned(found, returned, each):
    if returned == "Tensor[]":
        return [each(r) for r in found]
    return each(found) if returned == "Tensor" else tuple(each(r) for r in found)


def _own(result, values):
    """A result that is no operand's memory."""
    taken = {v.untyped_storage().data_ptr() for v in values if isinstance(v, torch.Tensor)}
    return result.clone() if result.untyped_storage().data_ptr() in taken else result


class _Part(Tracer):
    """A trace that writes into a graph that others began."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph

    def constant(self, array):
        if array.ndim:
            raise Unsupported("an array that the kernel refers to")
        return super().constant(array)

    def run(self, kernel, values):
        """The kernel's results as nodes of the graph; `values`: nodes, numbers and texts."""
        given = [v if isinstance(v, (bool, int, float, str)) or v is None else Array(self, v) for v in values]
        made = (kernel if isinstance(kernel, Jitted) else jit(kernel))(*given)
        self.many = isinstance(made, (tuple, list))
        return [self._node(m) for m in (made if self.many else (made,))]

    def _node(self, made):
        lifted = self.lift(made)
        if lifted is None:
            raise Unsupported("a result that is no array")
        return lifted.value


def inlined(kernel, returned, c, *values):
    """The operator in a graph of the backend."""
    if any(type(n) is not int for v in values if hasattr(v, "shape") for n in v.shape):
        raise Unsupported("sizes that are symbols")
    made = _Part(c.graph).run(kernel, values)
    return made[0] if returned == "Tensor" else tuple(made)


def _traced(kernel, values):
    """Tensors of the sizes and dtypes of the results, for tracing. Open sizes are found in the results by their names."""
    graph, sizes, given = _core.Graph(), {}, []
    for position, v in enumerate(values):
        if isinstance(v, torch.Tensor):
            shape = [_size(graph, sizes, n) for n in v.shape]
            v = graph.parameter(position, dtypes.NAME[v.dtype], shape, contiguous_strides(shape))
        given.append(v)
    part = _Part(graph)
    part.hints = [n.node.hint or 2 for n, _ in sizes.values()]
    like = next(v for v in values if isinstance(v, torch.Tensor))
    known = {str(symbol): n for n, symbol in sizes.values()}

    def tensor(node):
        try:
            shape = [n if type(n) is int else known[str(n)] for n in node.shape]
        except KeyError as error:
            raise ValueError(f"custom_op: size {error} of a result needs fake=, which tells it of the operands") from None
        return like.new_empty(shape, dtype=dtypes.TORCH[node.dtype])

    made = [tensor(node) for node in part.run(kernel, given)]
    return made if part.many else made[0]


def _size(graph, sizes, n):
    """A size as the graph states it; `sizes`: symbol and size, by how PyTorch writes it."""
    if type(n) is int:
        return n
    return sizes.setdefault(str(n), (n, graph.new_symbol()) if str(n) not in sizes else None)[1]


# --- batching rules
def broadcast(operator, several, info, in_dims, *values):
    rank = max(v.dim() - (d is not None) for v, d in zip(values, in_dims) if isinstance(v, torch.Tensor))
    given = []
    for v, d in zip(values, in_dims):
        if isinstance(v, torch.Tensor) and d is not None:
            v = v.movedim(d, 0)
            v = v.reshape(v.shape[0], *[1] * (rank + 1 - v.dim()), *v.shape[1:])
        given.append(v)
    found = operator(*given)
    return found, tuple(0 for _ in found) if several else 0


def _one_by_one(operator, several, info, in_dims, *values):
    def element(i):
        return [v.select(d, i) if isinstance(v, torch.Tensor) and d is not None else v for v, d in zip(values, in_dims)]

    found = [operator(*element(i)) for i in range(info.batch_size)]
    if several or isinstance(found[0], list):
        return type(found[0])(torch.stack(parts) for parts in zip(*found)), type(found[0])(0 for _ in found[0])
    return torch.stack(found), 0


# --- Atlas
class _Program:
    """An Atlas block program as a kernel over arrays."""

    def __init__(self, text, fake, symbols):
        self._code = _core.atlas.assemble(text.encode())
        _core.atlas.verify(self._code)
        self._fake, self._symbols = fake, symbols
        buffers = _core.atlas.describe(self._code)["buffers"]
        self._read = [b["access"] == "read" for b in buffers]
        self.arguments = [(f"operand_{i}", "Tensor", "") for i in range(sum(self._read))]

    def __call__(self, *arrays):
        arrays = [np.ascontiguousarray(a) for a in arrays]
        like = self._fake(*(as_tensor(a) for a in arrays))
        like = like if isinstance(like, (tuple, list)) else (like,)
        made = [np.zeros(tuple(t.shape), _core.numpy_dtype(dtypes.NAME[t.dtype])) for t in like]
        operands, results = iter(arrays), iter(made)
        buffers = [next(operands) if read else next(results) for read in self._read]
        symbols = list(self._symbols(*arrays)) if self._symbols else []
        _core.atlas.run_block(self._code, [b.reshape(-1).view(np.uint8) for b in buffers], symbols, runtimes.runtime())
        return made[0] if len(made) == 1 else tuple(made)
