# tests/torch/random_graphs.py: random tensor graphs, built for Hologram and computed by PyTorch side by side
import functools
import math

import torch
from hypothesis import strategies as st

from hologram import _core

TORCH = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16,
         "i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8, "b8": torch.bool}
FLOATS = ("f32", "f64", "bf16", "f16")

UNARY = {"neg": torch.neg, "abs": torch.abs, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc,
         "round": torch.round, "sign": torch.sign, "sqrt": lambda x: torch.sqrt(torch.abs(x))}
MATH = {"exp": torch.exp, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf, "sin": torch.sin,
        "cos": torch.cos, "gelu": torch.nn.functional.gelu, "expm1": torch.expm1}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "min": torch.minimum, "max": torch.maximum}
COMPARE = {"lt": torch.lt, "le": torch.le, "eq": torch.eq, "ne": torch.ne}
REDUCE = {"reduce_sum": torch.sum, "reduce_max": torch.amax, "reduce_min": torch.amin}


class Pair:
    """A graph value and the tensor that PyTorch computed for it. `rough`: transcendental or summed, so compared loosely."""

    def __init__(self, value, tensor, rough=False):
        self.value, self.tensor, self.rough = value, tensor, rough

    @property
    def dtype(self):
        return self.value.dtype


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 3.4e38, 65504.0]


def input_tensor(draw, dtype, shape, special):
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    if dtype == "b8":
        return torch.rand(shape, generator=generator) < 0.5
    if dtype not in FLOATS:
        low, high = (0, 200) if dtype == "u8" else (-100, 100)
        return torch.randint(low, high, shape, generator=generator).to(TORCH[dtype])
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    if special and x.numel():
        where = torch.rand(shape, generator=generator) < 0.1
        pick = torch.randint(0, len(SPECIAL), shape, generator=generator)
        x = torch.where(where, torch.tensor(SPECIAL, dtype=torch.float64)[pick], x)
    return x.to(TORCH[dtype])


