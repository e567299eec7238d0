# tests/torch/test_unusual_calls.py: calls that are interrupted, entered again, forked, shared by threads, or of overlapping tensors
import os
import signal
import threading
import time

import pytest
import torch
from harness import check, compile_fresh
from torch import nn
from zoo import normal


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of POSIX")
def test_interrupted_compilations_leave_nothing_behind(request):
    layers = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for _ in range(5)]
    module, x = nn.Sequential(*layers).eval(), normal(2, 16, 24, 24)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest-xdist's workers ignore it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))

    def interrupted(delay):
        compiled = compile_fresh(module)
        timer = threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT))
        seen = False
        try:
            timer.start()
            compiled(x)
            timer.join()
            time.sleep(0.05)  # until the signal has come
        except KeyboardInterrupt:
            seen = True
        except AssertionError as error:  # a signal that comes while Dynamo tries its new guards becomes this
            assert "Guard failed on the same frame" in str(error)
            seen = True
        timer.join()
        check(compiled(x), module(x))
        return seen

    with torch.no_grad():
        for delay in (0.05, 0.2, 0.6):  # Python drops an interrupt that comes while a weak reference's callback runs: then again
            assert any(interrupted(delay) for _ in range(10)), f"no interrupt came out of a compilation after {delay} s"


def test_a_graph_that_enters_another_and_itself():
    library = torch.library.Library("hologram_unusual_calls", "DEF")
    depth = []

    def again(x):
        depth.append(0)
        return outer(x) if len(depth) < 3 else other(x)

    library.define("again(Tensor x) -> Tensor")
    library.impl("again", again, "CPU")
    library.impl("again", torch.empty_like, "Meta")
    other = compile_fresh(lambda x: x * 3)
    outer = torch.compile(lambda x: torch.ops.hologram_unusual_calls.again(x + 1) * 2, backend="hologram")
    x = normal(10, 6)
    check(outer(x), (x + 3) * 3 * 8)
    assert len(depth) == 3


def views_of(base):
    return {
        "overlapping rows": base.as_strided((6, 8), (4, 1)), "repeated rows": base[:8].expand(5, 8),
        "repeated elements": base.as_strided((4, 3), (1, 0)), "one element": base[:1].expand(7, 9),
        "columns": base[:30].view(6, 5).t()[::2], "steps": base[::7],
    }  # fmt: skip


@pytest.mark.parametrize("name", views_of(torch.empty(64)))
@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_that_overlap_themselves(name, dynamic):
    def function(x):
        return x.sum(0) + x[0], torch.softmax(x, -1), x.cumsum(0), torch.cat([x, x.flip(0)]), x.reshape(-1) * 2, x.sort(0)[0]

    x = views_of(normal(64))[name]
    check(compile_fresh(function, dynamic=dynamic)(x), function(x), strides=False)


def test_inputs_that_overlap_each_other_and_are_written():
    def add(a, b):
        a.add_(1)
        b.mul_(3)
        return a + b

    def turn(a, b):
        a.copy_(b.flip(0))
        return a * 2

    for function in (add, turn):
        for first, second in ((slice(1, None), slice(None, -1)), (slice(None), slice(None)), (slice(2, 9), slice(0, 7))):
            ours, eager = normal(10), normal(10)
            check(compile_fresh(function)(ours[first], ours[second]), function(eager[first], eager[second]))
            check(ours, eager)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_goes_on_with_what_was_compiled():
    def function(x):
        return torch.softmax(x @ x.t(), -1).sum(0)

    compiled, x = compile_fresh(function), normal(300, 300)
    expected = compiled(x)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if torch.equal(compiled(x), expected) else 2
        finally:
            os._exit(status)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert status == 0
