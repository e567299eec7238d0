#!/usr/bin/env python3
# bench/sdk.py: calls of the Python SDK against NumPy, numexpr and PyTorch with given outputs
"""Single operations on 1,024 elements and more, transfers, and hologram.jit, each beside its peers in one run.

    python bench/sdk.py [--sizes 1024,10000,100000,1000000,10000000] [--rounds 15] [--threads 2] [--markdown FILE]

Every result is checked before it is timed. A time is the best of the rounds, peers taking turns within each round.
"""

import argparse
import functools
import os
import platform
import time

import numpy as np

OPS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def best(functions, rounds, seconds=0.02):
    """Seconds per call of each function, by name."""
    counts, out = {}, {}
    for name, f in functions.items():
        start = time.perf_counter()
        for _ in range(3):
            f()
        counts[name] = max(1, int(seconds / max((time.perf_counter() - start) / 3, 1e-9)))
    for _ in range(rounds):
        for name, f in functions.items():
            n = counts[name]
            start = time.perf_counter()
            for _ in range(n):
                f()
            out[name] = min(out.get(name, 1e9), (time.perf_counter() - start) / n)
    return out


class Table:
    def __init__(self, title, columns):
        self.lines = [f"\n{title}\n", "| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]

    def row(self, *cells):
        self.lines.append("| " + " | ".join(str(c) for c in cells) + " |")

    def show(self):
        text = "\n".join(self.lines)
        print(text, flush=True)
        return text


def microseconds(t):
    return f"{t * 1e6:.3f}" if t < 1e-4 else f"{t * 1e6:.0f}"


def peers_of(name, x, y, executor, hologram):
    """The same operation by every peer, outputs given."""
    a, b, c = executor.from_numpy(x), executor.from_numpy(y), executor.allocate(len(x))
    ours = getattr(hologram.ops, f"vector_{name}")
    out = np.empty_like(x)
    functions = {
        "hologram": functools.partial(ours, executor, a, b, c),
        "numpy": functools.partial(OPS[name], x, y, out=out),
    }
    results = {"hologram": lambda: c.to_numpy(), "numpy": lambda: out}
    try:
        import torch

        tx, ty, tout = torch.from_numpy(x), torch.from_numpy(y), torch.empty(len(x))
        functions["torch"] = functools.partial(getattr(torch, name), tx, ty, out=tout)
        results["torch"] = lambda: tout.numpy()
    except ImportError:
        pass
    try:
        import numexpr

        nout = np.empty_like(x)
        text, given = f"x {SIGNS[name]} y", {"x": x, "y": y}
        functions["numexpr"] = functools.partial(numexpr.evaluate, text, local_dict=given, out=nout)
        results["numexpr"] = lambda: nout
    except ImportError:
        pass
    for peer, function in functions.items():
        function()
        np.testing.assert_array_equal(results[peer](), OPS[name](x, y), err_msg=peer)
    return functions, (a, b, c, out)


def elementwise(hologram, sizes, rounds):
    table = None
    with hologram.Executor() as executor:
        for n in sizes:
            for name in OPS:
                x, y = np.random.default_rng(0).uniform(1, 2, (2, n)).astype(np.float32)
                functions, kept = peers_of(name, x, y, executor, hologram)
                times = best(functions, rounds)
                others = [p for p in times if p != "hologram"]
                if table is None:
                    table = Table(
                        "Element-wise, float32, output given (µs; ratio: best peer / hologram)",
                        ["n", "op", "hologram", *others, "ratio", "GB/s"],
                    )
                ours = times["hologram"]
                ratio = min(times[p] for p in others) / ours
                table.row(f"{n:,}", name, microseconds(ours), *(microseconds(times[p]) for p in others), f"{ratio:.2f}", f"{12 * n / ours / 1e9:.1f}")
                del kept
    return table.show()


def transfers(hologram, rounds):
    x = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    with hologram.Executor() as executor:
        buffer = executor.allocate(1024)

        def round_trip():
            buffer.from_numpy(x)
            return buffer.to_numpy()

        assert (round_trip() == x).all() and buffer.to_numpy(copy=False).ctypes.data == buffer.ptr
        rows = {
            "write (from_numpy)": (functools.partial(buffer.from_numpy, x), 0.5),
            "read (to_numpy)": (buffer.to_numpy, 0.5),
            "view (to_numpy(copy=False))": (functools.partial(buffer.to_numpy, copy=False), 0.3),
            "view (memoryview)": (functools.partial(memoryview, buffer), 0.3),
            "round trip": (round_trip, 1.0),
        }
        times = best({name: f for name, (f, _) in rows.items()}, rounds)
    table = Table("1,024 floats between NumPy and a buffer (µs)", ["what", "time", "bar", "met"])
    for name, (_, bar) in rows.items():
        table.row(name, microseconds(times[name]), bar, "yes" if times[name] * 1e6 <= bar else "no")
    return table.show()


def fused(hologram, rounds):
    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def gelu(x):
        return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x)))

    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    table = Table("hologram.jit (µs)", ["function", "shape", "hologram.jit", "numpy", "ratio"])
    for function in (softmax, gelu, norm):
        for shape in ((8, 128), (256, 1024), (2048, 1024)):
            x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
            jitted = hologram.jit(function)
            np.testing.assert_allclose(jitted(x), function(x), rtol=1e-4, atol=1e-5)
            out = np.empty_like(x)
            times = best({"jit": lambda: jitted(x, out=out), "numpy": lambda: function(x)}, rounds)
            table.row(function.__name__, "×".join(map(str, shape)), microseconds(times["jit"]), microseconds(times["numpy"]), f"{times['numpy'] / times['jit']:.1f}")
    return table.show()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1024,10000,100000,1000000,10000000")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--markdown", help="also write the report here")
    options = parser.parse_args()
    os.environ["HOLOGRAM_NUM_THREADS"] = os.environ["NUMEXPR_NUM_THREADS"] = str(options.threads)
    import hologram

    try:
        import torch

        torch.set_num_threads(options.threads)
    except ImportError:
        pass
    head = f"{platform.processor() or platform.machine()}, {options.threads} threads, hologram {hologram.__version__}, NumPy {np.__version__}"
    print(head)
    parts = [
        elementwise(hologram, [int(n) for n in options.sizes.split(",")], options.rounds),
        transfers(hologram, options.rounds),
        fused(hologram, options.rounds),
    ]
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join([f"# The Python SDK beside its peers\n\n{head}", *parts, ""]))


if __name__ == "__main__":
    main()
