# tests/torch/test_opinfo.py: conformance over PyTorch's operator database (opinfo.py)
"""By default a sample of the operators runs; HOLOGRAM_OPINFO=all runs every one,
HOLOGRAM_OPINFO=100 a hundred, HOLOGRAM_OPINFO=softmax,nn.* those of the patterns.

Beside them HOLOGRAM_OPINFO_DRAWN (50) times three samples, drawn at random from every way to run them:
from HOLOGRAM_OPINFO_SEED, or the commit's own seed."""

import os
import random
import threading
import time
from pathlib import Path

import hologram
import opinfo
import pytest
from harness import BACKEND, seed_of

# What opinfo.py finds for a backend that only traces (aot_eager); the rest never reaches a backend.
REACHABLE = 619
NATIVE_SHARE = 0.60
# Operators that eager refuses in a way of their own each: a dtype, a truth value, no elements, sizes.
REFUSING = ["abs", "max.reduction_no_dim", "max.reduction_with_dim", "nn.functional.adaptive_avg_pool2d", "nn.functional.hardswish",
            "cdist", "_softmax_backward_data", "diagonal_scatter"]  # fmt: skip


def chosen() -> dict:
    wanted = os.environ.get("HOLOGRAM_OPINFO", "60")
    if wanted == "all":
        return {}
    if wanted.isdigit():
        return {"sampled": int(wanted)}
    return {"patterns": wanted.split(",")}


@pytest.fixture(scope="module")
def expected():
    return opinfo.read_expected()


def test_operators(expected):
    results = opinfo.run(backend=BACKEND, jobs=os.cpu_count(), **chosen())
    print(opinfo.summary(results))
    assert results
    if BACKEND != "hologram":  # another backend has its own native share
        expected = {name: "fallback" if s == "native" else s for name, s in expected.items()}
    assert not opinfo.regressions(results, expected), "worse than opinfo_expected.txt"
    if chosen() == {}:
        statuses = [r["status"] for r in results.values()]
        assert sum(s in opinfo.PASSED for s in statuses) >= REACHABLE


def drawn(names, seed: int, count: int) -> list[dict]:
    """Requests: an operator, a way to run it and samples, all at random."""
    draw, requests = random.Random(seed), []
    for _ in range(count):
        mode, dtype = draw.choice(("inference", "training")), draw.choice(("float32", "bfloat16"))
        edges, dynamic = draw.choice(((True, False), (True, True), (False, False), (False, True)))
        request = {
            "op": draw.choice(names[f"{dtype} {mode}"]), "mode": mode, "dtype": dtype,
            "edges": edges, "dynamic": dynamic, "direct": draw.random() < 0.7, "errors": False,
            "samples": 3, "seed": draw.randrange(1 << 30), "backend": BACKEND,
        }  # fmt: skip
        if draw.random() < 0.3:
            request |= {"errors": True, "mode": "inference", "dtype": "float32", "samples": 9}
            request["op"] = draw.choice(names["float32 inference"])
        requests.append(request)
    return requests


def repeat(request) -> str:
    flags = [f"--{name}" for name in ("errors", "edges", "dynamic", "direct") if request[name]]
    values = [f"--{name} {request[name]}" for name in ("mode", "dtype", "samples", "seed")]
    return " ".join(["bench/conformance/opinfo.py", f"'{request['op']}'", *flags, *values])


def test_samples_drawn_at_random():
    seed = seed_of("HOLOGRAM_OPINFO_SEED")
    count = int(os.environ.get("HOLOGRAM_OPINFO_DRAWN", 50))
    worker = opinfo.Worker()
    done = opinfo.run_requests(drawn(worker.names, seed, count), jobs=os.cpu_count(), timeout=60.0, worker=worker, reference="aot_eager")
    print(opinfo.summary({str(i): result for i, (_, result) in enumerate(done)}))
    known = opinfo.read_known()
    bad = [f"{repeat(request)}: {fault['label']}: {fault['status']}: {fault['message'][:300]}"
           for request, result in done for fault in result["bad"]
           if not opinfo.is_known(request, known)]  # fmt: skip
    assert done
    assert not bad, f"HOLOGRAM_OPINFO_SEED={seed}\n" + "\n".join(bad)


@pytest.mark.skipif(hologram.device_count("webgpu") == 0, reason="no adapter: install mesa-vulkan-drivers")
def test_operators_on_webgpu():
    """A part of them, the same in each run; HOLOGRAM_BACKEND=webgpu runs opinfo.py there."""
    backend = f"{Path(__file__).with_name('device_backends.py')}:webgpu"
    results = opinfo.run(backend=backend, sampled=14, samples=2, together=2, seed=3, edges=True, direct=True, reference="aot_eager", jobs=1)
    known = opinfo.read_known()
    bad = [f"{name}: {fault['label']}: {fault['message'][:300]}" for name, result in results.items() for fault in result["bad"]
           if not opinfo.is_known({"op": name, "edges": True, "direct": True}, known)]  # fmt: skip
    assert not bad, "\n".join(bad)
    assert sum(result["status"] in opinfo.PASSED for result in results.values()) > 6


