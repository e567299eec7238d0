# hologram/onnx/recurrent.py: RNN, GRU and LSTM
# mypy: ignore-errors
"""The product with the inputs is one for all steps. The steps are part of the graph where they are few and their number is known;
else Python repeats the graph of one, and in an archive native code does."""

import numpy as np

from hologram._jit import Jitted
from hologram.onnx.call import Array, Builder, OnnxRecorder, plain
from hologram.onnx.pointwise import softplus_of
from hologram.onnx.table import operator

MOST_UNROLLED = 32
_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_PARTS = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _activation(name, alpha, beta):
    name = name.lower()
    plain = {"tanh": "tanh", "sigmoid": "sigmoid"}
    if name in plain:
        return lambda b, x: b.ew(plain[name], x)
    forms = {
        "relu": lambda b, x: b.ew("max", x, 0),
        "affine": lambda b, x: b.add(b.mul(x, 1.0 if alpha is None else alpha), 0.0 if beta is None else beta),
        "leakyrelu": lambda b, x: b.where(b.lt(x, 0), b.mul(x, 0.01 if alpha is None else alpha), x),
        "thresholdedrelu": lambda b, x: b.where(b.lt(b.number(x.dtype, 1.0 if alpha is None else alpha, x.shape), x), x, 0),
        "scaledtanh": lambda b, x: b.mul(b.ew("tanh", b.mul(x, 1.0 if beta is None else beta)), 1.0 if alpha is None else alpha),
        "hardsigmoid": lambda b, x: b.ew("min", b.ew("max", b.add(b.mul(x, alpha or 0.2), 0.5 if beta is None else beta), 0), 1),
        "elu": lambda b, x: b.where(b.lt(x, 0), b.mul(b.ew("expm1", b.ew("min", x, 0)), 1.0 if alpha is None else alpha), x),
        "softsign": lambda b, x: b.div(x, b.add(b.ew("abs", x), 1)),
        "softplus": softplus_of,
    }  # fmt: skip
    if name not in forms:
        raise NotImplementedError(f"from_onnx: activation {name!r} is not supported")
    return forms[name]


