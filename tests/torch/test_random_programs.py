# tests/torch/test_random_programs.py: random PyTorch programs over run-time sizes, beside eager
"""Each program is compiled once with `dynamic=True` and called with several sizes, 0, 1 and large ones among them.
HOLOGRAM_PROGRAMS_SEED repeats a seed that a failure prints (else it is the commit's); HOLOGRAM_PROGRAMS is how many programs run (12)."""

import os
import random

import pytest
import same_memory
import torch
from harness import BACKEND, seed_of

SIZES = (0, 1, 2, 3, 7, 16, 33, 150)


class Program:
    """A random program over tensors of shapes made of two symbols; source code, so that Dynamo reads it and a failure shows it."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.lines, self.tensors = [], []  # (name, shape: tuple of "m", "n" and numbers)
        self.inputs = [self.given(shape) for shape in self.shapes()]
        self.written = self.draw.random() < 0.4
        for _ in range(self.draw.randint(3, 9)):
            getattr(self, self.draw.choice(STEPS))()
        results = [self.tensors[-1][0], *(self.pick()[0] for _ in range(2))]
        results += self.draw.choices(results, k=self.draw.randrange(3))  # some twice, or with views of them
        body = [*self.lines, "return " + ", ".join(self.draw.choice(RETURNED).format(name) for name in results) + ","]
        names = ", ".join(name for name, _ in self.inputs)
        self.source = f"def program({names}):\n" + "".join(f"    {line}\n" for line in body)

    def shapes(self):
        kinds = [("m", "n"), ("n", "m"), ("n",), ("m", 1), (4, "m"), ("n", 8)]
        return [self.draw.choice(kinds) for _ in range(self.draw.randint(2, 3))] + [("m", "n")]

    def given(self, shape):
        self.tensors.append((f"x{len(self.tensors)}", shape))
        return self.tensors[-1]

    def add(self, shape, text):
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.tensors.append((name, tuple(shape)))

    def pick(self, wanted=lambda shape: True):
        return self.draw.choice([t for t in self.tensors if wanted(t[1])] or [self.tensors[0]])

    def unary(self):
        name, shape = self.pick()
        self.add(shape, f"torch.{self.draw.choice(('tanh', 'relu', 'sin', 'neg', 'abs'))}({name})")

    def binary(self):
        x, shape = self.pick()
        y, _ = self.pick(lambda s: s == shape)
        self.add(shape, f"{x} {self.draw.choice('+-*')} {y}")

    def view(self):
        name, shape = self.pick(lambda s: len(s) == 2)
        if len(shape) != 2:
            return
        a, b = shape
        kind = self.draw.randrange(4)
        if kind == 0:
            self.add((b, a), f"{name}.t()")
        elif kind == 1:
            self.add((a, 1, b), f"{name}.unsqueeze(1)")
        elif kind == 2:
            self.add(shape, f"{name}.flip({self.draw.randrange(2)})")
        else:
            self.add(shape, f"{name}.t().contiguous().t()")

    def reduce(self):
        name, shape = self.pick(lambda s: len(s) > 1)
        axis = self.draw.randrange(len(shape))
        self.add(shape[:axis] + shape[axis + 1 :], f"{name}.sum({axis})")

    def softmax(self):
        name, shape = self.pick()
        if shape:
            self.add(shape, f"torch.softmax({name}, {self.draw.randrange(len(shape))})")

    def product(self):
        x, a = self.pick(lambda s: len(s) == 2)
        y, b = self.pick(lambda s: len(s) == 2 and len(a) == 2 and s[0] == a[1])
        if len(a) == 2 and len(b) == 2 and b[0] == a[1]:
            self.add((a[0], b[1]), f"{x} @ {y}")

    def join(self):
        x, shape = self.pick(lambda s: s)
        y, _ = self.pick(lambda s: s == shape)
        if shape:
            self.add(shape, f"torch.cat([{x}, {y}], 0).unflatten(0, (2, {x}.shape[0])).mean(0)")

    def order(self):
        name, shape = self.pick(lambda s: s)
        if shape:
            self.add(shape, f"{name}.sort(-1).values")

    def scan(self):
        name, shape = self.pick(lambda s: s)
        if shape:
            self.add(shape, f"{name}.cumsum({self.draw.randrange(len(shape))})")

    def mutate(self):
        """A clone, and where the program may, an input, is written through a view of it."""
        x, shape = self.pick(lambda s: len(s) == 2)
        y, _ = self.pick(lambda s: s == shape)
        target = f"v{len(self.lines)}"
        own = self.written and self.draw.random() < 0.5 and any(x == name for name, _ in self.inputs)
        if len(shape) == 2 and not own:
            self.add(shape, f"{x}.clone()")
        else:
            target = x
        if len(shape) == 2:
            self.lines.append(f"{target}.t().{self.draw.choice(('add_', 'mul_', 'copy_'))}(torch.tanh({y}).t())")

    def copy(self):
        name, shape = self.pick()
        self.add(shape, self.draw.choice(COPIES).format(name))

    def host(self):
        """A value that PyTorch computes."""
        name, shape = self.pick(lambda s: len(s) == 2)
        if len(shape) == 2:
            self.add((shape[1], shape[1]), f"torch.linalg.matrix_exp(torch.tanh({name}.t() @ {name}) * 0.01)")

    def interrupt(self):
        self.lines.append("torch._dynamo.graph_break()")

    def function(self):
        space = {"torch": torch}
        exec(self.source, space)  # noqa: S102
        return space["program"]


STEPS = ("unary", "unary", "binary", "binary", "view", "view", "reduce", "softmax", "product", "join", "order", "scan",
         "mutate", "copy", "copy", "host", "interrupt")  # fmt: skip
COPIES = ("{}.clone()", "{}.contiguous()", "torch.cat([{}])", "torch.empty_like({0}).copy_({0})", "{}.to(torch.float32, copy=True)",
          "{} * 1", "{} - 0")  # fmt: skip
RETURNED = ("{}", "{}", "{}.unsqueeze(0)", "{0}.expand(2, *{0}.shape)", "{}.detach()", "{}.clone()", "{} + 0.0")


def calls(draw):
    """Sizes of m and n: ordinary ones first, so that they are symbols."""
    return [(5, 12), (9, 4), *((draw.choice(SIZES), draw.choice(SIZES)) for _ in range(3))]


def ran(function, inputs, gradients):
    """→ copies of the inputs, what the function makes of them, and facts of that"""
    leaves = [x.clone().requires_grad_(gradients) for x in inputs]
    run = same_memory.Run(*leaves)
    out = function(*leaves)
    return leaves, out, run.returned(out)


def fails(function, inputs, gradients, error) -> bool:
    try:
        ran(function, inputs, gradients)
    except type(error) as own:
        return str(own) == str(error)
    return False


def check(seed: int):
    program = Program(seed)
    function, draw = program.function(), random.Random(seed + 1)
    gradients = not program.written and draw.random() < 0.6
    torch._dynamo.reset()
    compiled, traced = (torch.compile(function, backend=b, dynamic=True) for b in (BACKEND, "aot_eager"))
    for m, n in calls(draw):
        torch.manual_seed(seed)
        shapes = [[{"m": m, "n": n}.get(d, d) for d in shape] for _, shape in program.inputs]
        inputs = [torch.randn(shape) for shape in shapes]
        results, facts = [], []
        for call in (function, compiled):
            try:
                leaves, out, seen = ran(call, inputs, gradients)
            except (RuntimeError, AssertionError) as error:
                if call is compiled and not fails(traced, inputs, gradients, error):
                    raise
                break  # eager refuses these sizes, or PyTorch's own tracing does
            facts.append(seen)
            given = [o for o in out if o.requires_grad]
            if given:
                torch.autograd.backward(given, [torch.ones_like(o) for o in given])
            # Of what is read for a value that nothing wants, eager has no gradient, graphs have zeros.
            gradient = lambda x: torch.zeros_like(x) if x.grad is None else x.grad
            results.append([*(o.detach() for o in out), *map(gradient, leaves), *(x.detach() for x in leaves)])
        for wanted, got in zip(*results) if len(results) == 2 else ():
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4, equal_nan=True,
                                       msg=lambda text, at=(m, n): f"m, n = {at}: {text}")  # fmt: skip
        if len(facts) == 2 and same_memory.differences(facts[1], facts[0]):  # unless what differs is as aot_eager has it
            found = same_memory.differences(facts[1], facts[0], ran(traced, inputs, gradients)[2])
            assert not found, f"m, n = {(m, n)}: " + "\n".join(found)


def test_random_programs():
    count = int(os.environ.get("HOLOGRAM_PROGRAMS", 12))
    first = seed_of("HOLOGRAM_PROGRAMS_SEED")
    for seed in range(first, first + count):
        try:
            check(seed)
        except Exception as error:
            pytest.fail(f"HOLOGRAM_PROGRAMS_SEED={seed}: {error}\n{Program(seed).source}")
