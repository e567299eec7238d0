# hologram_torch/lowering/recurrent.py: recurrent layers as a graph of one step that native code repeats
import torch
from hologram import _core

from .. import counters, runtimes
from ..graph import dtypes
from ..graph.builder import Builder, contiguous_strides
from . import Unsupported, lower


class StepLoop:
    """The graph of one step and its run over all of them, as a host call of the graph around it.

    gives: the step's results; roles, static: of its parameters; options: (reproducible, fast)."""

    def __init__(self, name, graph, gives, roles, static, options, dtype, descending):
        self.name, self.dtype, self.descending, self.gives = name, dtype, descending, gives
        self.graph, self.roles, self.static, self.options = graph, roles, static, options
        self.results = []  # filled by the translator; what comes out is as promised there
        self._call = None

    def __getstate__(self):
        return vars(self) | {"_call": None}

    def ready(self):
        """Compiles the step, once."""
        if self._call is None:
            executable = _core.compile(self.graph, runtimes.runtime(), self.static, *self.options)
            counters.count_kernels(executable.report)
            exchange = torch.Tensor.__dlpack_c_exchange_api__
            self._call = _core.step_loop(executable, exchange, self.roles, runtimes.thread_count())

    def __call__(self, operands, sizes, strides):
        operands = [x.contiguous() for x in operands]
        outputs = self._call.run(operands, operands[0].shape[0], self.descending)
        outputs += [operands[0].new_empty(0, dtype=self.dtype)] * (len(self.results) - len(outputs))
        return [outputs[path[0]] for path, _, _ in self.results]


class _Step(Builder):
    """The graph of one step. Each operand is one of the loop: 'each' reads one place per step, 'carry' k what the step
    before gave as result k (the operand itself first), 'fixed' the same every time."""

    def __init__(self, dtype, batch):
        super().__init__()
        self.dtype = dtype
        self.batch = batch if type(batch) is int else self.graph.new_symbol()
        self.roles, self.operands, self.static, self.gives = [], [], [], 0

    def operand(self, value, role, carried=-1):
        """A parameter for `value`, a value of the graph around; None stays None."""
        if value is None:
            return None
        shape = value.shape[1:] if role == "each" else value.shape
        if role != "fixed":
            shape = [self.batch, *shape[1:]]
        if any(type(n) is not int for n in shape[1:]) or value.dtype != self.dtype:
            raise Unsupported("recurrent layers of symbolic width or of several dtypes")
        number = len(self.roles)
        self.roles.append((role, carried))
        self.operands.append(value)
        self.static.append(role == "fixed")
        return self.graph.parameter(number, self.dtype, shape, contiguous_strides(shape))

    def linear(self, x, weight, bias=None):
        """x @ weightᵀ + bias, wide."""
        y = self.dot(x, self.permute(weight, [1, 0]), wide=True)
        return y if bias is None else self.add(y, self.wide(bias))

    def wide(self, x):
        return self.cast(x, dtypes.compute(self.dtype))

    def chunks(self, x, n):
        size = x.shape[1] // n
        return [self.slice_axis(x, 1, i * size, size) for i in range(n)]

    def result(self, x):
        self.gives += 1
        self.graph.output(self.cast(x, self.dtype), contiguous_strides(x.shape))

    def call(self, c, name, val, descending):
        """→ the values of the host call in the graph `c` around."""
        static = [fixed and c.options.pack_weights for fixed in self.static]
        options = (c.options.reproducible, c.options.fast)
        loop = StepLoop(name, self.graph, self.gives, self.roles, static, options, dtypes.TORCH[self.dtype], descending)
        return c.loop(loop, self.operands, val)