class Cell:
    """One step: states from the step's part of the product with the inputs, the states before, and weights."""

    def __init__(self, call, kind, activations, hidden):
        self.kind, self.activations, self.hidden = kind, activations, hidden
        self.clip = call.attr("clip")
        self.coupled = bool(call.attr("input_forget", 0))
        self.before_reset = bool(call.attr("linear_before_reset", 0))

    def run(self, tracer, args):
        """For steps that Python repeats: (gates, weights…, states…)"""
        gates, weight, bias, peephole, length, at, *states = args
        b = Builder(tracer)
        nodes = [None if v is None else v.value for v in (gates, weight, bias, peephole, length, at)]
        made = self.step(b, *nodes, [s.value for s in states])
        return [Array(tracer, v) for v in made]

    def step(self, b, gates, weight, bias, peephole, length, at, states):
        """[what is given out, states…] of one step; past its length a sequence gives 0 and keeps its states."""
        new = getattr(self, self.kind.lower())(b, gates, weight, bias, peephole, *states)
        out = new[0]
        if length is not None:
            going = b.reshape(b.ew("lt", at, length), [out.shape[0], 1])
            new = [b.where(going, v, old) for v, old in zip(new, states)]
            out = b.where(going, out, b.number(out.dtype, 0, out.shape))
        return [out, *new]

    def _limited(self, b, x):
        if not self.clip:
            return x
        return b.ew("max", b.ew("min", x, self.clip), -self.clip)

    def _parts(self, b, x, count):
        return [b.slice_axis(x, 1, i * self.hidden, self.hidden) for i in range(count)]

    def rnn(self, b, gates, weight, bias, peephole, h):
        total = b.add(gates, b.dot(h, weight))
        total = total if bias is None else b.add(total, bias)
        return [self.activations[0](b, self._limited(b, total))]

    def gru(self, b, gates, weight, bias, peephole, h):
        f, g = self.activations
        z, r, n = self._parts(b, gates, 3)
        if self.before_reset:
            inner = b.dot(h, weight)
            inner = inner if bias is None else b.add(inner, bias)
            hz, hr, hn = self._parts(b, inner, 3)
            z, r = f(b, self._limited(b, b.add(z, hz))), f(b, self._limited(b, b.add(r, hr)))
            n = g(b, self._limited(b, b.add(n, b.mul(r, hn))))
        else:
            wz = b.slice_axis(weight, 1, 0, 2 * self.hidden)
            wn = b.slice_axis(weight, 1, 2 * self.hidden, self.hidden)
            inner = b.dot(h, wz)
            if bias is not None:
                inner = b.add(inner, b.slice_axis(bias, 1, 0, 2 * self.hidden))
            hz, hr = self._parts(b, inner, 2)
            z, r = f(b, self._limited(b, b.add(z, hz))), f(b, self._limited(b, b.add(r, hr)))
            last = b.dot(b.mul(r, h), wn)
            if bias is not None:
                last = b.add(last, b.slice_axis(bias, 1, 2 * self.hidden, self.hidden))
            n = g(b, self._limited(b, b.add(n, last)))
        return [b.add(b.mul(b.sub(b.number(z.dtype, 1), z), n), b.mul(z, h))]

    def lstm(self, b, gates, weight, bias, peephole, h, c):
        f, g, k = self.activations
        total = b.add(gates, b.dot(h, weight))
        total = total if bias is None else b.add(total, bias)
        i, o, forget, cell = self._parts(b, total, 4)
        pi = po = pf = None
        if peephole is not None:
            pi, po, pf = self._parts(b, peephole, 3)
            i, forget = b.add(i, b.mul(pi, c)), b.add(forget, b.mul(pf, c))
        i = f(b, self._limited(b, i))
        forget = b.sub(b.number(i.dtype, 1), i) if self.coupled else f(b, self._limited(b, forget))
        now = b.add(b.mul(forget, c), b.mul(i, g(b, self._limited(b, cell))))
        if po is not None:
            o = b.add(o, b.mul(po, now))
        return [b.mul(f(b, self._limited(b, o)), k(b, now)), now]


@operator("RNN", "GRU", "LSTM")
def recurrent(call, x, w, r, bias=None, lengths=None, *states):
    kind = call.node_of_model.op
    first = states[0] if states else None
    cell = states[1] if len(states) > 1 else None
    peephole = states[2] if len(states) > 2 else None
    given = [None if v is None else call.lift(v) for v in (x, w, r, bias, lengths, first, cell, peephole)]
    hidden, directions = given[2].shape[-1], given[1].shape[0]
    names = call.attr("activations") or list(_DEFAULTS[kind]) * directions
    alphas, betas = list(call.attr("activation_alpha", [])), list(call.attr("activation_beta", []))
    each = len(_DEFAULTS[kind])
    functions = [
        _activation(n, alphas[i] if i < len(alphas) else None, betas[i] if i < len(betas) else None) for i, n in enumerate(names)
    ]
    made = []
    for d in range(directions):
        backward = call.attr("direction", "forward") == "reverse" or d == 1
        step = Cell(call, kind, functions[d * each : d * each + each], hidden)
        made.append([Array(call.tracer, v) for v in _direction(call, step, given, d, backward)])
    return _joined(call, made)


def _direction(call, cell, given, d, backward):
    """[results of all steps, states behind the last] of one direction."""
    b = call.b
    x, w, r, bias, lengths, first, memory, peephole = (None if v is None else v.value for v in given)
    batch_first = call.attr("layout", 0)
    if batch_first:
        x = b.permute(x, [1, 0, 2])
        first, memory = (None if v is None else b.permute(v, [1, 0, 2]) for v in (first, memory))
    w, r, bias, peephole, first, memory = (None if v is None else b.select_axis(v, 0, d) for v in (w, r, bias, peephole, first, memory))
    lengths = None if lengths is None else b.cast(lengths, "i64")
    nothing = b.number(x.dtype, 0, [x.shape[1], cell.hidden])
    before = [nothing if v is None else v for v in ((first, memory) if cell.kind == "LSTM" else (first,))]
    y, after = _layer(call, cell, x, w, r, bias, peephole, lengths, before, backward)
    return [y, *after]


