#!/usr/bin/env python3
# bench/sdk.py: calls of the Python SDK against NumPy, numexpr and PyTorch with given outputs
"""Every operation of hologram.ops on 1,024 elements and more, transfers, threads and hologram.jit, beside their peers in one run.

    python bench/sdk.py [--sizes 1024,10000,100000,1000000,10000000] [--ops add,gelu] [--seconds 0.6] [--threads 2] [--markdown FILE]

Every result is checked before it is timed. Peers take turns in slices of a few milliseconds (turns.py). A time is the fastest slice; a
ratio is the median, over the turns, of two slices of one turn, with the quartiles behind it.
"""

import argparse
import functools
import math
import os
import platform
import threading
import time

import numpy as np
from turns import take_turns


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


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max())
    return e / e.sum()


def erf(x):
    return np.array([math.erf(v) for v in x.tolist()])


# By operation: the number of operands, its value, NumPy's call (operands, out), PyTorch's (torch, operands, out), numexpr's text. None: it
# has no such call. The bytes moved are those of the operands and, unless it reduces, of the result.
OPS = {
    "vector_add": (2, np.add, np.add, lambda t, o: functools.partial(t.add, *o), "a + b"),
    "vector_sub": (2, np.subtract, np.subtract, lambda t, o: functools.partial(t.sub, *o), "a - b"),
    "vector_mul": (2, np.multiply, np.multiply, lambda t, o: functools.partial(t.mul, *o), "a * b"),
    "vector_div": (2, np.divide, np.divide, lambda t, o: functools.partial(t.div, *o), "a / b"),
    "vector_min": (2, np.minimum, np.minimum, lambda t, o: functools.partial(t.minimum, *o), "where(a < b, a, b)"),
    "vector_max": (2, np.maximum, np.maximum, lambda t, o: functools.partial(t.maximum, *o), "where(a > b, a, b)"),
    "vector_abs": (1, np.abs, np.abs, lambda t, o: functools.partial(t.abs, *o), "abs(a)"),
    "vector_neg": (1, np.negative, np.negative, lambda t, o: functools.partial(t.neg, *o), "-a"),
    "vector_relu": (
        1, lambda a: np.maximum(a, 0), lambda a, out: np.maximum(a, np.float32(0), out=out),
        lambda t, o: functools.partial(t.clamp_min, *o, 0), "where(a > 0, a, 0)",
    ),
    "vector_clip": (
        1, lambda a: np.clip(a, -0.5, 0.5), lambda a, out: np.clip(a, np.float32(-0.5), np.float32(0.5), out=out),
        lambda t, o: functools.partial(t.clamp, *o, -0.5, 0.5), None,
    ),
    "scalar_add": (
        1, lambda a: a + np.float32(1.5), lambda a, out: np.add(a, np.float32(1.5), out=out),
        lambda t, o: functools.partial(t.add, *o, 1.5), "a + s",
    ),
    "scalar_mul": (
        1, lambda a: a * np.float32(1.5), lambda a, out: np.multiply(a, np.float32(1.5), out=out),
        lambda t, o: functools.partial(t.mul, *o, 1.5), "a * s",
    ),
    "sigmoid": (
        1, lambda a: 1 / (1 + np.exp(-a.astype(np.float64))), None,
        lambda t, o: functools.partial(t.sigmoid, *o), "1 / (1 + exp(-a))",
    ),
    "tanh": (1, np.tanh, np.tanh, lambda t, o: functools.partial(t.tanh, *o), "tanh(a)"),
    "gelu": (1, lambda a: a * (1 + erf(a / math.sqrt(2))) / 2, None, lambda t, o: functools.partial(t.ops.aten.gelu.out, *o), None),
    "softmax": (1, softmax, None, lambda t, o: functools.partial(t.softmax, *o, 0), None),
    "reduce_sum": (1, lambda a: a.sum(dtype=np.float64), np.sum, lambda t, o: functools.partial(t.sum, *o, 0), "sum(a)"),
    "reduce_min": (1, np.min, np.min, lambda t, o: functools.partial(t.amin, *o, 0), "min(a)"),
    "reduce_max": (1, np.max, np.max, lambda t, o: functools.partial(t.amax, *o, 0), "max(a)"),
    "mse_loss": (
        2, lambda a, b: np.mean((a.astype(np.float64) - b) ** 2), None,
        lambda t, o: lambda out, f=t.nn.functional.mse_loss: f(*o), "sum((a - b) ** 2)",
    ),
    "matvec": (2, None, None, None, None),
    "gemm": (2, None, None, None, None),
}  # fmt: skip
NUMBERS = {"vector_clip": (-0.5, 0.5), "scalar_add": (1.5,), "scalar_mul": (1.5,)}
REDUCTIONS = ("reduce_sum", "reduce_min", "reduce_max", "mse_loss")
COPY_BOUND = ("vector_add", "vector_sub", "vector_mul", "vector_div")