def test_calls_that_eager_refuses():
    """Of other dtypes, without elements, of other sizes; HOLOGRAM_OPINFO=all searches the database."""
    ways = {"samples": 0} if chosen() == {} else {"samples": 12, "seed": seed_of("HOLOGRAM_OPINFO_SEED")}
    names = [] if chosen() == {} else chosen().get("patterns", REFUSING)
    results = opinfo.run(names, backend=BACKEND, jobs=os.cpu_count(), errors=True, reference="aot_eager", **ways)
    print(opinfo.summary(results))
    known = opinfo.read_known()
    bad = [f"{name}: {fault['label']}: {fault['message'][:300]}" for name, result in results.items() for fault in result["bad"]
           if not opinfo.is_known({"op": name, "errors": True}, known)]  # fmt: skip
    assert not bad, "\n".join(bad)
    assert sum(result["samples"].get("native", 0) for result in results.values()) > 2 * len(names)


def test_expected_native_share(expected):
    statuses = list(expected.values())
    passed = sum(s in opinfo.PASSED for s in statuses)
    assert passed >= REACHABLE
    assert statuses.count("native") >= NATIVE_SHARE * passed
    assert not any(s in opinfo.BAD for s in statuses)


def test_a_faulty_backend_is_found_out():
    results = opinfo.run(["sin", "cos", "exp", "tan", "tanh"], backend=bad_backend("faulty"), jobs=1, timeout=6.0)
    found = {name: result["status"] for name, result in results.items()}
    assert found == {"sin": "crash", "cos": "timeout", "exp": "fail", "tan": "error", "tanh": "native"}
    expected = {"sin": "native", "cos": "native", "exp": "fallback", "tan": "error", "tanh": "fallback"}
    worse = opinfo.regressions(results, expected)
    assert [line.split(":")[0] for line in worse] == ["cos", "exp", "sin"]


def bad_backend(name: str) -> str:
    return f"{Path(__file__).with_name('bad_backends.py')}:{name}"


def test_progress_is_told_by_one_worker_at_a_time_and_its_errors_are_raised(monkeypatch):
    class Quick:
        def __init__(self, *_):
            self.run, self.stop = lambda request: {}, lambda: None

    monkeypatch.setattr(opinfo, "Lane", Quick)
    busy = threading.Lock()

    def progress(*_):
        assert busy.acquire(blocking=False)
        time.sleep(0.001)
        busy.release()

    requests = [{"op": str(number)} for number in range(40)]
    ran = opinfo.run_requests(requests, jobs=4, progress=progress)
    assert [request for request, _ in ran] == requests
    with pytest.raises(ZeroDivisionError):
        opinfo.run_requests(requests, jobs=4, progress=lambda *_: 1 / 0)


def test_samples_that_crash_together_are_run_one_by_one():
    results = opinfo.run(["sin", "tanh"], backend=bad_backend("faulty"), jobs=1, direct=True, edges=True, samples=2, together=2)
    assert results["sin"]["samples"] == {"crash": 2}
    assert results["tanh"]["samples"] == {"native": 2}
    assert [fault["sample"] for fault in results["sin"]["bad"]] == [0, 3]


def test_graphs_of_symbolic_sizes_are_called_with_others():
    results = opinfo.run(
        ["sin", "exp", "abs"], backend=bad_backend("narrow_minded"), jobs=1, direct=True, dynamic=True,
        samples=1, done=["abs"],
    )  # fmt: skip
    assert sorted(results) == ["exp", "sin"], "a search goes on where it stopped"
    assert results["sin"]["status"] == "native"
    assert results["exp"]["message"].startswith("every size doubled")


def test_results_without_strides_stay_with_a_graph():
    """A sparse matrix that an operator left to PyTorch gives, in a graph of symbolic sizes."""
    result = opinfo.run(["sparse.sampled_addmm"], backend=BACKEND, jobs=1, dynamic=True, direct=True)
    assert result["sparse.sampled_addmm"]["status"] in ("fallback", "native")


def test_a_lost_native_kernel_is_a_regression():
    result = {"softmax": {"status": "fallback", "message": "aten._softmax.default"}}
    assert opinfo.regressions(result, {"softmax": "fallback"}) == []
    assert opinfo.regressions(result, {"softmax": "native"}) == ["softmax: fallback, expected native: aten._softmax.default"]