@lower("hologram.recurrence.default")
def recurrence(c, gates, state, cell, weight, bias, projection, kind, reverse):
    if gates.dtype not in dtypes.FLOATS:
        raise Unsupported("recurrent layers of this dtype")
    s = _Step(gates.dtype, gates.shape[1])
    x = s.wide(s.operand(gates, "each"))
    h = s.operand(state, "carry", 0)
    before = s.operand(cell, "carry", 1)
    w, b, p = (s.operand(v, "fixed") for v in (weight, bias, projection))
    hidden = s.linear(h, w, b)
    if kind == "gru":
        (xr, xz, xn), (hr, hz, hn) = s.chunks(x, 3), s.chunks(hidden, 3)
        r, z = s.ew("sigmoid", s.add(xr, hr)), s.ew("sigmoid", s.add(xz, hz))
        n = s.ew("tanh", s.add(xn, s.mul(r, hn)))
        s.result(s.add(n, s.mul(z, s.sub(s.wide(h), n))))
        kept = r, z, n, hn
    elif kind == "lstm":
        i, f, g, o = s.chunks(s.add(x, hidden), 4)
        i, f, o = (s.ew("sigmoid", v) for v in (i, f, o))
        g = s.ew("tanh", g)
        now = s.add(s.mul(f, s.wide(before)), s.mul(i, g))
        out = s.mul(o, s.ew("tanh", now))
        s.result(out if p is None else s.linear(s.cast(out, s.dtype), p))
        s.result(now)
        kept = i, f, g, o
    else:
        total = s.add(x, hidden)
        s.result(s.ew("tanh", total) if kind == "tanh" else s.ew("max", total, 0))
        kept = ()
    places = [0, 1] if kind == "lstm" else [0]
    if kept and any(c.is_read(k) for k in range(2, 6)):  # by a backward pass
        places += range(2, 6)
        for value in kept:
            s.result(value)
    found = dict(zip(places, s.call(c, f"recurrence ({kind})", [c.out[k] for k in places], reverse), strict=True))
    empty = c.number(gates.dtype, 0, [0])
    return tuple(found.get(k, None if kept and k > 1 else empty) for k in range(6))


@lower("hologram.recurrence_backward.default")
def recurrence_backward(c, gradient, cell_gradient, slope, keep, factors, weight, projection, reverse):
    if gradient.dtype not in dtypes.FLOATS:
        raise Unsupported("recurrent layers of this dtype")
    s = _Step(gradient.dtype, gradient.shape[1])

    def nothing(width):
        return c.number(gradient.dtype, 0, [gradient.shape[1], width])

    d = s.wide(s.operand(gradient, "each"))
    inner = factors.shape[2] // (4 if slope is not None else 1)
    d = s.add(d, s.wide(s.operand(nothing(gradient.shape[2]), "carry", 1)))
    w, p = s.operand(weight, "fixed"), s.operand(projection, "fixed")
    if p is not None:
        d = s.wide(s.dot(s.cast(d, s.dtype), p))
    factor = s.wide(s.operand(factors, "each"))
    passed = s.operand(keep, "each")
    if slope is not None:
        into_cell = s.add(s.wide(s.operand(cell_gradient, "each")), s.mul(d, s.wide(s.operand(slope, "each"))))
        into_cell = s.add(into_cell, s.wide(s.operand(nothing(inner), "carry", 2)))
        gates = s.mul(factor, s.concat([into_cell] * 3 + [d], 1))
        from_state = s.wide(s.dot(s.cast(gates, s.dtype), w))
        for value in (gates, from_state, s.mul(into_cell, s.wide(passed))):
            s.result(value)
        into, *others = s.call(c, "recurrence backward", [c.out[0], *c.out[2:]], not reverse)
        return (into, c.number(gradient.dtype, 0, [0]), *others)
    gates = s.mul(factor, s.concat([d] * (factors.shape[2] // d.shape[1]), 1))
    from_state = s.wide(s.dot(s.cast(gates, s.dtype), w))
    s.result(gates)
    s.result(from_state if passed is None else s.add(from_state, s.mul(d, s.wide(passed))))
    empty = c.number(gradient.dtype, 0, [0])
    if passed is None:
        into, back = s.call(c, "recurrence backward", [c.out[0], c.out[2]], not reverse)
        return into, empty, back, empty
    s.result(d)
    into, back, states = s.call(c, "recurrence backward", [c.out[0], c.out[2], c.out[1]], not reverse)
    return into, states, back, empty
