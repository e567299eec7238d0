# tests/torch/test_opinfo.py: conformance over PyTorch's operator database (opinfo.py)
"""By default a sample of the operators runs; HOLOGRAM_OPINFO=all runs every one,
HOLOGRAM_OPINFO=100 a hundred, HOLOGRAM_OPINFO=softmax,nn.* those of the patterns.

Beside them HOLOGRAM_OPINFO_DRAWN (50) times three samples, drawn at random from every way to run them:
from HOLOGRAM_OPINFO_SEED, or the commit's own seed."""

import os
import random
import types
from pathlib import Path

import hologram
import opinfo
import opinfo_ties
import opinfo_worker
import pytest
import torch
from harness import BACKEND, seed_of

# What opinfo.py finds for a backend that only traces (aot_eager); the rest never reaches a backend.
REACHABLE = 619
# Operators that eager refuses in a way of their own each: a dtype, a truth value, no elements, sizes.
REFUSING = ["abs", "max.reduction_no_dim", "max.reduction_with_dim", "nn.functional.adaptive_avg_pool2d", "nn.functional.hardswish",
            "cdist", "_softmax_backward_data", "diagonal_scatter"]  # fmt: skip


def chosen() -> dict:
    wanted = os.environ.get("HOLOGRAM_OPINFO", "60")
    return {} if wanted == "all" else {"sampled": int(wanted)} if wanted.isdigit() else {"patterns": wanted.split(",")}


def test_operators():
    expected = opinfo.read_expected()
    results = opinfo.run(backend=BACKEND, jobs=os.cpu_count(), **chosen())
    print(opinfo.summary(results))
    if BACKEND != "hologram":  # another backend has its own native share
        expected = {name: "fallback" if s == "native" else s for name, s in expected.items()}
    assert results and not opinfo.regressions(results, expected), "worse than opinfo_expected.txt"
    assert chosen() or sum(r["status"] in opinfo.PASSED for r in results.values()) >= REACHABLE


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


def unknown(done) -> list[str]:
    """What went wrong in pairs of a request and its result, and how to repeat it, but for opinfo_known.txt."""
    known, bad = opinfo.read_known(), []
    for request, result in done:
        how = " ".join(f"--{name}" + f" {value}" * (value is not True) for name, value in request.items() if value and name != "op")
        faults = () if opinfo.is_known(request, known) else result["bad"]
        bad += [f"opinfo.py '{request['op']}' {how}: {fault['label']}: {fault['status']}: {fault['message'][:300]}" for fault in faults]
    return bad


def test_samples_drawn_at_random():
    seed = seed_of("HOLOGRAM_OPINFO_SEED")
    count = int(os.environ.get("HOLOGRAM_OPINFO_DRAWN", 50))
    worker = opinfo.Worker()
    done = opinfo.run_requests(drawn(worker.names, seed, count), jobs=os.cpu_count(), timeout=60.0, worker=worker, reference="aot_eager")
    print(opinfo.summary({str(i): result for i, (_, result) in enumerate(done)}))
    bad = unknown(done)
    assert done and not bad, f"HOLOGRAM_OPINFO_SEED={seed}\n" + "\n".join(bad)


# Arguments beside a tensor of 3 times the numbers 0 to 9, what comes out by which indices, and wrong ones.
CHOICES = {
    "sort": ((), {}, torch.arange(30).reshape(3, 10).T.flip(1).reshape(-1), [0, *range(29)]),
    "argsort": ((0, True), {}, torch.arange(30).reshape(3, 10).T.flip(0).reshape(-1), [0] * 30),
    "topk": ((4,), {"largest": False}, torch.tensor([20, 0, 10, 1]), [0, 0, 10, 1]),
    "kthvalue": ((3,), {}, torch.tensor(20), 21),
    "median": ((0,), {}, torch.tensor(24), 25),
}


