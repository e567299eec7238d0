"""``hologram bench``: a self-test in seconds: how near this installation comes to what the machine can do."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hologram import _core, ops
from hologram._commands.common import Failure, add, show

ffi = _core.ffi

_OPERATIONS = {"add": 2, "mul": 2, "exp": 1, "tanh": 1}  # with their numbers of operands
# Chains of multiply-adds per element, and their length: enough side by side to keep every unit busy. On a device they are longer:
# its operands come from memory.
_CHAINS, _LENGTH, _DEVICE_LENGTH = 8, 12, 48


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
    def __init__(self, executor: Any, elements: int, rounds: int) -> None:
        self.executor, self.elements, self.rounds = executor, elements, rounds
        self.backend = executor.backend
        self.device = self.backend != "cpu"
        self.runtime = _core.shared_runtime()
        self.most = self.runtime.num_threads

    def _on(self, threads: int, call: Callable[[], object]) -> float:
        self.runtime.num_threads = threads
        try:
            return _seconds(call, self.rounds)
        finally:
            self.runtime.num_threads = self.most

    def copy(self) -> dict[str, float]:
        """GB/s read and written by a copy of as many bytes as two operands and a result: the best of NumPy's and ours, on a device of
        ours."""
        n = max(1, self.elements * 3 // 2)
        source, target = np.ones(n, np.float32), np.empty(n, np.float32)
        a, b = self.executor.from_numpy(source), self.executor.allocate(n)

        def kernel() -> None:
            ffi.convert(self.executor.handle, a.handle, b.handle, n)

        if self.device:
            moved = 8e-9 * n / min(self._on(self.most, kernel), self._on(self.most, lambda: b.copy_from(a)))
            return {"one": moved, "all": moved}
        one = min(_seconds(lambda: np.copyto(target, source), self.rounds), self._on(1, kernel))
        everybody = min(one, self._on(self.most, kernel), self._on(self.most, lambda: b.copy_from(a)))
        return {"one": 8e-9 * n / one, "all": 8e-9 * n / everybody}

    def fma(self) -> dict[str, float]:
        """GFLOP/s of multiply-adds in registers."""
        n, length = (self.elements, _DEVICE_LENGTH) if self.device else (1 << 18, _LENGTH)
        graph = ffi.graph_create(1)
        x, y = (ffi.graph_parameter(graph, "float32", "[s0]") for _ in range(2))
        factors = [ffi.graph_constant(graph, "float32", 0.5 + i / 32, "[s0]") for i in range(_CHAINS)]
        values = [x] * _CHAINS
        for _ in range(length):
            values = [ffi.graph_apply(graph, "fma", [v, f, y]) for v, f in zip(values, factors)]
        total = values[0]
        for v in values[1:]:
            total = ffi.graph_apply(graph, "add", [total, v])
        ffi.graph_output(graph, total)
        run = ffi.graph_compile(self.executor.handle, graph, 0)
        a, b, out = self.executor.allocate(n), self.executor.allocate(n), self.executor.allocate(n)
        a.fill(0.25)
        b.fill(0.5)

        def call() -> None:
            ffi.executable_run(run, [a.handle, b.handle], [out.handle])

        work = 1e-9 * n * _CHAINS * length * 2
        result = {"one": work / self._on(1, call), "all": work / self._on(self.most, call)}
        expected = 0.0
        for i in range(_CHAINS):
            number = 0.25
            for _ in range(length):
                number = number * (0.5 + i / 32) + 0.5
            expected += number
        if not np.allclose(out.to_numpy(copy=True), expected, rtol=1e-5):
            raise Failure("bench: fma is wrong on this machine")
        ffi.executable_cleanup(run)
        ffi.graph_cleanup(graph)
        return result

    def operation(self, name: str) -> dict[str, float]:
        inputs = _OPERATIONS[name]
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(self.elements).astype(np.float32) for _ in range(inputs)]
        expected = np.empty(self.elements, np.float32)
        reference: Any = np.multiply if name == "mul" else getattr(np, name)
        out = self.executor.allocate(self.elements)
        buffers = [self.executor.from_numpy(a) for a in arrays]
        handles = [b.handle for b in buffers]

        def call() -> None:
            ffi.elementwise(self.executor.handle, name, handles, out.handle, self.elements)

        call()
        reference(*arrays, out=expected)
        if not np.allclose(out.to_numpy(copy=True), expected, rtol=1e-6, atol=0):
            raise Failure(f"bench: {name} is wrong on this machine")
        one, everybody = self._on(1, call), self._on(self.most, call)
        theirs = _seconds(lambda: reference(*arrays, out=expected), self.rounds)
        moved = 4e-9 * self.elements * (inputs + 1)
        return {"gb_per_s": moved / everybody, "times_one_thread": one / everybody, "times_numpy": theirs / everybody}

    def product(self) -> dict[str, float]:
        m = 2 * math.isqrt(self.elements) if self.device else 768
        a, b = np.random.default_rng(0).standard_normal((2, m, m)).astype(np.float32)
        executor = self.executor
        x, y, z = executor.from_numpy(a.ravel()), executor.from_numpy(b.ravel()), executor.allocate(m * m)
        seconds = _seconds(lambda: ops.gemm(executor, x, y, z, m, m, m), self.rounds)
        if not np.allclose(z.to_numpy(copy=True).reshape(m, m), a @ b, rtol=1e-3, atol=1e-3):
            raise Failure("bench: gemm is wrong on this machine")
        return {"gflop_per_s": 2e-9 * m**3 / seconds}

    def call(self) -> dict[str, float]:
        """Nanoseconds of one addition of 1,024 float32 from Python, results given."""
        a, b = np.random.default_rng(0).standard_normal((2, 1024)).astype(np.float32)
        out, many = np.empty_like(a), range(100 if self.device else 1000)
        executor = self.executor
        x, y, z = executor.from_numpy(a), executor.from_numpy(b), executor.allocate(1024)

        def ours() -> None:
            for _ in many:
                ops.vector_add(executor, x, y, z)

        def theirs() -> None:
            for _ in many:
                np.add(a, b, out=out)

        seconds, numpy_seconds = _seconds(ours, self.rounds), _seconds(theirs, self.rounds)
        if not np.array_equal(z.to_numpy(copy=True), out):
            raise Failure("bench: vector_add is wrong on this machine")
        return {"nanoseconds": seconds * 1e9 / len(many), "times_numpy": numpy_seconds / seconds}


def _bench(args: argparse.Namespace) -> int:
    if args.elements < 1 or args.rounds < 1:
        raise Failure("bench: --elements and --rounds must be at least 1")
    with _core.Executor(args.backend) as executor:
        bench = _Bench(executor, args.elements, args.rounds)
        copy, fma, product, call = bench.copy(), bench.fma(), bench.product(), bench.call()
        product["of_fma"] = product["gflop_per_s"] / fma["all"]
        operations = {}
        for name in _OPERATIONS:
            row = bench.operation(name)
            operations[name] = {**row, "of_copy": row["gb_per_s"] / copy["all"]}
    if args.json:
        limits = {"copy_gb_per_s": copy, "fma_gflop_per_s": fma}
        measured = {"limits": limits, "operations": operations, "product": product, "call": call}
        show({"backend": bench.backend, "threads": bench.most, "elements": args.elements, **measured}, True)
        return 0
    where = bench.backend if bench.device else f"{bench.most} threads; {_core.host_cpu()['isa']}"
    print(f"{where}; {args.elements} float32 per array")
    for what, unit, row in (("a copy moves", "GB/s", copy), ("multiply-adds do", "GFLOP/s", fma)):
        rest = "" if bench.device else f" on one thread, {row['all']:.1f} on all"
        print(f"  {what:<18} {row['one']:7.1f} {unit}{rest}")
    print(f"  a product does     {product['gflop_per_s']:7.1f} GFLOP/s, {product['of_fma']:.0%} of what multiply-adds do")
    print(f"  one small addition {call['nanoseconds']:7.1f} ns from Python, {call['times_numpy']:.2f} times NumPy's speed")
    for name, row in operations.items():
        threads = "" if bench.device else f" {row['times_one_thread']:.2f} times one thread,"
        print(
            f"  {name:<18} {row['gb_per_s']:7.1f} GB/s, {row['of_copy']:.0%} of the copy,"
            f"{threads} {row['times_numpy']:.2f} times NumPy's speed"
        )
    return 0


def register(commands: Any) -> None:
    """Adds the command to the command line."""
    text = "Time single operations against what this machine can do: a copy, multiply-adds, one call, its threads, and NumPy."
    command = add(commands, "bench", _bench, text)
    command.add_argument("--backend", default="cpu", metavar="NAME", help="as of an Executor: cpu (default), cuda, cuda:1")
    command.add_argument("--elements", type=int, default=1 << 22, metavar="N", help="float32 per array (default: 4,194,304)")
    command.add_argument("--rounds", type=int, default=11, metavar="N", help="of which the fastest counts (default: 11)")
