# hologram_torch/capture/recurrent.py: nn.LSTM, nn.GRU and nn.RNN as one operator per layer and direction
"""Dynamo breaks its graph at these modules; under this backend it does not (see allow_layers).

What a layer computes for all steps at once stays ordinary operators: the product with the input, and in the backward
pass every product but one. hologram::recurrence and hologram::recurrence_backward are what remains: the same small
graph, step after step, natively by lowering/recurrent.py."""

import functools

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .. import runtimes

KINDS = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
"""Gates per unit of each kind of layer."""

_library = torch.library.Library("hologram", "FRAGMENT")
_library.define(
    "recurrence(Tensor gates, Tensor state, Tensor? cell, Tensor weight, Tensor? bias, Tensor? projection, "
    "str kind, bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_library.define(
    "recurrence_backward(Tensor gradient, Tensor? cell_gradient, Tensor? slope, Tensor? keep, Tensor factors, "
    "Tensor weight, Tensor? projection, bool reverse) -> (Tensor, Tensor, Tensor, Tensor)"
)


def allow_layers(backend) -> None:
    """Lets Dynamo trace nn.LSTM, nn.GRU and nn.RNN for this backend (a function of torch.compile), and for no other one.

    torch._dynamo.config.allow_rnn would hold for every backend of the process, and not all of them can train such a
    graph. Where Dynamo's internals are not as expected, nothing changes: the layers run eagerly between two graphs."""
    from torch._dynamo import config
    from torch._dynamo.variables import builder

    original = getattr(builder.VariableBuilder, "wrap_module", None)
    if original is None or not hasattr(config, "allow_rnn") or getattr(original, "_hologram", False):
        return

    @functools.wraps(original)
    def wrap_module(self, value):
        if isinstance(value, torch.nn.RNNBase) and not config.allow_rnn and _compiles_here(getattr(self, "tx", None), backend):
            with config.patch(allow_rnn=True):
                return original(self, value)
        return original(self, value)

    wrap_module._hologram = True
    builder.VariableBuilder.wrap_module = wrap_module
    _trace_functions(backend)


def _trace_functions(backend) -> None:
    """Traces torch.gru and its like as the functions below: PyTorch's own tracing unrolls them, and fixes the length.
    Where Dynamo has no such table, rewrite.py replaces them in its graph."""
    from torch._dynamo.variables import base
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    handlers = getattr(TorchInGraphFunctionVariable, "_get_handlers", dict)()

    def handler(function):
        def handle(self, tx, *args, **kwargs):
            if len(args) != 9 or kwargs or not _compiles_here(tx, backend):
                return None
            items = getattr(args[2], "items", None)  # a list of weights; packed sequences have a tensor here
            hidden = getattr(args[1], "items", None)
            if not isinstance(items, list) or (hidden is not None) != (function is lstm):
                return None
            nodes = [getattr(getattr(v, "proxy", None), "node", None) for v in (args[0], *items)]
            if not same_kind([node.meta.get("example_value") if node is not None else None for node in nodes]):
                return None
            return tx.inline_user_function_return(base.VariableTracker.build(tx, function), list(args), {})

        return handle

    for module in (torch, torch._VF):
        for name, function in _FUNCTIONS.items():
            handlers.setdefault(getattr(module, name), handler(function))


def same_kind(tensors) -> bool:
    """Whether these are an input [steps, batch, width] and weights of one float type on the runtime's device."""
    if not all(isinstance(t, torch.Tensor) and runtimes.holds(t) and t.is_floating_point() for t in tensors):
        return False
    return len({t.dtype for t in tensors}) == 1 and tensors[0].dim() == 3


def _compiles_here(tx, backend) -> bool:
    """Whether what Dynamo traces goes to this backend."""
    function = getattr(getattr(tx, "output", None), "compiler_fn", None)
    for _ in range(8):
        if function is backend or function is None:
            break
        inner = (getattr(function, name, None) for name in ("_torchdynamo_orig_backend", "compiler_fn", "func"))
        function = next((f for f in inner if f is not None), None)
    return function is backend


# --- whole modules
def lstm(x, hidden, weights, has_biases, layers, dropout, training, bidirectional, batch_first):
    """torch.lstm on a plain tensor. → (output, last hidden states, last cell states)"""
    return _layers("lstm", x, *hidden, weights, has_biases, layers, dropout, training, bidirectional, batch_first)


def _plain(kind):
    def run(x, hidden, weights, has_biases, layers, dropout, training, bidirectional, batch_first):
        return _layers(kind, x, hidden, None, weights, has_biases, layers, dropout, training, bidirectional, batch_first)[:2]

    run.__name__ = kind
    return run