def _joined(call, made):
    b, batch_first = call.b, call.attr("layout", 0)
    y, *final = (
        b.concat([b.unsqueeze(v.value, axis) for v in column], axis) for axis, column in zip((1, 0, 0), zip(*made))
    )
    if batch_first:
        y, final = b.permute(y, [2, 0, 1, 3]), [b.permute(v, [1, 0, 2]) for v in final]
    return (y, *final)


def _layer(call, cell, x, w, r, bias, peephole, lengths, states, backward):
    """(results of all steps, states behind the last) in one direction."""
    b = call.b
    steps, batch, width = x.shape
    gates = b.reshape(b.dot(b.reshape(x, [steps * batch, width]), b.permute(w, [1, 0])), [steps, batch, w.shape[0]])
    inner = None
    if bias is not None:
        half = w.shape[0]
        outer, inner = (b.reshape(b.slice(bias, [i * half], [half]), [1, half]) for i in range(2))
        gates = b.add(gates, b.reshape(outer, [1, 1, half]))
    peephole = None if peephole is None else b.reshape(peephole, [1, peephole.shape[0]])
    weight = b.permute(r, [1, 0])
    if isinstance(steps, int) and steps <= MOST_UNROLLED:
        rows = [None] * steps
        for t in reversed(range(steps)) if backward else range(steps):
            at = None if lengths is None else b.number("i64", t)
            rows[t], *states = cell.step(b, b.select_axis(gates, 0, t), weight, inner, peephole, lengths, at, states)
        return b.concat([b.unsqueeze(v, 0) for v in rows], 0), states
    if lengths is None and hasattr(call.tracer, "repeat"):
        return _repeated(b, call.tracer.repeat(cell, gates, (weight, inner, peephole), states, backward), backward)
    fixed = [None if v is None else v.shape for v in (weight, inner, peephole, lengths)]
    shapes = [gates.shape[1:], *fixed, [], *(v.shape for v in states)]
    declared = tuple(s and [n if isinstance(n, int) else None for n in s] for s in shapes)
    function = Jitted(cell, False, False, recorder=type("StepRecorder", (OnnxRecorder,), {"declared": declared}))

    def run(gates, weight, inner, peephole, lengths, *states):
        rows = [None] * len(gates)
        for t in reversed(range(len(gates))) if backward else range(len(gates)):
            at = None if lengths is None else np.asarray(t, np.int64)
            rows[t], *states = function(gates[t], weight, inner, peephole, lengths, at, *states)
        return [np.stack(rows), *states]

    operands = [v if v is None else Array(call.tracer, v) for v in (gates, weight, inner, peephole, lengths, *states)]
    sizes = [list(v.shape) for v in (*operands[:1], *operands[5:])]  # of the graph before, whose symbols the next one has
    y, *after = call.tracer.host(f"onnx.{cell.kind}", run, tuple(operands), {})
    call.b = Builder(call.tracer)
    made = [(y, [*sizes[0][:2], cell.hidden]), *zip(after, sizes[1:])]
    return _sized(call, *made[0]), [_sized(call, v, shape) for v, shape in made[1:]]


def _repeated(b, sequences, backward):
    """As _layer, from the states behind each step."""
    first = 0 if backward else sequences[0].shape[0] - 1
    final = [b.reshape(b.slice(v, [first, 0, 0], [1, *v.shape[1:]]), list(v.shape[1:])) for v in sequences]
    return sequences[0], final


def _sized(call, x, sizes):
    """What a step gave, with the sizes that it is known to have."""
    if any(n != m for n, m in zip(x.shape, sizes)):  # guarded
        raise ValueError(f"results of sizes {x.shape}, expected {sizes}")
    return call.tracer.settle(x.value, plain(sizes))
