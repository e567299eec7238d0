#!/usr/bin/env python3
# bench/conformance/device_functions.py: functions of one number on all inputs, a device's results beside the CPU's
"""Computes every operation of one float on a device and on the CPU, whose bits are promised to be the same (NaNs are one).

    python bench/conformance/device_functions.py --seconds 300 --json functions.json
    python bench/conformance/device_functions.py --functions 'exp*,cast_bf16' --types f32

Each block of inputs is spread over the whole type: of 2^24 numbers of 32 bits, or of all 2^16 of 16 bits. Results stay where they were
computed; there rows of 256 of them become sums with a weight for each place, and only sums that differ send for their row. One block of
each function comes first; then the cheapest functions are completed first, until the time is up. Status 1: something differs.
"""

import argparse
import fnmatch
import json
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROW = 256
WIDTHS = {"b8": 8, "i8": 8, "u8": 8, "i16": 16, "f16": 16, "bf16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}
INFINITIES = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
OTHERS = ("bit_not", "cast", "cast_wrap", "bitcast")  # take no floats, or need a type to go to
CASTS = {"cast": ("f16", "bf16", "f32", "f64", "i8", "u8", "i16", "i32", "i64", "b8"), "cast_wrap": ("i8", "u8", "i16", "i32", "i64")}


class Function(NamedTuple):
    name: str
    operation: str
    type: str
    result: str

    @property
    def full(self):
        return f"{self.name} {self.type}"


def functions(types, patterns=("*",)) -> list[Function]:
    """The operations of the table on these types, and conversions from them, whose names match."""
    from hologram import _core

    names = [r["name"] for r in _core.op_table() if r["elementwise"] and r["arity"] == 1 and r["name"] not in OTHERS]
    found = []
    for type in types:
        found += [Function(name, name, type, type) for name in names]
        found += [Function(f"{cast}_{to}", cast, type, to) for cast, results in CASTS.items() for to in results if to != type]
    return [f for f in found if any(fnmatch.fnmatch(f.name, pattern) for pattern in patterns)]


def bits_of(type: str) -> str:
    return f"i{WIDTHS[type]}"


def inputs_text(type: str) -> str:
    """i32 start, i32 step → start + step * place, as bits of the type."""
    bits = bits_of(type)
    narrow = "" if bits == "i32" else f"%7: {bits}[s0] = cast %6\n"
    return f"""graph(symbols=1, parameters=2)
%0: i32[1] = parameter index=0 strides=[1]
%1: i32[1] = parameter index=1 strides=[1]
%2: i32[s0] = iota axis=0
%3: i32[s0] = expand %1
%4: i32[s0] = mul %2, %3
%5: i32[s0] = expand %0
%6: i32[s0] = add %4, %5
{narrow}return %{6 if bits == "i32" else 7} strides=[1]
"""


def function_text(f: Function) -> str:
    """Bits of numbers → bits of results."""
    to = "u8" if f.result in ("b8", "u8") else bits_of(f.result)
    last = "%2" if f.result == to else "%3"
    turn = {"%2": "", "%3": f"%3: {to}[s0] = {'cast' if f.result == 'b8' else 'bitcast'} %2\n"}[last]
    return f"""graph(symbols=1, parameters=1)
%0: {bits_of(f.type)}[s0] = parameter index=0 strides=[1]
%1: {f.type}[s0] = bitcast %0
%2: {f.result}[s0] = {f.operation} %1
{turn}return {last} strides=[1]
"""


def sums_text(result: str) -> str:
    """Bits of results → a sum of each row; a single one that differs changes it, as weights are odd."""
    stored = "u8" if result in ("b8", "u8") else bits_of(result)
    shape = f"[s0, {ROW}]"
    lines = [f"%0: {stored}{shape} = parameter index=0 strides=[{ROW}, 1]"]
    add = lambda text: lines.append(f"%{len(lines)}: {text}") or f"%{len(lines) - 1}"
    value = "%0"
    if result in INFINITIES:
        x = add(f"{result}{shape} = bitcast %0")
        nan = add(f"b8{shape} = ne {x}, {x}")
        one = add(f"{stored}{shape} = constant value={INFINITIES[result] + 1:#x}")
        value = add(f"{stored}{shape} = select {nan}, {one}, %0")
    if stored != "i64":
        value = add(f"i64{shape} = cast {value}")
    place = add(f"i64{shape} = iota axis=1")
    twice = add(f"i64{shape} = add {place}, {place}")
    odd = add(f"i64{shape} = add {twice}, {add(f'i64{shape} = constant value=0x1')}")
    total = add(f"i64[s0] = reduce_sum {add(f'i64{shape} = mul {value}, {odd}')} axes=[1]")
    return "graph(symbols=1, parameters=1)\n" + "\n".join(lines) + f"\nreturn {total} strides=[1]\n"


class Side:
    """Where functions are computed: an executor, its compiled graphs and its buffers."""

    def __init__(self, backend: str):
        import hologram

        self.executor, self.graphs, self.buffers = hologram.Executor(backend), {}, {}

    def buffer(self, use: str, count: int, dtype: str):
        key = (use, count, dtype)
        if key not in self.buffers:
            self.buffers[key] = self.executor.allocate(count, dtype=dtype)
        return self.buffers[key]

    def run(self, text: str, inputs, symbol: int, out):
        import hologram_ffi as hg

        if text not in self.graphs:
            graph = hg.graph_parse(text)
            self.graphs[text] = hg.graph_compile(self.executor.handle, graph, 0)
            hg.graph_cleanup(graph)
        hg.executable_run_with_symbols(self.graphs[text], [x.handle for x in inputs], [symbol], [out.handle])
        return out

    def results(self, f: Function, start: int, step: int, count: int):
        """Bits of f of `count` numbers, on the device."""
        import numpy as np

        ends = [self.executor.from_numpy(np.array([n], np.uint32).view(np.int32)) for n in (start, step)]
        x = self.run(inputs_text(f.type), ends, count, self.buffer("x", count, f"int{WIDTHS[f.type]}"))
        stored = "uint8" if f.result in ("b8", "u8") else f"int{WIDTHS[f.result]}"
        return self.run(function_text(f), [x], count, self.buffer("y", count, stored))

    def sums(self, f: Function, results, count: int):
        out = self.buffer("sums", count // ROW, "int64")
        return self.run(sums_text(f.result), [results], count // ROW, out).to_numpy(copy=True)


def differing(f: Function, cpus, devices, rows):
    """(place, the CPU's bits, the device's bits) of the first results that differ, and how many do in these rows."""
    import numpy as np

    def plain(values):
        values = values.view(f"u{values.dtype.name}" if values.dtype.kind == "i" else values.dtype)
        if f.result not in INFINITIES:
            return values
        magnitude = values & np.array((1 << (WIDTHS[f.result] - 1)) - 1, values.dtype)
        return np.where(magnitude > INFINITIES[f.result], np.array(INFINITIES[f.result] + 1, values.dtype), values)

    first, count = None, 0
    for row in rows:
        at = slice(row * ROW, (row + 1) * ROW)
        a, b = plain(cpus[at]), plain(devices[at])
        places = np.flatnonzero(a != b)
        count += len(places)
        if first is None and len(places):
            first = (int(row) * ROW + int(places[0]), int(a[places[0]]), int(b[places[0]]))
    return first, count


def compare(f: Function, cpu: Side, device: Side, start: int, step: int, count: int):
    """None, or what differs: {"input", "cpu", "device"} as bits of the first, {"differ"} how many."""
    import numpy as np

    here, there = (side.results(f, start, step, count) for side in (cpu, device))
    rows = np.flatnonzero(cpu.sums(f, here, count) != device.sums(f, there, count))
    if not len(rows):
        return None
    first, number = differing(f, here.to_numpy(copy=True), there.to_numpy(copy=True), rows)
    if first is None:  # the same results, but other sums of them
        return {"input": None, "cpu": "sums", "device": "other sums", "differ": 0}
    place, right, wrong = first
    mask = (1 << WIDTHS[f.type]) - 1
    return {"input": hex((start + step * place) & mask), "cpu": hex(right), "device": hex(wrong), "differ": number}


def sweep(chosen, cpu: Side, device: Side, *, count: int, seconds: float, blocks: int | None = None, progress=None) -> dict:
    """name → {"inputs", "of", "seconds", and what differs}. `count`: inputs of a block; `blocks`: at most so many of a function."""
    begun, found = time.monotonic(), {}

    def block(f, number):
        total = 1 << WIDTHS[f.type]
        size = min(count, total)
        every = total // size
        entry = found.setdefault(f.full, {"inputs": 0, "of": total, "seconds": 0.0})
        if number >= every or "differ" in entry:
            return False
        start = time.monotonic()
        different = compare(f, cpu, device, (number * 0x9E3779B1 + every // 3) % every, every, size)
        entry["seconds"] += time.monotonic() - start
        entry["inputs"] += size
        entry.update(different or {})
        if progress and different:
            progress(f.full, entry)
        return True

    for f in chosen:
        block(f, 0)  # which compiles, too
        before = found[f.full]["seconds"]
        block(f, 1)
        found[f.full]["cost"] = found[f.full]["seconds"] - before
    for f in sorted(chosen, key=lambda f: found[f.full].pop("cost")):
        for number in range(2, blocks or 1 << 32):
            if time.monotonic() - begun > seconds or not block(f, number):
                break
        if progress:
            progress(f.full, found[f.full])
    return found


def coverage(entries) -> str:
    whole, done, of = (sum(n) for n in zip(*((e["inputs"] == e["of"], e["inputs"], e["of"]) for e in entries)))
    return f"{len(entries)} functions, {whole} on all their inputs; {100 * done / of:.3g} % of all inputs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--types", default="f16,bf16,f32", help="of " + ", ".join(INFINITIES))
    parser.add_argument("--functions", default="*", help="names, or patterns of them, separated by commas")
    parser.add_argument("--count", type=int, default=1 << 24, help="inputs of a block, a power of two from 256 on")
    parser.add_argument("--blocks", type=int, help="at most so many of each function")
    parser.add_argument("--json", type=Path, help="write the results here, behind each function")
    given = parser.parse_args()
    if given.count < ROW or given.count & (given.count - 1):
        parser.error(f"--count must be a power of two from {ROW} on")
    chosen = functions(given.types.split(","), given.functions.split(","))
    if not chosen:
        parser.error(f"no function is called {given.functions!r}")

    so_far = {}

    def progress(name, entry):
        differs = f": of {entry['input']} the CPU has {entry['cpu']}, the device {entry['device']}" if "differ" in entry else ""
        so_far[name] = entry
        if given.json:
            given.json.write_text(json.dumps(so_far, indent=1))
        print(f"{name}: {entry['inputs']} of {entry['of']} inputs, {entry['seconds']:.1f} s{differs}", flush=True)

    sides = Side("cpu"), Side(given.device)
    found = sweep(chosen, *sides, count=given.count, seconds=given.seconds, blocks=given.blocks, progress=progress)
    bad = [name for name, entry in found.items() if "differ" in entry]
    for type in given.types.split(","):
        print(f"{type}: {coverage([found[f.full] for f in chosen if f.type == type])}")
    print(f"{len(found)} functions, {len(bad)} differ")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
