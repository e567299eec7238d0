#!/usr/bin/env python3
# bench/conformance/opinfo.py: PyTorch's operator database through torch.compile, in worker processes
"""Runs operators of PyTorch's OpInfo database compiled and eager; compares values, metadata,
mutation.

    python bench/conformance/opinfo.py                          # the whole database, inference, float32
    python bench/conformance/opinfo.py 'nn.functional.*' softmax --mode training --samples 3
    python bench/conformance/opinfo.py --samples 0 --edges --dynamic --shard 1/4 --json part1.json
    python bench/conformance/opinfo.py --device cuda            # a part of it, on CUDA tensors
    python bench/conformance/opinfo.py --device hologram        # by eager operators on our device; with --errors, calls that eager refuses
    python bench/conformance/opinfo.py --merge part*.json       # their summary
    python bench/conformance/opinfo.py --expect                 # rewrite the list of expected results

Samples run in worker processes with a time limit: a crash or a hang costs one sample. Status of an
operator, the worst of its samples:
  crash, timeout, error (the backend raised), fail (wrong value or metadata),
  nograph (Dynamo never called the backend), nondet (eager is random: only metadata is compared),
  fallback (right, with operators that the backend left to PyTorch or, where HOLOGRAM_BACKEND names a device, kernels to the host),
  native (right, without), skip
What goes wrong with the backend --reference too is not ours: such samples count as skip.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import multiprocessing
import os
import queue
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
from forks import FORKING  # noqa: E402
from opinfo_worker import DEFAULTS, PASSED, STATUSES, TOGETHER, serve  # noqa: E402

BAD = STATUSES[:4]
EXPECTED = Path(__file__).with_name("opinfo_expected.txt")
KNOWN = Path(__file__).with_name("opinfo_known.txt")
ON_A_GPU = 150  # operators by default
START_LIMIT = 300.0  # seconds until a worker has imported the database


class Worker:
    """A process that runs samples, and what it answers. On a GPU it imports all by itself: no fork may use one."""

    def __init__(self, device="cpu"):
        context = multiprocessing.get_context("spawn") if device.startswith("cuda") else FORKING
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, device), daemon=True)
        self.process.start()
        theirs.close()
        self.names = self.answer(START_LIMIT).get("names")
        if self.names is None:
            self.stop()
            raise RuntimeError("the operator database did not load")

    def answer(self, limit: float) -> dict:
        """The next one; {"lost": why} behind the last."""
        try:
            if self.connection.poll(limit):
                return self.connection.recv()
        except (EOFError, OSError):  # a crash may cut it
            return {"lost": "crash"}
        return {"lost": "timeout"}

    def ask(self, request: dict, limit: float):
        """Yields (sample, label, status, message); `limit`: seconds for a sample. The worker is
        stopped after a crash or a timeout."""
        try:
            self.connection.send(request)
        except BrokenPipeError:
            pass
        begun = (request.get("first", 0), "before the first sample")
        while True:
            answer = self.answer(limit)
            if "lost" in answer:
                self.stop()
                late = answer["lost"] == "timeout"
                message = f"more than {limit:g} s" if late else f"the process ended with status {self.process.exitcode}"
                yield (*begun, answer["lost"], message)
                return
            if "end" in answer:
                return
            if "at" in answer:
                begun = (answer["at"], answer["label"])
            else:
                yield (*begun, answer["status"], answer["message"])

    @property
    def alive(self) -> bool:
        return not self.connection.closed

    def stop(self):
        self.connection.close()
        self.process.kill()
        self.process.join()


class Lane:
    """Runs requests one after the other, in a fresh worker after each that was lost."""

    def __init__(self, limit: float, reference: str | None, worker: Worker | None = None):
        self.limit, self.reference, self.worker = limit, reference, worker

    def ask(self, request: dict):
        if self.worker is None or not self.worker.alive:
            self.worker = Worker(request.get("device", "cpu"))
        return list(self.worker.ask(request, self.limit))

    def run(self, request: dict) -> dict:
        """{status, message, seconds, samples: count per status, bad: list} of one operator."""
        start = time.monotonic()
        results, first = [], 0
        while True:
            part = self.ask({**request, "first": first})
            results += part
            if self.worker.alive:
                break
            if part[-1][1] == TOGETHER:  # which of them it was
                results.pop()
                request, first = {**request, "together": 1}, part[-1][0]
                continue
            first = part[-1][0] + 1
            if request.get("only") is not None or part[-1][1].startswith("before"):
                break
        results = [self.excused(request, *r) if r[2] in BAD else r for r in results]
        counts = {s: sum(r[2] == s for r in results) for s in STATUSES}
        bad = [
            {"sample": n, "label": label, "status": status, "message": message}
            for n, label, status, message in results
            if status in BAD
        ]
        worst = min(results, key=lambda r: STATUSES.index(r[2]), default=(0, "", "skip", ""))
        return {
            "status": worst[2],
            "message": worst[3],
            "seconds": round(time.monotonic() - start, 2),
            "samples": {s: n for s, n in counts.items() if n},
            "bad": bad,
        }

    def excused(self, request, number, label, status, message):
        """A bad sample again with the reference: what is bad there too is not ours."""
        if not self.reference or request.get("backend") == self.reference or request.get("device") == "hologram":
            return number, label, status, message
        again = self.ask({**request, "backend": self.reference, "only": number, "first": 0, "together": 1})
        if again and again[-1][2] in (*BAD, "skip"):
            return number, label, "skip", f"{self.reference}: {again[-1][2]}: {again[-1][3]}"
        return number, label, status, message

    def stop(self):
        if self.worker is not None and self.worker.alive:
            self.worker.stop()


def select(names, patterns, sampled=0):
    """The names that match a pattern; of these, `sampled` ones spread over the list (0: all)."""
    chosen = [n for n in names if not patterns or any(fnmatch.fnmatchcase(n, p) for p in patterns)]
    if 0 < sampled < len(chosen):
        chosen = [chosen[i * len(chosen) // sampled] for i in range(sampled)]
    return chosen


def run_requests(requests, *, jobs=2, timeout=120.0, reference=None, progress=None, worker=None) -> list:
    """Runs requests (see opinfo_worker.DEFAULTS) on `jobs` workers; → [(request, result)] in the requests' order."""
    todo, results, one_at_a_time = queue.SimpleQueue(), {}, threading.Lock()
    for item in enumerate(requests):
        todo.put(item)

    def loop(lane):
        try:
            while True:
                try:
                    number, request = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    result = lane.run(request)
                except RuntimeError as error:
                    result = {"status": "crash", "message": str(error), "seconds": 0.0, "bad": []}
                with one_at_a_time:
                    results[number] = (request, result)
                    if progress is not None:
                        progress(request["op"], result, len(results), len(requests))
        finally:
            lane.stop()

    lanes = [Lane(timeout, reference, None if i else worker) for i in range(max(1, jobs))]
    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
        for done in [pool.submit(loop, lane) for lane in lanes]:
            done.result()  # raises what its thread did
    return [results[n] for n in sorted(results)]