class Builder:
    """Draws operations; every step appends a Pair to `pairs`."""

    def __init__(self, draw, dtype, special):
        self.draw, self.dtype, self.special = draw, dtype, special
        self.graph, self.inputs, self.pairs = _core.Graph(), [], []
        rank = draw(st.integers(1, 3))
        self.shape = [draw(st.sampled_from([1, 2, 3, 5, 16, 17, 33, 64])) for _ in range(rank)]
        for _ in range(draw(st.integers(1, 3))):
            self.input(self.shape)

    def input(self, shape, dtype=None):
        dtype = dtype or self.dtype
        t = input_tensor(self.draw, dtype, shape, self.special)
        if len(shape) > 1 and self.draw(st.booleans()):  # another memory layout
            t = t.transpose(0, -1).contiguous().transpose(0, -1)
        v = self.graph.parameter(len(self.inputs), dtype, list(t.shape), list(t.stride()))
        self.inputs.append(t)
        pair = Pair(v, t)
        self.pairs.append(pair)
        return pair

    def pick(self, dtype):
        return self.draw(st.sampled_from([p for p in self.pairs if p.dtype == dtype]))

    def push(self, value, tensor, *sources, rough=False):
        assert [int(d) for d in value.shape] == list(tensor.shape)
        self.pairs.append(Pair(value, tensor, rough or any(s.rough for s in sources)))

    def step(self):
        getattr(self, self.draw(st.sampled_from(STEPS)))()

    def unary(self):
        p = self.pick(self.dtype)
        table = UNARY if self.dtype in FLOATS else {k: UNARY[k] for k in ("neg", "abs", "sign")}
        op = self.draw(st.sampled_from(sorted(table)))
        v = p.value
        if op == "sqrt":
            v = self.graph.elementwise("abs", [v])
        rough = op == "sqrt"  # PyTorch's is not correctly rounded everywhere
        self.push(self.graph.elementwise(op, [v]), table[op](p.tensor), p, rough=rough)

    def transcendental(self):
        if self.dtype not in FLOATS:
            return
        p = self.pick(self.dtype)
        op = self.draw(st.sampled_from(sorted(MATH)))
        self.push(self.graph.elementwise(op, [p.value]), MATH[op](p.tensor), p, rough=True)

    def binary(self):
        p = self.pick(self.dtype)
        same = [q for q in self.pairs if q.dtype == self.dtype and broadcastable(p.tensor.shape, q.tensor.shape)]
        q = self.draw(st.sampled_from(same))
        op = self.draw(st.sampled_from(sorted(BINARY)))
        result = BINARY[op](p.tensor, q.tensor)
        if result.numel() <= 20000:
            self.push(self.graph.elementwise(op, [p.value, q.value]), result, p, q)

    def compare_and_select(self):
        p = self.pick(self.dtype)
        same = [q for q in self.pairs if q.dtype == self.dtype and q.tensor.shape == p.tensor.shape and not q.rough]
        if p.rough or not same:
            return
        q = self.draw(st.sampled_from(same))
        op = self.draw(st.sampled_from(sorted(COMPARE)))
        c = self.graph.elementwise(op, [p.value, q.value])
        self.push(self.graph.elementwise("select", [c, p.value, q.value]),
                  torch.where(COMPARE[op](p.tensor, q.tensor), p.tensor, q.tensor), p, q)

    def permute(self):
        p = self.pick(self.dtype)
        axes = self.draw(st.permutations(range(p.tensor.dim())))
        self.push(self.graph.permute(p.value, list(axes)), p.tensor.permute(axes), p)

    def reshape(self):
        p = self.pick(self.dtype)
        n, shape = p.tensor.numel(), []
        for _ in range(self.draw(st.integers(0, 2))):
            d = self.draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0][:40])) if n else 1
            shape.append(d)
            n = n // d if n else 0
        shape.append(n)
        self.push(self.graph.reshape(p.value, shape), p.tensor.reshape(shape), p)

    def slice(self):
        p = self.pick(self.dtype)
        if p.tensor.numel() == 0:
            return
        starts, sizes, steps, index = [], [], [], []
        for d in p.tensor.shape:
            step = self.draw(st.integers(1, 3))
            start = self.draw(st.integers(0, d - 1))
            size = self.draw(st.integers(1, (d - start + step - 1) // step))
            starts.append(start), sizes.append(size), steps.append(step)
            index.append(slice(start, start + (size - 1) * step + 1, step))
        self.push(self.graph.slice(p.value, starts, sizes, steps), p.tensor[tuple(index)], p)

    def flip(self):
        p = self.pick(self.dtype)
        if p.tensor.dim():
            axis = self.draw(st.integers(0, p.tensor.dim() - 1))
            self.push(self.graph.flip(p.value, [axis]), p.tensor.flip(axis), p)

    def pad(self):
        p = self.pick(self.dtype)
        low = [self.draw(st.integers(0, 3)) for _ in p.tensor.shape]
        high = [self.draw(st.integers(0, 3)) for _ in p.tensor.shape]
        flat = [x for pair in reversed(list(zip(low, high))) for x in pair]
        shape = [d + a + b for d, a, b in zip(p.tensor.shape, low, high)]
        if math.prod(shape) <= 20000:
            self.push(self.graph.pad(p.value, low, shape, 1), torch.nn.functional.pad(p.tensor, flat, value=1), p)

    def concat(self):
        p = self.pick(self.dtype)
        if not p.tensor.dim():
            return
        axis = self.draw(st.integers(0, p.tensor.dim() - 1))
        fitting = [q for q in self.pairs if q.dtype == self.dtype and q.tensor.dim() == p.tensor.dim() and all(
            a == b for i, (a, b) in enumerate(zip(p.tensor.shape, q.tensor.shape)) if i != axis)]
        q = self.draw(st.sampled_from(fitting))
        result = torch.cat([p.tensor, q.tensor], axis)
        if result.numel() <= 20000:
            self.push(self.graph.concat([p.value, q.value], axis), result, p, q)

    def reduce(self):
        p = self.pick(self.dtype)
        if not p.tensor.dim() or p.tensor.numel() == 0:
            return
        op = self.draw(st.sampled_from(sorted(REDUCE)))
        axes = sorted(self.draw(st.sets(st.integers(0, p.tensor.dim() - 1), min_size=1)))
        result = REDUCE[op](p.tensor, dim=axes)
        self.push(self.graph.reduce(op, p.value, axes), result.to(p.tensor.dtype), p, rough=op == "reduce_sum")

    def normalise(self):
        """A softmax: two reductions along one axis and what follows them."""
        p = self.pick(self.dtype)
        if not p.tensor.dim() or p.tensor.numel() == 0 or self.dtype not in ("f32", "f64"):
            return
        axis = self.draw(st.integers(0, p.tensor.dim() - 1))
        g, full = self.graph, list(p.tensor.shape)
        unit = [1 if i == axis else d for i, d in enumerate(full)]
        again = lambda v: g.expand(g.reshape(v, unit), full)
        e = g.elementwise("exp", [g.elementwise("sub", [p.value, again(g.reduce("reduce_max", p.value, [axis]))])])
        self.push(g.elementwise("div", [e, again(g.reduce("reduce_sum", e, [axis]))]), torch.softmax(p.tensor, axis), p, rough=True)

    def product(self):
        p = self.pick(self.dtype)
        if p.tensor.dim() < 2 or p.tensor.dim() > 3 or self.dtype not in ("f32", "f64") or p.tensor.numel() > 5000:
            return
        n = self.draw(st.sampled_from([1, 3, 16, 40]))
        w = self.input([*p.tensor.shape[:-2], p.tensor.shape[-1], n])
        self.push(self.graph.make("dot_general", [p.value, w.value], ints=[0]), p.tensor @ w.tensor, p, w, rough=True)

    def take(self):
        p = self.pick(self.dtype)
        if not p.tensor.dim() or p.tensor.numel() == 0:
            return
        axis = self.draw(st.integers(0, p.tensor.dim() - 1))
        n, count = p.tensor.shape[axis], self.draw(st.integers(1, 5))
        index = torch.tensor([self.draw(st.integers(-n, n - 1)) for _ in range(count)])
        i = self.graph.parameter(len(self.inputs), "i64", [count], [1])
        self.inputs.append(index)
        self.push(self.graph.make("take", [p.value, i], ints=[axis]), p.tensor.index_select(axis, index % n), p)

    def take_along(self):
        """Each row by indices of its own; what was taken is added to other places of its row."""
        p = self.pick(self.dtype)
        if not p.tensor.dim() or p.tensor.numel() == 0:
            return
        *lead, n = p.tensor.shape
        axis, shape = len(lead), [*lead, self.draw(st.integers(1, 5))]
        i, j = (self.index(n, shape) for _ in range(2))
        taken = self.graph.make("take", [p.value, i.value], ints=[axis, axis])
        expected = p.tensor.gather(axis, i.tensor % n)
        self.push(taken, expected, p)
        if self.dtype in ("f32", "f64", "i64", "i32"):
            added = self.graph.make("scatter", [p.value, j.value, taken], ints=[axis, 1, axis])
            self.push(added, p.tensor.scatter_add(axis, j.tensor % n, expected), p, rough=True)

    def index(self, n, shape):
        generator = torch.Generator().manual_seed(self.draw(st.integers(0, 2**31)))
        index = torch.randint(-n, n, shape, generator=generator)
        value = self.graph.parameter(len(self.inputs), "i64", shape, contiguous(shape))
        self.inputs.append(index)
        return Pair(value, index)

    def order(self):
        """Positions in sorted rows, of the first few places or of all."""
        p = self.pick(self.dtype)
        if p.rough or not p.tensor.dim() or p.tensor.numel() == 0:
            return
        axis, descending = self.draw(st.integers(0, p.tensor.dim() - 1)), self.draw(st.booleans())
        count = self.draw(st.integers(1, p.tensor.shape[axis]))
        value = self.graph.make("argsort", [p.value], ints=[axis, int(descending)], exprs=[count])
        at = torch.argsort(p.tensor, dim=axis, descending=descending, stable=True).narrow(axis, 0, count)
        self.pairs.append(Pair(value, at))

    def cumulative(self):
        p = self.pick(self.dtype)
        if p.tensor.dim() and p.tensor.numel() and self.dtype in ("f32", "f64", "i64"):
            axis = self.draw(st.integers(0, p.tensor.dim() - 1))
            self.push(self.graph.make("cumsum", [p.value], ints=[axis]), p.tensor.cumsum(axis), p, rough=True)


STEPS = ["unary", "unary", "transcendental", "binary", "binary", "binary", "compare_and_select", "permute", "reshape",
         "slice", "flip", "pad", "concat", "reduce", "reduce", "normalise", "product", "take", "take_along", "order", "cumulative"]


def broadcastable(a, b):
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b)))


