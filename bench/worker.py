# bench/worker.py: one case under one peer in one process; session.py starts it and asks for timings
"""usage: worker.py CASE PEER THREADS [FOLDER OF HOLOGRAM'S MODULES]

Answers on standard output, one line of JSON each: first what the first call took, then an answer to
every request line on standard input ({"seconds": s, "latencies": bool}; {"work": true}, the last one, asks what the case computes).
Whatever libraries print goes to standard error."""

import contextlib
import copy
import ctypes
import gc
import json
import os
import signal
import sys
import time


def end_with_parent():
    """On Linux: this process is killed when the harness ends, even while it is stopped."""
    with contextlib.suppress(AttributeError):
        set_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def check(outputs, reference, tolerance: float) -> float:
    """The largest error relative to the largest reference value of its output; raises when too
    large."""
    import torch
    from peers import Unavailable
    from torch.utils import _pytree as pytree

    worst = 0.0
    tensors = [torch.as_tensor(t) for t in pytree.tree_leaves(outputs)]
    expected = pytree.tree_leaves(reference)
    if len(tensors) < len(expected):
        raise Unavailable(f"wrong result: {len(tensors)} outputs instead of {len(expected)}")
    for actual, right in zip(tensors, expected):
        if actual.shape != right.shape:
            raise Unavailable(
                f"wrong result: shape {tuple(actual.shape)}, not {tuple(right.shape)}"
            )
        error = (actual.double() - right).abs().max() / right.abs().max()
        worst = max(worst, error.item() if error == error else float("inf"))
    if worst > tolerance:
        raise Unavailable(f"wrong result: relative error {worst:.1e}, allowed {tolerance:.0e}")
    return worst


def prepare(case, peer, threads: int):
    """→ (call, what the first call was like)"""
    import torch
    from peers import Unavailable
    from torch.utils import _pytree as pytree

    torch.set_num_threads(threads)
    start = time.perf_counter()
    peer.load()
    loaded = time.perf_counter() - start
    module, inputs = case.build()
    double = lambda t: t.double() if t.is_floating_point() else t
    reference = None
    if peer.checked:
        exact = module if not isinstance(module, torch.nn.Module) else copy.deepcopy(module).double()
        reference = exact(*pytree.tree_map(double, inputs))
    start = time.perf_counter()
    call = peer.prepare(case, module, inputs, threads)
    outputs = call()
    first = {"first": time.perf_counter() - start, "load": loaded}
    if peer.checked:
        first["error"] = check(outputs, reference, case.tolerance)
        first["error"] = max(first["error"], check(call(), reference, case.tolerance))
    if peer.name == "hologram":
        import hologram_torch

        first["stats"] = hologram_torch.stats()
        if first["stats"].get("failed_graphs"):
            raise Unavailable("a graph was not compiled; HOLOGRAM_LOG=warning says why")
    return call, first


def block_size(call, target: float = 1e-3) -> int:
    """Calls per timed block, so that the clock's own cost does not count."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        elapsed = time.perf_counter() - start
        if elapsed >= target:
            return count
        count *= 2


def measure(call, seconds: float) -> dict:
    """Seconds per call: median, minimum and percentiles over blocks of calls that fill the given time."""
    count, times = block_size(call), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count)
    times.sort()
    shares = {name: times[int(share * (len(times) - 1))] for name, share in (("p25", 0.25), ("p75", 0.75), ("p99", 0.99))}
    return {"median": times[len(times) // 2], "min": times[0], **shares, "calls": count * len(times)}


def latencies(call, seconds: float) -> dict:
    """Seconds of single calls: mean, median, 99th percentile and maximum."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 100:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    times.sort()
    at = lambda share: times[int(share * (len(times) - 1))]
    return {
        "mean": sum(times) / len(times),
        "median": at(0.5),
        "p99": at(0.99),
        "max": times[-1],
        "calls": len(times),
    }


def work(case) -> dict:
    """What the case computes and moves, by Hologram's plans of it: limits.work_of. Forgets what was compiled."""
    import limits

    import hologram_torch

    module, inputs = case.build()
    return limits.work_of(hologram_torch.explain(module, *inputs).graphs)


def import_from(folder: str):
    """Puts the modules of a checkout before Hologram's installed ones, an editable installation's included."""
    sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith("_editable_skbc_hologram")]
    sys.path.insert(0, folder)


def main(case_name: str, peer_name: str, threads: str, modules: str = ""):
    end_with_parent()
    if modules:
        import_from(modules)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    answer = lambda message: answers.write(json.dumps(message) + "\n")
    import cases
    import peers
    import torch

    with torch.no_grad():
        try:
            call, first = prepare(cases.find(case_name), peers.PEERS[peer_name], int(threads))
        except Exception as error:
            name = "" if isinstance(error, peers.Unavailable) else f"{type(error).__name__}: "
            text = str(error).strip() or "no message"
            return answer({"failed": name + text.splitlines()[0][:300]})
        answer(first)
        for _ in range(3):
            call()
        gc.collect()
        gc.freeze()
        for line in sys.stdin:
            request = json.loads(line)
            if request.get("work"):
                answer(work(cases.find(case_name)))
                continue
            how = latencies if request.get("latencies") else measure
            answer(how(call, request["seconds"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