def check(name, peer, value, expected):
    # numexpr adds one float32 after the other, which costs digits.
    rtol = 5e-2 if peer == "numexpr" and name in REDUCTIONS else 1e-5 if peer == "hologram" else 1e-4
    np.testing.assert_allclose(value, expected, rtol=rtol, atol=1e-6, err_msg=f"{name}, {peer}")


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def peers_of(name, n, executor, hologram):
    """The same operation by every peer, outputs given: (functions, what keeps their memory)."""
    count, expected, numpy_call, torch_call, text = OPS[name]
    torch, numexpr = optional("torch"), optional("numexpr")
    arrays = list(np.random.default_rng(0).uniform(-1.5, 2, (count, n)).astype(np.float32))
    size = 1 if name in REDUCTIONS else n
    out, tensor_out, numexpr_out = np.empty(size, np.float32), None, np.empty(size, np.float32)
    buffers = [executor.from_numpy(a) for a in arrays]
    result = executor.allocate(max(size, 3))  # reductions ask for room
    functions = {"hologram": functools.partial(getattr(hologram.ops, name), executor, *buffers, result, *NUMBERS.get(name, ()), n)}
    values = {"hologram": lambda: result.to_numpy()[:size]}
    if numpy_call is not None:
        shaped = out.reshape(()) if name in REDUCTIONS else out
        functions["numpy"] = functools.partial(numpy_call, *arrays, out=shaped)
        values["numpy"] = lambda: out
    if torch is not None:
        tensor_out = torch.empty(() if name in REDUCTIONS else n)
        functions["torch"] = functools.partial(torch_call(torch, [torch.from_numpy(a) for a in arrays]), out=tensor_out)
        if name == "mse_loss":  # takes no out=
            values["torch"] = lambda: functions["torch"]().numpy().reshape(1)
        else:
            values["torch"] = lambda: tensor_out.numpy().reshape(size)
    if numexpr is not None and text is not None:
        given = dict(zip("ab", arrays), s=np.float32(1.5))
        shaped = {} if name in REDUCTIONS else {"out": numexpr_out}
        functions["numexpr"] = functools.partial(numexpr.evaluate, text, local_dict=given, **shaped)
        if name == "mse_loss":  # numexpr has no mean
            values["numexpr"] = lambda: numexpr.evaluate(text, local_dict=given) / n
        else:
            values["numexpr"] = lambda: numexpr.evaluate(text, local_dict=given, **shaped)
    right = expected(*arrays)
    for peer, function in functions.items():
        function()
        check(name, peer, values[peer](), right)
    moved = 4 * n * (count + (name not in REDUCTIONS))
    return functions, moved, (arrays, out, numexpr_out, tensor_out, buffers, result)


def product_peers(name, n, executor, hologram):
    """gemm and matvec of square matrices of n elements."""
    torch, m = optional("torch"), math.isqrt(n)
    shape = (m, m) if name == "gemm" else (m,)
    rng = np.random.default_rng(0)
    a, b, out = rng.standard_normal((m, m)).astype(np.float32), rng.standard_normal(shape).astype(np.float32), np.empty(shape, np.float32)
    x, y, z = executor.from_numpy(a.ravel()), executor.from_numpy(b.ravel()), executor.allocate(out.size)
    sizes = (m, m, m) if name == "gemm" else (m, m)
    functions = {
        "hologram": functools.partial(getattr(hologram.ops, name), executor, x, y, z, *sizes),
        "numpy": functools.partial(np.matmul, a, b, out=out),
    }
    values = {"hologram": lambda: z.to_numpy().reshape(shape), "numpy": lambda: out}
    kept = (x, y, z, a, b, out)
    if torch is not None:
        given = torch.empty(shape)
        functions["torch"] = functools.partial(torch.matmul, torch.from_numpy(a), torch.from_numpy(b), out=given)
        values["torch"] = given.numpy
    right = a.astype(np.float64) @ b
    for peer, function in functions.items():
        function()
        np.testing.assert_allclose(values[peer](), right, rtol=1e-3, atol=1e-3, err_msg=f"{name}, {peer}")
    return functions, 4 * (a.size + b.size + out.size), kept


def copies_of(n, executor):
    """Plain copies of n float32, NumPy's, PyTorch's and ours: what memory gives to as many bytes."""
    x, out = np.ones(n, np.float32), np.empty(n, np.float32)
    source, target = executor.from_numpy(x), executor.allocate(n)
    same = executor.allocate(n)
    functions = {"copy numpy": functools.partial(np.copyto, out, x), "copy_from": functools.partial(target.copy_from, source)}
    functions["copy kernel"] = functools.partial(hologram_convert, executor.handle, source.handle, same.handle, n)
    torch = optional("torch")
    if torch is not None:
        functions["copy torch"] = functools.partial(torch.from_numpy(out).copy_, torch.from_numpy(x))
    return functions, (x, out, source, target, same)