gru, rnn_tanh, rnn_relu = _plain("gru"), _plain("tanh"), _plain("relu")
_FUNCTIONS = {"lstm": lstm, "gru": gru, "rnn_tanh": rnn_tanh, "rnn_relu": rnn_relu}


def _known(function, args, kwargs) -> bool:
    """Whether `function` computes what torch.lstm or its like does: not for packed sequences, whose second argument is a tensor
    of batch sizes."""
    if len(args) != 9 or kwargs or not isinstance(args[2], (list, tuple)):
        return False
    return isinstance(args[1], (list, tuple)) == (function is lstm) and same_kind([args[0], *args[2]])


class OurLayers(TorchFunctionMode):
    """Inside, torch.lstm and its like are the functions above: tracing by torch.export finds one operator per layer and
    direction, for every length."""

    def __init__(self):
        super().__init__()
        self._functions = {getattr(torch, name): function for name, function in _FUNCTIONS.items()}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        function = self._functions.get(func)
        if function is not None and _known(function, args, kwargs):
            return function(*args)
        return func(*args, **(kwargs or {}))


def decompositions() -> dict:
    """The same for programs that others have captured, by operator."""

    def taken_apart(function):
        return lambda *args, **kwargs: function(*args) if _known(function, args, kwargs) else NotImplemented

    return {getattr(torch.ops.aten, name).input: taken_apart(function) for name, function in _FUNCTIONS.items()}


def _layers(kind, x, state, cell, weights, has_biases, layers, dropout, training, bidirectional, batch_first):
    directions = 2 if bidirectional else 1
    per = len(weights) // (layers * directions)
    x = x.transpose(0, 1) if batch_first else x
    states, cells = [], []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            start = cell[k] if cell is not None else None
            y, c = _layer(kind, x, state[k], start, weights[k * per : (k + 1) * per], has_biases, direction == 1)
            last = 0 if direction else -1
            outputs.append(y)
            states.append(y[last])
            cells.append(c[last] if cell is not None else None)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if dropout and training and layer < layers - 1:
            x = functional.dropout(x, dropout)
    x = x.transpose(0, 1) if batch_first else x
    return x, torch.stack(states), torch.stack(cells) if cell is not None else None


def _layer(kind, x, state, cell, weights, has_biases, reverse):
    bias = inner = None
    if has_biases:
        bias, inner = weights[2:4]
        if kind != "gru":  # a GRU multiplies its second bias by the reset gate
            bias, inner = bias + inner, None
    projection = weights[-1] if len(weights) % 2 else None
    gates = functional.linear(x, weights[0], bias)
    if kind == "gru":  # autocast leaves its states as wide as the first one
        gates = gates.to(torch.promote_types(gates.dtype, state.dtype))
    others = state, cell, weights[1], inner, projection  # under autocast of other dtypes
    others = [t if t is None else t.to(gates.dtype) for t in others]
    return torch.ops.hologram.recurrence(gates, *others, kind, reverse)[:2]


