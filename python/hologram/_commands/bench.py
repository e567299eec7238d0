"""``hologram bench``: a self-test in seconds: how near this installation comes to what the machine can do."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hologram import _core, ops
from hologram._commands.common import Failure, add, show

# One parallel axis, so that a program's symbol is the number of elements.
_HEAD = """atlas block 1
symbols 1
{buffers}loop parallel 1 lane i0
axis i0 parallel [s0]
stage point
"""
_BODIES = {
    "add": (2, "  %0 = load.f32 b0[i0]\n  %1 = load.f32 b1[i0]\n  %2 = add.f32 %0, %1\n  store.f32 b2[i0], %2\n"),
    "mul": (2, "  %0 = load.f32 b0[i0]\n  %1 = load.f32 b1[i0]\n  %2 = mul.f32 %0, %1\n  store.f32 b2[i0], %2\n"),
    "exp": (1, "  %0 = load.f32 b0[i0]\n  %1 = exp.f32 %0\n  store.f32 b1[i0], %1\n"),
    "tanh": (1, "  %0 = load.f32 b0[i0]\n  %1 = tanh.f32 %0\n  store.f32 b1[i0], %1\n"),
}
_CHAIN = 32  # multiply-adds in each of two chains per element


def _fma_body() -> str:
    """x and y by two chains that nothing but arithmetic limits: x -> x y0 + y0, y -> y x0 + x0."""
    lines = ["  %0 = load.f32 b0[i0]", "  %1 = load.f32 b1[i0]"]
    x, y, last = 0, 1, 2
    for _ in range(_CHAIN):
        lines += [f"  %{last} = fma.f32 %{x}, %1, %1", f"  %{last + 1} = fma.f32 %{y}, %0, %0"]
        x, y, last = last, last + 1, last + 2
    return "\n".join([*lines, f"  %{last} = add.f32 %{x}, %{y}", f"  store.f32 b2[i0], %{last}"]) + "\n"


def _program(inputs: int, body: str) -> bytes:
    lines = [f"buffer b{k} f32 {'read' if k < inputs else 'write'} [s0]\n" for k in range(inputs + 1)]
    return bytes(_core.atlas.assemble((_HEAD.format(buffers="".join(lines)) + body).encode()))


def _seconds(call: Callable[[], object], rounds: int) -> float:
    """The fastest of the rounds: other work on the machine only ever adds."""
    call()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


class _Bench:
    def __init__(self, elements: int, rounds: int) -> None:
        self.elements, self.rounds = elements, rounds
        self.runtime = _core.Runtime("cpu")
        self.most = self.runtime.num_threads

    def _block(self, inputs: int, body: str, arrays: list[Any]) -> Callable[[], object]:
        program, raw, sizes = _program(inputs, body), [a.view(np.uint8) for a in arrays], [len(arrays[0])]
        return lambda: _core.atlas.run_block(program, raw, sizes, self.runtime)

    def _on(self, threads: int, call: Callable[[], object]) -> float:
        self.runtime.num_threads = threads
        return _seconds(call, self.rounds)

    def copy(self) -> dict[str, float]:
        """GB/s read and written: the best of NumPy's copy and ours, on one thread and on all."""
        source, target = np.ones(self.elements, np.float32), np.empty(self.elements, np.float32)
        ours = self._block(1, "  %0 = load.f32 b0[i0]\n  store.f32 b1[i0], %0\n", [source, target])
        one = min(_seconds(lambda: np.copyto(target, source), self.rounds), self._on(1, ours))
        return {"one": 8e-9 * self.elements / one, "all": 8e-9 * self.elements / min(one, self._on(self.most, ours))}

    def fma(self) -> dict[str, float]:
        """GFLOP/s of multiply-adds in registers."""
        n = 1 << 18
        x, y = np.full(n, 0.25, np.float32), np.full(n, 0.5, np.float32)
        out = np.empty(n, np.float32)
        call = self._block(2, _fma_body(), [x, y, out])
        work = 1e-9 * n * _CHAIN * 4
        result = {"one": work / self._on(1, call), "all": work / self._on(self.most, call)}
        a, b = 0.25, 0.5
        for _ in range(_CHAIN):
            a, b = a * 0.5 + 0.5, b * 0.25 + 0.25
        if not np.allclose(out, a + b, rtol=1e-5):
            raise Failure("bench: fma is wrong on this machine")
        return result

    def operation(self, name: str) -> dict[str, float]:
        inputs, body = _BODIES[name]
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(self.elements).astype(np.float32) for _ in range(inputs)]
        out, expected = np.empty(self.elements, np.float32), np.empty(self.elements, np.float32)
        reference: Any = np.multiply if name == "mul" else getattr(np, name)
        call = self._block(inputs, body, [*arrays, out])
        call()
        reference(*arrays, out=expected)
        if not np.allclose(out, expected, rtol=1e-6, atol=0):
            raise Failure(f"bench: {name} is wrong on this machine")
        one, everybody = self._on(1, call), self._on(self.most, call)
        theirs = _seconds(lambda: reference(*arrays, out=expected), self.rounds)
        moved = 4e-9 * self.elements * (inputs + 1)
        return {"gb_per_s": moved / everybody, "times_one_thread": one / everybody, "times_numpy": theirs / everybody}

    def product(self) -> dict[str, float]:
        m = 768
        a, b = np.random.default_rng(0).standard_normal((2, m, m)).astype(np.float32)
        with _core.Executor("cpu") as executor:
            x, y, z = executor.from_numpy(a.ravel()), executor.from_numpy(b.ravel()), executor.allocate(m * m)
            seconds = _seconds(lambda: ops.gemm(executor, x, y, z, m, m, m), self.rounds)
            if not np.allclose(z.to_numpy().reshape(m, m), a @ b, rtol=1e-3, atol=1e-3):
                raise Failure("bench: gemm is wrong on this machine")
        return {"gflop_per_s": 2e-9 * m**3 / seconds}

    def call(self) -> dict[str, float]:
        """Nanoseconds of one addition of 1,024 float32 from Python, results given."""
        a, b = np.random.default_rng(0).standard_normal((2, 1024)).astype(np.float32)
        out, many = np.empty_like(a), range(1000)
        with _core.Executor("cpu") as executor:
            x, y, z = executor.from_numpy(a), executor.from_numpy(b), executor.allocate(1024)

            def ours() -> None:
                for _ in many:
                    ops.vector_add(executor, x, y, z)

            def theirs() -> None:
                for _ in many:
                    np.add(a, b, out=out)

            seconds, numpy_seconds = _seconds(ours, self.rounds), _seconds(theirs, self.rounds)
            if not np.array_equal(z.to_numpy(), out):
                raise Failure("bench: vector_add is wrong on this machine")
        return {"nanoseconds": seconds * 1e6, "times_numpy": numpy_seconds / seconds}