def hologram_convert(*arguments):
    import hologram_ffi

    hologram_ffi.convert(*arguments)


def operations(hologram, sizes, names, seconds):
    columns = ["n", "op", "hologram", "numpy", "torch", "numexpr", "ratio", "GB/s", "of copy", "of our copy"]
    title = "hologram.ops, float32, output given (µs; ratio: best peer / hologram; of copy: "
    title += "fastest of NumPy's and PyTorch's copy of as many bytes / hologram)"
    table = Table(title, columns)
    for n in sizes:
        with hologram.Executor() as executor:
            for name in names:
                if name == "gemm" and n > 1_000_000:
                    continue
                peers = product_peers if name in ("gemm", "matvec") else peers_of
                functions, moved, kept = peers(name, n, executor, hologram)
                copies, more = copies_of(moved // 8, executor) if n >= 1_000_000 and name in COPY_BOUND else ({}, None)
                turns = take_turns(functions | copies, seconds)
                times = turns.fastest()
                ours = times["hologram"]
                others = [microseconds(times[p]) if p in times else "" for p in ("numpy", "torch", "numexpr")]
                ratio = turns.ratio([p for p in functions if p != "hologram"], "hologram")
                theirs = turns.ratio([c for c in copies if c in ("copy numpy", "copy torch")], "hologram")
                own = turns.ratio([c for c in copies if c in ("copy_from", "copy kernel")], "hologram")
                table.row(f"{n:,}", name, microseconds(ours), *others, ratio, f"{moved / ours / 1e9:.1f}", theirs, own)
                del functions, kept, copies, more
    return table.show()


def transfers(hologram, seconds):
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
        times = take_turns({name: f for name, (f, _) in rows.items()}, seconds).fastest()
    table = Table("1,024 floats between NumPy and a buffer (µs)", ["what", "time", "bar", "met"])
    for name, (_, bar) in rows.items():
        table.row(name, microseconds(times[name]), bar, "yes" if times[name] * 1e6 <= bar else "no")
    return table.show()


def threads(hologram, seconds):
    """Calls per second of several Python threads on one executor, buffers of their own. Python's lock is let go above 32,768 elements."""
    columns = ["n", *(f"{t} threads" for t in (1, 2, 4, 8))]
    table = Table("Threads on one executor: vector_add, calls per second against one thread", columns)
    for n in (1024, 100_000):
        rates = []
        for count in (1, 2, 4, 8):
            with hologram.Executor() as executor:
                done, stop = [0] * count, threading.Event()

                def work(i, executor=executor, done=done, stop=stop, n=n):
                    a, b = executor.allocate(n), executor.allocate(n)
                    while not stop.is_set():
                        for _ in range(100):
                            hologram.ops.vector_add(executor, a, b, b)
                        done[i] += 100

                workers = [threading.Thread(target=work, args=(i,)) for i in range(count)]
                start = time.perf_counter()
                for w in workers:
                    w.start()
                time.sleep(seconds)
                stop.set()
                for w in workers:
                    w.join()
                rates.append(sum(done) / (time.perf_counter() - start))
        table.row(f"{n:,}", *(f"{r / rates[0]:.2f}" for r in rates))
    return table.show()


def fused(hologram, seconds):
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
            turns = take_turns({"jit": lambda: jitted(x, out=out), "numpy": lambda: function(x)}, seconds)
            times = turns.fastest()
            cells = [microseconds(times[peer]) for peer in ("jit", "numpy")]
            table.row(function.__name__, "×".join(map(str, shape)), *cells, turns.ratio(["numpy"], "jit"))
    return table.show()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1024,10000,100000,1000000,10000000")
    parser.add_argument("--ops", default=",".join(OPS), help="of hologram.ops, without vector_ if you like")
    parser.add_argument("--seconds", type=float, default=0.6, help="that a peer may take for one row (default: 0.6)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--markdown", help="also write the report here")
    options = parser.parse_args()
    names = [name if name in OPS else f"vector_{name}" for name in options.ops.split(",")]
    for name in names:
        if name not in OPS:
            parser.error(f"there is no operation {name}")
    os.environ["HOLOGRAM_NUM_THREADS"] = os.environ["NUMEXPR_NUM_THREADS"] = str(options.threads)
    import hologram

    try:
        import torch

        torch.set_num_threads(options.threads)
    except ImportError:
        pass
    versions = f"hologram {hologram.__version__}, NumPy {np.__version__}"
    head = f"{platform.processor() or platform.machine()}, {options.threads} threads, {versions}"
    print(head)
    parts = [
        operations(hologram, [int(n) for n in options.sizes.split(",")], names, options.seconds),
        transfers(hologram, options.seconds),
        threads(hologram, options.seconds),
        fused(hologram, options.seconds),
    ]
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join([f"# The Python SDK beside its peers\n\n{head}", *parts, ""]))


if __name__ == "__main__":
    main()
