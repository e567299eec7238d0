#!/usr/bin/env python3
# tests/torch/opinfo.py: PyTorch's operator database through torch.compile, in worker processes
"""Runs operators of PyTorch's OpInfo database compiled and eager; compares values, metadata,
mutation.

    python tests/torch/opinfo.py                          # the whole database, inference, float32
    python tests/torch/opinfo.py 'nn.functional.*' softmax --mode training --samples 3
    python tests/torch/opinfo.py --expect                 # rewrite the list of expected results

Each operator runs in a worker process with a time limit: a crash or a hang costs that operator
only. Status of an operator, the worst of its samples:
  crash, timeout, error (the backend raised), fail (wrong value or metadata),
  nograph (Dynamo never called the backend), nondet (eager is random: only metadata is compared),
  fallback (right, with operators that the backend left to PyTorch), native (right, without), skip
"""

import argparse
import fnmatch
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

STATUSES = ("crash", "timeout", "error", "fail", "nograph", "nondet", "fallback", "native", "skip")
BAD = STATUSES[:4]
PASSED = ("nondet", "fallback", "native")
EXPECTED = Path(__file__).with_name("opinfo_expected.txt")
FAILED = "a graph that failed to compile"
START_LIMIT = 180.0  # seconds until a worker has imported the database