def _bench(args: argparse.Namespace) -> int:
    if args.elements < 1 or args.rounds < 1:
        raise Failure("bench: --elements and --rounds must be at least 1")
    bench = _Bench(args.elements, args.rounds)
    copy, fma, product, call = bench.copy(), bench.fma(), bench.product(), bench.call()
    product["of_fma"] = product["gflop_per_s"] / fma["all"]
    operations = {}
    for name in _BODIES:
        row = bench.operation(name)
        operations[name] = {**row, "of_copy": row["gb_per_s"] / copy["all"]}
    if args.json:
        limits = {"copy_gb_per_s": copy, "fma_gflop_per_s": fma}
        show({"threads": bench.most, "elements": args.elements, "limits": limits, "operations": operations, "product": product, "call": call}, True)
        return 0
    print(f"{bench.most} threads; {_core.host_cpu()['isa']}; {args.elements} float32 per array")
    print(f"  a copy moves       {copy['one']:7.1f} GB/s on one thread, {copy['all']:.1f} on all")
    print(f"  multiply-adds do   {fma['one']:7.1f} GFLOP/s on one thread, {fma['all']:.1f} on all")
    print(f"  a product does     {product['gflop_per_s']:7.1f} GFLOP/s, {product['of_fma']:.0%} of those on all")
    print(f"  one small addition {call['nanoseconds']:7.1f} ns from Python, {call['times_numpy']:.2f} times NumPy's speed")
    for name, row in operations.items():
        print(
            f"  {name:<18} {row['gb_per_s']:7.1f} GB/s, {row['of_copy']:.0%} of the copy,"
            f" {row['times_one_thread']:.2f} times one thread, {row['times_numpy']:.2f} times NumPy's speed"
        )
    return 0


def register(commands: Any) -> None:
    """Adds the command to the command line."""
    text = "Time single operations against what this machine can do: a copy, multiply-adds, one call, its threads, and NumPy."
    command = add(commands, "bench", _bench, text)
    command.add_argument("--elements", type=int, default=1 << 22, metavar="N", help="float32 per array (default: 4,194,304)")
    command.add_argument("--rounds", type=int, default=11, metavar="N", help="of which the fastest counts (default: 11)")