@pytest.mark.parametrize("name", CHOICES)
def test_which_choices_among_equal_elements_are_right(name):
    args, named, places, others = CHOICES[name]
    x = torch.arange(10.0).repeat(3).requires_grad_()
    eager = getattr(torch, name)(x, *args, **named)
    eager = [eager] if name == "argsort" else list(eager)
    directions = [torch.randn(places.shape)] * (len(eager) - 1)

    def judged(places, values=None, gradient=None, **more):
        values = x.detach()[places] if values is None else values
        given = [torch.zeros(30).scatter(0, places.reshape(-1), d.reshape(-1)) for d in directions] if gradient is None else gradient
        outputs = [values, places] if directions else [places]
        return opinfo_ties.right(name, ((x, *args), named | more), (eager, []), (outputs, given), directions)

    wrong = torch.tensor(others)
    assert judged(places) and not judged(places, stable=True)
    assert not judged(wrong) and not judged(wrong, values=x.detach()[places])
    if directions:
        assert not judged(places, values=x.detach()[places] + 1e-3)
        assert not judged(places, gradient=[torch.randn(30)])


def test_gradients_of_sorts_without_indices_move_among_equal_elements_alone():
    x = torch.tensor([2.0, 1.0, 2.0]).requires_grad_()
    outputs, directions = [torch.msort(x).detach()], [torch.tensor([5.0, 6.0, 7.0])]
    for gradient, right in (([6.0, 5.0, 7.0], True), ([7.0, 5.0, 6.0], True), ([5.0, 6.0, 7.0], False), ([6.0, 5.0, 6.0], False)):
        assert opinfo_ties.right("msort", ((x,), {}), (outputs, []), (outputs, [torch.tensor(gradient)]), directions) == right


def test_float64_decides_where_eager_rounds_more():
    op, infinite = types.SimpleNamespace(supports_dtype=lambda *_: True), float("inf")
    checker = opinfo_worker.Checker(op, {**opinfo.DEFAULTS, "dtype": "float16", "backend": "eager"})
    x, y = torch.full((2,), 12.0, dtype=torch.float16), torch.zeros(2, dtype=torch.float16)

    def right(ours, eager, *ends):
        parts = [([torch.full_like(x, number)], [], [x, torch.full_like(x, end)]) for number, end in zip((eager, ours), ends or (12, 12))]
        return checker.as_near_the_truth(lambda x, y: y.copy_(x.exp().log()), ((x, y), {}), None, *parts)

    assert right(12, infinite) and right(infinite, infinite) and right(12.02, 12.01) and right(12, 12, infinite, 12)
    assert not right(13, infinite) and not right(infinite, 12) and not right(12.1, 12.01) and not right(12, 12, 12, 13)


@pytest.mark.skipif(hologram.device_count("webgpu") == 0, reason="no adapter: install mesa-vulkan-drivers")
def test_operators_on_webgpu():
    """A part of them, the same in each run; HOLOGRAM_BACKEND=webgpu runs opinfo.py there."""
    backend = f"{Path(__file__).with_name('device_backends.py')}:webgpu"
    results = opinfo.run(backend=backend, sampled=14, samples=2, together=2, seed=3, edges=True, direct=True, reference="aot_eager", jobs=1)
    bad = unknown([({"op": name, "edges": True, "direct": True}, result) for name, result in results.items()])
    assert not bad, "\n".join(bad)
    assert sum(result["status"] in opinfo.PASSED for result in results.values()) > 6


def test_calls_that_eager_refuses():
    """Of other dtypes, without elements, of other sizes; HOLOGRAM_OPINFO=all searches the database."""
    ways = {"samples": 0} if chosen() == {} else {"samples": 12, "seed": seed_of("HOLOGRAM_OPINFO_SEED")}
    names = [] if chosen() == {} else chosen().get("patterns", REFUSING)
    results = opinfo.run(names, backend=BACKEND, jobs=os.cpu_count(), errors=True, reference="aot_eager", **ways)
    print(opinfo.summary(results))
    bad = unknown([({"op": name, "errors": True}, result) for name, result in results.items()])
    assert not bad, "\n".join(bad)
    assert sum(result["samples"].get("native", 0) for result in results.values()) > 2 * len(names)