def run(patterns=(), *, sampled=0, shard=(0, 1), jobs=2, timeout=120.0, reference=None,
        progress=None, done=(), **request) -> dict[str, dict]:  # fmt: skip
    """Runs the chosen operators and returns name → {status, message, seconds, samples, bad}.

    `request`: what opinfo_worker.DEFAULTS names. `shard` (i, n): every n-th operator from i on, but for those `done`."""
    worker = Worker(request.get("device", "cpu"))
    full = {**DEFAULTS, **request}
    chosen = select(worker.names[f"{full['dtype']} {full['mode']}"], patterns, sampled)
    requests = [{**request, "op": name} for name in chosen[shard[0] :: shard[1]] if name not in done]
    ran = run_requests(
        requests, jobs=jobs, timeout=timeout, reference=reference, progress=progress, worker=worker
    )
    return {request["op"]: result for request, result in ran}


# --- expectations ---------------------------------------------------------------------------------
def read_expected(path: Path = EXPECTED) -> dict[str, str]:
    """Lines of `status name`, for inference in float32 with one sample."""
    lines = path.read_text().splitlines()
    return {
        name: status for status, name in (line.split() for line in lines if line and line[0] != "#")
    }


def read_known(path: Path = KNOWN) -> list[tuple[str, str]]:
    """(pattern of operators, words that the request must have) of faults that are not mended."""
    lines = [line.split("#")[0].split() for line in path.read_text().splitlines()]
    return [(words[0], " ".join(words[1:])) for words in lines if words]


def is_known(request: dict, known) -> bool:
    """`request` as words: dtype, mode, and those of dynamic, edges, errors and direct that it asks for."""
    full = {**DEFAULTS, **request}
    words = {full["dtype"], full["mode"], *(w for w in ("dynamic", "edges", "errors", "direct") if full[w])}
    return any(fnmatch.fnmatchcase(full["op"], p) and set(w.split()) <= words for p, w in known)


def regressions(results: dict[str, dict], expected: dict[str, str]) -> list[str]:
    """Operators that are worse than expected, each with what happened; an unknown one must not be
    bad."""
    worse = []
    for name, result in results.items():
        status, wanted = result["status"], expected.get(name, "nograph")
        known_bad = status in BAD and wanted == status
        if STATUSES.index(status) < STATUSES.index(wanted) and not known_bad:
            worse.append(f"{name}: {status}, expected {wanted}: {result['message'][:300]}")
    return worse


def write_expected(results: dict[str, dict], path: Path = EXPECTED):
    header = (
        "# bench/conformance/opinfo_expected.txt: what opinfo.py found, written by `opinfo.py --expect`\n"
        "# inference, float32, one sample per operator\n"
    )
    path.write_text(
        header + "".join(f"{r['status']:8} {name}\n" for name, r in sorted(results.items()))
    )