# --- the worker -----------------------------------------------------------------------------------
class Checker:
    """Runs one operator's samples; lives in the worker process."""

    # Uninitialised memory, or meaningless in a graph.
    SKIPPED = ("empty*", "new_empty*", "jiterator*")

    def __init__(self, options):
        import torch
        from torch.testing._internal.common_methods_invocations import op_db

        torch.set_num_threads(1)
        torch._dynamo.config.suppress_errors = False
        self.torch, self.options = torch, options
        self.dtype = getattr(torch, options.dtype)
        self.training = options.mode == "training"
        self.backend, self.fallbacks = load_backend(options.backend)
        self.table = {op.name + "." * bool(op.variant_test_name) + op.variant_test_name: op
                      for op in op_db if self.wanted(op)}  # fmt: skip

    def wanted(self, op) -> bool:
        if any(fnmatch.fnmatchcase(op.name, pattern) for pattern in self.SKIPPED):
            return False
        if not op.supports_dtype(self.dtype, "cpu"):
            return False
        return not self.training or (op.supports_autograd and self.dtype.is_floating_point)

    def operator(self, name: str) -> dict:
        import itertools

        op, worst, message = self.table[name], "skip", ""
        self.torch.manual_seed(0)
        try:
            samples = op.sample_inputs("cpu", self.dtype, requires_grad=self.training)
            samples = list(itertools.islice(samples, 2000))
        except Exception as error:
            return {"op": name, "status": "skip", "message": f"sample_inputs: {error}"[:300]}
        count = min(self.options.samples or len(samples), len(samples))
        for index in range(count):
            status, text = self.sample(op, samples[index * len(samples) // count])
            if STATUSES.index(status) < STATUSES.index(worst):
                worst, message = status, text
        return {"op": name, "status": worst, "message": message}

    def sample(self, op, sample) -> tuple[str, str]:
        torch, function = self.torch, op.op
        process = sample.output_process_fn_grad if self.training else None
        inputs = (sample.input, *sample.args), sample.kwargs
        try:
            eager_inputs = self.clone(inputs)
            eager = self.call(function, *eager_inputs, process)
            random = not self.equal(
                eager, self.call(function, *self.clone(inputs), process, seed=43)
            )
        except Exception as error:  # not the backend's concern
            return "skip", f"eager: {type(error).__name__}: {error}"[:300]
        torch._dynamo.reset()
        counters = torch._dynamo.utils.counters
        counters.clear()
        before = self.fallbacks()
        compiled = torch.compile(
            lambda *a, **k: function(*a, **k), backend=self.backend, dynamic=self.options.dynamic
        )
        compiled_inputs = self.clone(inputs)
        try:
            actual = self.call(compiled, *compiled_inputs, process)
        except Exception as error:
            return "error", f"{type(error).__name__}: {error}"[:600]
        try:
            self.compare(eager[0], actual[0], "output", values=not random)
            self.compare(
                *self.known_gradients(eager[1], actual[1]), "gradient", not random, scale=10
            )
            if not random:
                leaves = torch.utils._pytree.tree_leaves
                self.compare(leaves(eager_inputs), leaves(compiled_inputs), "input after the call")
        except AssertionError as error:
            return "fail", str(error)[:600]
        after = self.fallbacks()
        left = sorted(name for name, calls in after.items() if calls > before.get(name, 0))
        if FAILED in left:
            return "error", FAILED
        if not counters["stats"].get("unique_graphs", 0):
            return "nograph", "; ".join(list(counters["graph_break"])[:1])[:200]
        if random:
            return "nondet", ""
        return ("fallback", " ".join(left)) if left else ("native", "")

    def clone(self, tree):
        """A copy with the same strides and requires_grad in which shared tensors stay shared."""
        torch, seen = self.torch, {}

        def copy(tensor):
            if id(tensor) not in seen:
                with torch.no_grad():
                    new = tensor.detach().clone()
                    if tensor.layout == torch.strided and new.stride() != tensor.stride() \
                            and 0 not in tensor.stride():  # fmt: skip
                        new = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
                        new.copy_(tensor)
                seen[id(tensor)] = new.requires_grad_() if tensor.requires_grad else new
            return seen[id(tensor)]

        return torch.utils._pytree.tree_map_only(torch.Tensor, copy, tree)

    def call(self, function, args, kwargs, process, seed=42):
        """→ (flat outputs, gradients of the differentiable inputs)"""
        torch, leaves = self.torch, self.torch.utils._pytree.tree_leaves
        torch.manual_seed(seed)
        with torch.set_grad_enabled(self.training):
            result = function(*args, **kwargs)
            outputs = leaves(process(result) if process is not None else result)
        if not self.training:
            return outputs, []
        roots = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
        inputs = [t for t in leaves((args, kwargs))
                  if isinstance(t, torch.Tensor) and t.requires_grad and t.is_leaf]  # fmt: skip
        if not roots or not inputs:
            return outputs, []
        generator = torch.Generator().manual_seed(7)
        directions = [
            torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype)
            for t in roots
        ]
        gradients = torch.autograd.grad(roots, inputs, directions, allow_unused=True)
        return [t.detach() if isinstance(t, torch.Tensor) else t for t in outputs], list(gradients)

    def known_gradients(self, eager, actual):
        """Eager may give None where a traced graph gives zeros; drops pairs without any
        gradient."""
        zeros = self.torch.zeros_like
        pairs = [(zeros(a) if e is None else e, zeros(e) if a is None else a)
                 for e, a in zip(eager, actual) if e is not None or a is not None]  # fmt: skip
        return [e for e, _ in pairs], [a for _, a in pairs]

    def compare(self, expected, actual, what, values=True, scale=1.0):
        torch = self.torch
        assert len(expected) == len(actual), (
            f"{what}: {len(actual)} results, eager has {len(expected)}"
        )
        for index, (e, a) in enumerate(zip(expected, actual)):
            where = f"{what} {index}"
            if not isinstance(e, torch.Tensor):
                same = (
                    e == a
                    or e != e
                    and a != a
                    or isinstance(e, float)
                    and abs(e - a) <= 1e-4 * max(1, abs(e))
                )
                assert not values or same, f"{where}: {a!r}, eager has {e!r}"
                continue
            kind = lambda t: (
                (tuple(t.shape), t.dtype, t.layout) if isinstance(t, torch.Tensor) else type(t)
            )
            assert kind(e) == kind(a), f"{where}: {kind(a)}, eager has {kind(e)}"
            if values:
                dense = lambda t: t.detach().to_dense() if t.layout != torch.strided else t.detach()
                e, a = (dense(t).resolve_conj().resolve_neg() for t in (e, a))
                bound = scale * tolerance(torch, e.dtype)
                torch.testing.assert_close(
                    a, e, rtol=bound, atol=bound, equal_nan=True, msg=lambda m, w=where: f"{w}: {m}"
                )

    def equal(self, first, second) -> bool:
        try:
            self.compare(first[0], second[0], "")
            self.compare(*self.known_gradients(first[1], second[1]), "")
            return True
        except AssertionError:
            return False


def tolerance(torch, dtype) -> float:
    return {torch.float16: 1e-2, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.complex64: 2e-5,
            torch.float64: 1e-7, torch.complex128: 1e-7}.get(dtype, 0.0)  # fmt: skip


def load_backend(name: str):
    """→ (backend for torch.compile, function that returns its counts of what it did not compile)

    `name` is a registered backend, or FILE:FUNCTION."""
    if ":" in name:
        import importlib.util

        path, function = name.rsplit(":", 1)
        spec = importlib.util.spec_from_file_location("backend_under_test", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, function), dict
    if name == "hologram":
        import hologram_torch

        def counts():
            stats = hologram_torch.stats()
            return {**stats["fallback_ops"], FAILED: stats["failed_graphs"]}

        return name, counts
    return name, dict


def serve(options):
    """Answers each operator name on standard input with a line of JSON; what operators print goes
    to stderr."""
    import logging
    import warnings

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    checker = Checker(options)
    logging.disable(logging.WARNING)
    answers.write(json.dumps({"names": list(checker.table)}) + "\n")
    for line in sys.stdin:
        start = time.monotonic()
        answer = checker.operator(line.strip())
        answer["seconds"] = round(time.monotonic() - start, 2)
        answers.write(json.dumps(answer) + "\n")


# --- the lanes ------------------------------------------------------------------------------------
class Worker:
    """A worker process and the answers that arrive from it; None marks its end."""

    def __init__(self, arguments):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", *arguments], text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.answers = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        try:
            self.names = (self.answers.get(timeout=START_LIMIT) or {}).get("names")
        except queue.Empty:
            self.names = None
        if self.names is None:
            self.stop()
            raise RuntimeError("the operator database's worker did not start; run it with --worker")

    def read(self):
        for line in self.process.stdout:
            if line.endswith("\n"):  # a crash may cut the last one
                self.answers.put(json.loads(line))
        self.answers.put(None)

    def ask(self, name: str, limit: float) -> dict:
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            answer = self.answers.get(timeout=limit)
        except queue.Empty:
            self.stop()
            return {"op": name, "status": "timeout", "message": f"more than {limit:g} s"}
        except BrokenPipeError:
            answer = None
        if answer is None:
            self.stop()
            code = self.process.returncode
            return {
                "op": name,
                "status": "crash",
                "message": f"the process ended with status {code}",
            }
        return answer

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def select(names, patterns, sampled=0):
    """The names that match a pattern; of these, `sampled` ones spread over the list (0: all)."""
    chosen = [n for n in names if not patterns or any(fnmatch.fnmatchcase(n, p) for p in patterns)]
    if 0 < sampled < len(chosen):
        chosen = [chosen[i * len(chosen) // sampled] for i in range(sampled)]
    return chosen


def run(patterns=(), *, backend="hologram", dtype="float32", mode="inference", samples=1, sampled=0,
        dynamic=False, jobs=2, timeout=120.0, progress=None) -> dict[str, dict]:  # fmt: skip
    """Runs the chosen operators and returns name → {status, message, seconds}."""
    arguments = ["--backend", backend, "--dtype", dtype, "--mode", mode, "--samples", str(samples)]
    if dynamic:
        arguments.append("--dynamic")
    first = Worker(arguments)
    todo, results = queue.SimpleQueue(), {}
    chosen = select(first.names, patterns, sampled)
    for name in chosen:
        todo.put(name)

    def lane(worker):
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                break
            try:
                if worker is None or not worker.alive:
                    worker = Worker(arguments)
                answer = worker.ask(name, timeout)
            except RuntimeError as error:
                answer = {"op": name, "status": "crash", "message": str(error)}
            results[answer.pop("op")] = answer
            if progress is not None:
                progress(name, answer, len(results), len(chosen))
        if worker is not None and worker.alive:
            worker.stop()

    lanes = [
        threading.Thread(target=lane, args=(None if i else first,)) for i in range(max(1, jobs))
    ]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    return {name: results[name] for name in chosen if name in results}


# --- expectations ---------------------------------------------------------------------------------
def read_expected(path: Path = EXPECTED) -> dict[str, str]:
    """Lines of `status name`, for inference in float32 with one sample."""
    lines = path.read_text().splitlines()
    return {
        name: status for status, name in (line.split() for line in lines if line and line[0] != "#")
    }


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
        "# tests/torch/opinfo_expected.txt: what opinfo.py found, written by `opinfo.py --expect`\n"
        "# inference, float32, one sample per operator\n"
    )
    path.write_text(
        header + "".join(f"{r['status']:8} {name}\n" for name, r in sorted(results.items()))
    )


def summary(results: dict[str, dict]) -> str:
    counts = {s: sum(r["status"] == s for r in results.values()) for s in STATUSES}
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    return f"{len(results)} operators: {', '.join(parts)}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ops", nargs="*", help="names or patterns; none: all")
    parser.add_argument("--backend", default=os.environ.get("HOLOGRAM_TEST_BACKEND", "hologram"))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--mode", choices=("inference", "training"), default="inference")
    parser.add_argument("--dynamic", action="store_true", help="sizes are symbols")
    parser.add_argument("--samples", type=int, default=1, help="samples per operator, 0: all")
    parser.add_argument(
        "--sampled", type=int, default=0, help="that many operators, spread over the list"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds per operator")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--expect", action="store_true", help=f"rewrite {EXPECTED.name}")
    parser.add_argument("--verbose", action="store_true", help="print every operator")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return serve(options)

    def progress(name, result, done, total):
        if options.verbose or result["status"] in BAD:
            print(
                f"[{done}/{total}] {result['status']:8} {name}  {result['message'][:200]!r}",
                flush=True,
            )

    results = run(
        options.ops,
        backend=options.backend,
        dtype=options.dtype,
        mode=options.mode,
        samples=options.samples,
        dynamic=options.dynamic,
        sampled=options.sampled,
        jobs=options.jobs,
        timeout=options.timeout,
        progress=progress,
    )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.expect:
        write_expected(results)
    print(summary(results))
    return int(any(r["status"] in BAD for r in results.values()))


if __name__ == "__main__":
    sys.exit(main())