# --- the operators, by definition
def _forward_step(kind, gates, state, cell, weight, bias, projection):
    hidden = functional.linear(state, weight, bias)
    if kind == "gru":
        (xr, xz, xn), (hr, hz, hn) = gates.chunk(3, -1), hidden.chunk(3, -1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return n + z * (state - n), None, (r, z, n, hn)
    total = gates + hidden
    if kind != "lstm":
        return (torch.tanh if kind == "tanh" else torch.relu)(total), None, ()
    i, f, g, o = total.chunk(4, -1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    cell = f * cell + i * g
    out = o * torch.tanh(cell)
    return out if projection is None else functional.linear(out, projection), cell, (i, f, g, o)


def _order(steps, reverse):
    return range(steps - 1, -1, -1) if reverse else range(steps)


@torch.library.impl(_library, "recurrence", "CompositeExplicitAutograd")
def recurrence(gates, state, cell, weight, bias, projection, kind, reverse):
    """All states [steps, batch, …] and, of an LSTM, all cell states of one layer, and what the backward pass reads: of an
    LSTM the values of its four gates, of a GRU two gates, the new state and what the state adds to it. `gates`: what the
    input adds."""
    states, cells = [None] * len(gates), [None] * len(gates)
    kept = [[None] * len(gates) for _ in range(4)]
    for t in _order(len(gates), reverse):
        state, cell, values = _forward_step(kind, gates[t], state, cell, weight, bias, projection)
        states[t], cells[t] = state, cell
        for all_steps, value in zip(kept, values, strict=False):
            all_steps[t] = value
    stacked = (gates.new_empty(0) if values[0] is None else torch.stack(values) for values in (cells, *kept))
    return (torch.stack(states), *stacked)


@torch.library.register_fake("hologram::recurrence")
def _(gates, state, cell, weight, bias, projection, kind, reverse):
    steps, batch, _ = gates.shape
    cells = gates.new_empty(0) if cell is None else gates.new_empty(steps, batch, cell.shape[-1])
    units = state.shape[-1] if cell is None else cell.shape[-1]
    sizes = (steps, batch, units) if kind in ("lstm", "gru") else (0,)
    return gates.new_empty(steps, batch, state.shape[-1]), cells, *(gates.new_empty(*sizes) for _ in range(4))


@torch.library.impl(_library, "recurrence_backward", "CompositeExplicitAutograd")
def recurrence_backward(gradient, cell_gradient, slope, keep, factors, weight, projection, reverse):
    """By step: gradients of what the gates add up, of a GRU those of the state, and what is passed on to the step before
    to the state and the cell."""
    steps = len(gradient)
    from_state = torch.zeros_like(gradient[0])
    from_cell = None if slope is None else torch.zeros_like(slope[0])
    out = [[None] * steps for _ in range(4)]
    for t in _order(steps, not reverse):
        d = gradient[t] + from_state
        if projection is not None:
            d = d @ projection
        if slope is None:
            gates = factors[t] * torch.cat([d] * (factors.shape[-1] // d.shape[-1]), -1)
        else:
            c = cell_gradient[t] + from_cell + d * slope[t]
            gates, d = factors[t] * torch.cat([c, c, c, d], -1), None
            from_cell = c * keep[t]
        from_state = gates @ weight
        if slope is None and keep is not None:
            from_state = from_state + d * keep[t]
        for values, value in zip(out, (gates, d if keep is not None else None, from_state, from_cell), strict=True):
            values[t] = value
    return tuple(factors.new_empty(0) if values[0] is None else torch.stack(values) for values in out)


@torch.library.register_fake("hologram::recurrence_backward")
def _(gradient, cell_gradient, slope, keep, factors, weight, projection, reverse):
    steps, batch, width = gradient.shape
    nothing = factors.new_empty(0)
    states = torch.empty_like(gradient) if slope is None and keep is not None else nothing
    cells = nothing if slope is None else torch.empty_like(slope)
    return torch.empty_like(factors), states, factors.new_empty(steps, batch, width), cells


# --- derivatives
def _setup(ctx, inputs, output):
    _, state, cell, weight, bias, projection, kind, reverse = inputs
    ctx.save_for_backward(state, cell, weight, projection, *output)
    ctx.choices = kind, reverse, bias is not None


def _before(first, values, reverse):
    """The value before each step."""
    first = first.unsqueeze(0)
    return torch.cat([values[1:], first] if reverse else [first, values[:-1]])


def _backward(ctx, gradient, cell_gradient, *_):
    state, cell, weight, projection, states, cells, *kept = ctx.saved_tensors
    kind, reverse, biased = ctx.choices
    before = _before(state, states, reverse)
    slope = keep = projected = None
    if kind == "lstm":
        i, f, g, o = kept
        t = torch.tanh(cells)
        slope, keep = o * (1 - t * t), f
        into_forget = _before(cell, cells, reverse) * f * (1 - f)
        factors = torch.cat([g * i * (1 - i), into_forget, i * (1 - g * g), t * o * (1 - o)], -1)
        projected = o * t
    elif kind == "gru":
        r, z, n, hn = kept
        keep, into_new = z, (1 - z) * (1 - n * n)
        factors = torch.cat([into_new * hn * r * (1 - r), (before - n) * z * (1 - z), into_new * r], -1)
    else:
        factors = 1 - states * states if kind == "tanh" else (states > 0).to(states.dtype)
    into_hidden, d, from_state, from_cell = torch.ops.hologram.recurrence_backward(
        gradient, cell_gradient if kind == "lstm" else None, slope, keep, factors, weight, projection, reverse
    )
    into_gates = into_hidden
    if kind == "gru":
        into_gates = torch.cat([into_hidden[..., : 2 * d.shape[-1]], d * into_new], -1)
    first = -1 if reverse else 0
    by_projection = None
    if projection is not None:
        by_projection = (gradient + _after(from_state, reverse)).flatten(0, 1).t() @ projected.flatten(0, 1)
    return (
        into_gates,
        from_state[first],
        from_cell[first] if kind == "lstm" else None,
        into_hidden.flatten(0, 1).t() @ before.flatten(0, 1),
        into_hidden.sum((0, 1)) if biased else None,
        by_projection,
        None,
        None,
    )


def _after(values, reverse):
    """What each step hears from the one after it: nothing, for the last."""
    nothing = torch.zeros_like(values[:1])
    return torch.cat([nothing, values[:-1]] if reverse else [values[1:], nothing])


torch.library.register_autograd("hologram::recurrence", _backward, setup_context=_setup)