def summary(results: dict[str, dict]) -> str:
    def text(counts):
        return ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts.get(s))

    by_operator = {s: sum(r["status"] == s for r in results.values()) for s in STATUSES}
    by_sample = {s: sum(r.get("samples", {}).get(s, 0) for r in results.values()) for s in STATUSES}
    return (
        f"{len(results)} operators: {text(by_operator)}\n"
        f"{sum(by_sample.values())} samples: {text(by_sample)}"
    )


# --- the command ----------------------------------------------------------------------------------
def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("ops", nargs="*", help="names or patterns; none: all")
    add("--backend", default=os.environ.get("HOLOGRAM_TEST_BACKEND", "hologram"))
    add("--reference", default="aot_eager", help="a backend to excuse faults; '': none")
    add("--device", default="cpu", help="of the samples: cpu, cuda; hologram: on our device, operator by operator")
    add("--dtype", default="float32")
    add("--mode", choices=("inference", "training"), default="inference")
    add("--dynamic", action="store_true", help="sizes are symbols")
    add("--edges", action="store_true", help="samples with axes of 0 and of 1 in every place")
    add("--lazy", action="store_true", help="with --device hologram: with operators that wait, device.lazy()")
    add("--outs", action="store_true", help="with --device hologram: with tensors for the results, out=")
    add("--errors", action="store_true", help="calls that eager refuses: the backend has to refuse them")
    add("--direct", action="store_true", help="without Dynamo: quicker")
    add("--values-only", dest="memory", action="store_false", help="look at no memory (same_memory.py)")
    add("--together", type=int, default=1, help="with --direct: so many samples in one graph")
    add("--samples", type=int, default=1, help="samples per operator, 0: all")
    add("--seed", type=int, help="picks the samples at random")
    add("--only", type=int, help="the number of the one sample to run")
    add("--sampled", type=int, help=f"that many operators, spread over the list, 0: all (default; {ON_A_GPU} on a GPU)")
    add("--shard", default="1/1", help="I/N: the I-th of N parts of the operators, from 1")
    add("--jobs", type=int, default=os.cpu_count())
    add("--timeout", type=float, default=120.0, help="seconds per sample")
    add("--json", type=Path, help="write the results here, behind each operator")
    add("--resume", action="store_true", help="leave out what --json has already")
    add("--merge", type=Path, nargs="+", help="results of --json to sum up; runs nothing")
    add("--expect", action="store_true", help=f"rewrite {EXPECTED.name}")
    add("--verbose", action="store_true", help="print every operator")
    options = parser.parse_args()
    if options.resume and not options.json:
        parser.error("--resume needs --json")
    if options.sampled is None:
        options.sampled = ON_A_GPU if options.device.startswith("cuda") and not options.ops else 0
    return options


def show(name, result, done, total):
    print(
        f"[{done}/{total}] {result['status']:8} {name} {result['message'][:200]!r}",
        *(f"    {b['status']} {b['sample']} ({b['label']}): {b['message'][:200]!r}"
          for b in result["bad"]),
        sep="\n", flush=True,
    )  # fmt: skip


def merged(paths) -> dict[str, dict]:
    """The results of several runs; of an operator in several, the worse status and all samples."""
    out = {}
    for path in paths:
        for name, result in json.loads(path.read_text()).items():
            old = out.setdefault(name, {"status": "skip", "message": "", "samples": {}, "bad": []})
            if STATUSES.index(result["status"]) < STATUSES.index(old["status"]):
                old.update(status=result["status"], message=result["message"])
            for status, count in result["samples"].items():
                old["samples"][status] = old["samples"].get(status, 0) + count
            old["bad"] += result["bad"]
    return out


def main():
    options = parse()
    if options.merge:
        results = merged(options.merge)
        for name, result in results.items():
            if result["bad"]:
                show(name, result, 0, len(results))
        print(summary(results))
        return int(any(r["bad"] for r in results.values()))

    def progress(name, result, done, total):
        if options.verbose or result["bad"]:
            show(name, result, done, total)
        if options.json:
            so_far[name] = result
            options.json.write_text(json.dumps(so_far, indent=1))

    so_far = json.loads(options.json.read_text()) if options.resume and options.json.exists() else {}
    part, parts = map(int, options.shard.split("/"))
    names = ("backend", "device", "dtype", "mode", "dynamic", "edges", "outs", "lazy", "errors", "samples", "seed", "only", "direct",
             "together", "memory")  # fmt: skip
    results = run(
        options.ops,
        sampled=options.sampled,
        shard=(part - 1, parts),
        jobs=options.jobs,
        timeout=options.timeout,
        reference=options.reference,
        progress=progress,
        done=so_far,
        **{name: getattr(options, name) for name in names},
    )
    if options.expect:
        write_expected(results)
    results = {**so_far, **results}
    print(summary(results))
    return int(any(r["status"] in BAD for r in results.values()))


if __name__ == "__main__":
    sys.exit(main())