@st.composite
def graphs(draw, dtypes=("f32", "f32", "f64", "bf16", "f16", "i64", "i32", "i8"), special=True):
    """(graph, inputs, outputs): outputs are Pairs, already made outputs of the graph."""
    b = Builder(draw, draw(st.sampled_from(dtypes)), special and draw(st.booleans()))
    for _ in range(draw(st.integers(1, 14))):
        b.step()
    made = b.pairs[len(b.inputs):] or b.pairs
    outputs = [b.pairs[-1]] + draw(st.lists(st.sampled_from(made), max_size=2))
    kept = []
    for p in outputs:
        if p.value.op == "parameter" or any(p.value == q.value for q in kept):
            continue
        kept.append(p)
        b.graph.output(p.value, contiguous(p.tensor.shape))
    return b.graph, b.inputs, kept


def contiguous(shape):
    strides, n = [], 1
    for d in reversed(shape):
        strides.append(n)
        n *= max(d, 1)
    return strides[::-1]


def run(runtime, graph, inputs, count, **options):
    """The graph's outputs as tensors, computed by a runtime; options: reproducible, fast."""
    executable = _core.compile(graph, runtime, **options)
    call = _core.torch_call(executable, torch.Tensor.__dlpack_c_exchange_api__, [("tensor", i) for i in range(len(inputs))],
                            [("output", i) for i in range(count)], no_host)
    return call(list(inputs))


def no_host(*_):
    raise AssertionError("these graphs have no host operations")


@functools.cache
def runtime(backend, isa=None):
    import os

    old = os.environ.get("HOLOGRAM_CPU_ISA")
    try:
        if isa:
            os.environ["HOLOGRAM_CPU_ISA"] = isa
        return _core.Runtime(backend)
    finally:
        os.environ.pop("HOLOGRAM_CPU_ISA", None)
        if old is not None:
            os.environ["HOLOGRAM_CPU_ISA"] = old
