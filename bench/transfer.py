#!/usr/bin/env python3
# bench/transfer.py: getting numbers into a buffer and out again: as JSON, as bytes, and by sharing memory
"""The comparison of the seed examples, for 100 to 100,000 floats: transfer only, no operation.

    python bench/transfer.py [--sizes 100,1000,10000,100000] [--seconds 0.6] [--plot transfer.svg] [--markdown FILE]

json: json.dumps of a list and buffer_copy_from_slice, then buffer_to_vec and json.loads. bytes: buffer_copy_from_bytes of an
array, buffer_to_bytes and numpy.frombuffer. shared: a view by to_numpy(copy=False), written and read in place.
"""

import argparse
import json

import numpy as np
from sdk import Table, microseconds
from turns import take_turns


def measure(hologram, ffi, n, seconds):
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    with hologram.Executor() as executor:
        buffer = executor.allocate(n)
        e, b = executor.handle, buffer.handle

        def by_json():
            ffi.buffer_copy_from_slice(e, b, json.dumps(x.tolist()))
            return np.array(json.loads(ffi.buffer_to_vec(e, b)), np.float32)

        def by_bytes():
            ffi.buffer_copy_from_bytes(e, b, x)
            return np.frombuffer(ffi.buffer_to_bytes(e, b), np.float32)

        def shared():
            view = buffer.to_numpy(copy=False)
            view[:] = x
            return view

        for way in (by_json, by_bytes, shared):
            buffer.fill(0)
            assert way().tobytes() == x.tobytes()
        return take_turns({"json": by_json, "bytes": by_bytes, "shared": shared}, seconds).fastest()


def plot(path, rows):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for name, marker in (("json", "o"), ("bytes", "s"), ("shared", "^")):
        axes.loglog([n for n, _ in rows], [times[name] * 1e6 for _, times in rows], marker=marker, label=name)
    axes.set_xlabel("float32 elements")
    axes.set_ylabel("µs for write and read")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,300,1000,3000,10000,30000,100000")
    parser.add_argument("--seconds", type=float, default=0.6, help="that a way may take for one size (default: 0.6)")
    parser.add_argument("--plot", help="write a picture here (needs matplotlib)")
    parser.add_argument("--markdown", help="write the table here")
    options = parser.parse_args()
    import hologram
    import hologram_ffi

    table = Table(
        "Write and read, transfer only (µs)", ["n", "json", "bytes", "shared", "json / bytes", "json / shared", "expected json / shared"]
    )
    rows = []
    for n in map(int, options.sizes.split(",")):
        times = measure(hologram, hologram_ffi, n, options.seconds)
        rows.append((n, times))
        expected = ">= 10" if 1000 <= n < 100_000 else ">= 20" if n >= 100_000 else "2 to 5 or more"
        table.row(
            f"{n:,}", *(microseconds(times[k]) for k in ("json", "bytes", "shared")),
            f"{times['json'] / times['bytes']:.0f}", f"{times['json'] / times['shared']:.0f}", expected,
        )  # fmt: skip
    text = table.show()
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write(f"# JSON against shared memory\n{text}\n")
    if options.plot:
        plot(options.plot, rows)


if __name__ == "__main__":
    main()
