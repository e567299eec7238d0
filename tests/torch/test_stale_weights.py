# tests/torch/test_stale_weights.py: whatever writes a parameter, the next call sees it
import ctypes
import functools
import threading
import time
from pathlib import Path

import hologram
import hologram_torch
import numpy as np
import pytest
import torch
from harness import compile_fresh
from hologram import _core
from hologram_torch import holders
from torch import nn
from weight_ways import WAYS


@pytest.fixture(scope="module")
def callables(tmp_path_factory):
    """A layer, compiled, frozen and in an archive whose weights replace() gives it."""
    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    path = tmp_path_factory.mktemp("written") / "layer.holo"
    hologram_torch.export(layer, (x,), path, isas=())
    archive = hologram.load(path)

    def replace():
        for name, p in layer.named_parameters():
            archive.replace(name, p.detach().numpy())

    compiled, twin = compile_fresh(layer), torch.compile(nn.Linear(64, 64), backend="hologram")
    calls = {
        "compile": compiled,
        "another block's graph": lambda x: (twin(x), compiled(x))[1],
        "freeze": hologram_torch.freeze(layer, (x,)),
        "archive": lambda x: torch.from_numpy(archive(x.numpy())),
    }
    return layer, x, calls, replace


NEW = "swapped", "load_state_dict by assigning"  # of which freeze() is told by "a new parameter": it captures again


def follow(way, before, callables):
    """Writes, and compares with eager, whether the way's names of the memory are there before the first call or after it."""
    layer, x, calls, replace = callables
    close = functools.partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4)

    def agree():
        replace()
        for name, call in calls.items():
            if name != "freeze" or way not in NEW:
                close(call(x), layer(x), msg=lambda m, name=name: f"{name}: {m}")

    with torch.no_grad():
        layer.weight.data, layer.bias.data = torch.randn(64, 64), torch.randn(64)  # that no call has seen
        write = WAYS[way](layer) if before else None
        agree()
        write = write or WAYS[way](layer)
        for n in range(3):
            old = calls["archive"](x)
            write()
            assert not torch.equal(layer(x), old)
            close(calls["archive"](x), old)  # has copies
            agree()
        agree()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", WAYS)
def test_a_written_weight_is_seen(way, when, callables):
    follow(way, when == "before", callables)


@pytest.mark.parametrize("way", ["in place", "data held", "a flat buffer", "a state_dict held", "DLPack held"])
def test_a_written_weight_is_seen_where_python_must_be_asked(way, callables):
    t = torch.zeros(3)
    assert not _core.learn_tensor_words([(t, t._cdata, t.untyped_storage()._cdata, 7, 0, 1, 0, 0)], torch.Tensor, holders.holders)
    try:
        follow(way, True, callables)
    finally:
        holders.watch()
    assert holders._agrees()


MOVED = {  # what gives a tensor's own object other memory, or another place in it
    "its data": lambda x: setattr(x, "data", torch.randn(4, 6)),
    "shared": lambda x: x.share_memory_(),
    "another offset": lambda x: x.set_(x.untyped_storage(), 3, (4, 6), (6, 1)),
    "grown": lambda x: x.detach().resize_(400, 6).resize_(4, 6),
    "its storage grown": lambda x: x.untyped_storage().resize_(40_000),
}


@pytest.mark.parametrize("how", MOVED)
@pytest.mark.parametrize("made", [torch.Tensor, nn.Parameter])
@torch.no_grad()
def test_an_argument_is_read_where_it_lies_now(made, how):
    x, w = made(torch.randn(400)[:24].view(4, 6)), torch.randn(6, 5)
    calls = [(compile_fresh(f), f) for f in (lambda: (x * 2 + 1).tanh(), lambda: x @ w)]
    for n in range(4):
        for call, f in calls:
            torch.testing.assert_close(call(), f())
        assert _core.tensor_place(x) == (x.untyped_storage().data_ptr(), x.storage_offset())
        if n:
            MOVED[how](x)
        x.data.add_(1)


def compared(call) -> int:
    before = hologram_torch.stats()["compared_weights"]
    call()
    return hologram_torch.stats()["compared_weights"] - before


def test_known_tensors_that_hold_a_weight_are_asked_in_place_of_its_content():
    layer, x = nn.Linear(1024, 512), torch.randn(8, 1024)
    compiled = compile_fresh(layer)
    with torch.no_grad():
        compiled(x)
        assert compared(lambda: compiled(x)) == 0
        held = [layer.state_dict()["weight"], layer.weight.data, layer.weight.detach().view(-1), layer.weight[3:]]
        arrays = [lambda: held[0].numpy(), lambda: np.from_dlpack(held[1])]
        assert compared(lambda: compiled(x)) == 1
        assert any(compared(lambda: compiled(x)) == 0 for _ in range(5000))  # they are searched for once comparing has taken a while
        for t in held:
            t.mul_(-2)
            torch.testing.assert_close(compiled(x), layer(x), rtol=1e-3, atol=1e-3)
            assert compared(lambda: compiled(x)) == 0
        held[-1].mul_(-2)
        del held[2:], t  # what it wrote is seen once; those left are known still
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-3, atol=1e-3)
        assert [compared(lambda: compiled(x)) for _ in range(3)] == [0, 0, 0]
        held[0].mul_(-0.5)
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-3, atol=1e-3)
        for make in reversed(arrays):
            array = make()
            assert compared(lambda: compiled(x)) == 1
            array *= 0.5
            torch.testing.assert_close(compiled(x), layer(x), rtol=1e-3, atol=1e-3)
            del array
        del held
        assert compared(lambda: compiled(x)) == 0


def packed_bytes():
    return hologram_torch.stats()["memory"]["packed_weights"]


def two_graphs(layer, x):
    """A function of 0 and 1: calls one of two graphs that pack the layer's weight alike, and counts what that call packs."""
    calls = [compile_fresh(layer), torch.compile(lambda x: layer(x) * 2, backend="hologram")]

    def packs(n):
        with hologram_torch.profile() as found:
            torch.testing.assert_close(calls[n](x), layer(x) * (n + 1), rtol=1e-3, atol=1e-3)
        (graph,) = found._graphs
        return sum(times[0] for step, times in zip(graph.plan["steps"], graph.times()) if step["cached"])

    return packs


@torch.no_grad()
def test_weights_of_graphs_that_nobody_calls_are_given_back():
    """From 8 MiB on, but where the framework's copy is gone; the next call of either graph packs them for both."""
    layer, x, before = nn.Linear(2048, 2304), torch.randn(40, 2048), packed_bytes()
    released = nn.Linear(2048, 2304)
    right = released(x)
    frozen = hologram_torch.freeze(released, (x,), release_weights=True)
    packs = two_graphs(layer, x)
    assert (packs(0), packs(1)) == (1, 0)
    for write in (lambda w: None, lambda w: w.mul_(2)):
        limit = time.monotonic() + 60
        while packed_bytes() - before > 1.5 * layer.weight.nbytes:
            assert time.monotonic() < limit
            time.sleep(0.05)
        write(layer.weight)
        assert (packs(1), packs(0), packs(1)) == (1, 0, 0)
        assert packed_bytes() - before < 2.5 * layer.weight.nbytes
        torch.testing.assert_close(frozen(x), right, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_graphs_pack_a_weight_once():
    layer, x = nn.Linear(256, 256), torch.randn(40, 256)
    packs = two_graphs(layer, x)
    hologram_torch.release_memory()  # a larger block that is free would do
    kept = packed_bytes()
    assert (packs(0), packs(1), packs(1)) == (1, 0, 0)
    assert packed_bytes() - kept < 1.5 * layer.weight.nbytes
    for write in (lambda w: w.mul_(2), lambda w: w.data.copy_(w * 3), lambda w: w.untyped_storage().fill_(0)):
        write(layer.weight)
        assert [packs(n) for n in (1, 0, 1, 0)] == [1, 0, 0, 0]
    layer.weight = nn.Parameter(torch.randn(256, 256))
    assert (packs(0), packs(1)) == (1, 0)


def test_comparing_is_told(caplog):
    layer, x = nn.Linear(1024, 512), torch.randn(8, 1024)
    holders.watch()  # not told yet
    compiled = compile_fresh(layer)
    array = layer.weight.detach().numpy()
    with torch.no_grad(), caplog.at_level("WARNING", "hologram"):
        for n in range(5000):
            compiled(x)
            if caplog.records and n % 100 == 0:
                break
    assert [r.getMessage()[:54] for r in caplog.records] == ["what 1 packed weights (2.0 MiB) were made of is compared "[:54]]
    told = "1 packed weights (2.1 MB) share memory with other tensors: contents are compared at each call"
    assert told in str(hologram_torch.explain(layer, x))
    del array
    assert "share memory" not in str(hologram_torch.explain(layer, x))


RAW = "raw pointer (`data_ptr()`, a NumPy array or DLPack of the parameter itself, or one that is gone before\nthe next call)"


def test_raw_pointers_write_unseen_until_it_is_told():
    assert RAW in (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text()
    layer, x = nn.Linear(64, 64).requires_grad_(False), torch.randn(32, 64)
    compiled = compile_fresh(layer)
    ways = [
        lambda: ctypes.memset(layer.weight.data_ptr(), 0, 256),
        lambda: layer.weight.numpy().__imul__(-2),
        lambda: layer.weight.detach().numpy().__imul__(-2),
    ]
    for write in ways:
        torch.testing.assert_close(compiled(x), layer(x))
        write()
        assert not torch.equal(compiled(x), layer(x))
        torch.autograd.graph.increment_version(layer.weight)
        torch.testing.assert_close(compiled(x), layer(x))


NORMED = {
    "linear": (lambda: nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 64)), (32, 64)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(4, 16, 3), nn.BatchNorm2d(16), nn.ReLU()), (2, 4, 9, 9)),
}


@pytest.mark.parametrize("compiler", [compile_fresh, None], ids=["compile", "freeze"])
@pytest.mark.parametrize("model", NORMED)
def test_statistics_that_eager_batch_norm_moves_are_seen(model, compiler):
    make, shape = NORMED[model]
    net, x = make().eval(), torch.randn(shape)
    norm = next(m for m in net if hasattr(m, "running_mean"))
    compiled = compiler(net) if compiler else hologram_torch.freeze(net, (x,))
    with torch.no_grad():
        for by_mode in (True, False, False):
            before = net(x)
            torch.testing.assert_close(compiled(x), before)
            batch = torch.randn(shape[0], norm.num_features, *shape[2:]) * 5 + 3
            if by_mode:
                net.train()
                norm(batch)
                net.eval()
            else:
                nn.functional.batch_norm(batch, norm.running_mean, norm.running_var, training=True)
            assert not torch.allclose(net(x), before, 1e-2, 1e-2)
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-4)


def test_a_recurrent_layer_sees_a_preserved_version_and_held_data():
    layer, x = nn.LSTM(16, 16), torch.randn(5, 3, 16)
    compiled, held = compile_fresh(layer), layer.weight_ih_l0.data
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x)[0], layer(x)[0])
            with torch.autograd._unsafe_preserve_version_counter(layer.weight_hh_l0):
                layer.weight_hh_l0.mul_(-2)
            torch.testing.assert_close(compiled(x)[0], layer(x)[0])
            held.mul_(-2)
        torch.testing.assert_close(compiled(x)[0], layer(x)[0])


failing = threading.local()  # .now: what a call by this thread does in the middle


@torch.library.custom_op("hologram_tests::may_fail", mutates_args=())
def may_fail(x: torch.Tensor) -> torch.Tensor:
    getattr(failing, "now", lambda: None)()
    return x.clone()


def fail():
    raise RuntimeError("as asked")


@may_fail.register_fake
def _(x):
    return torch.empty_like(x)


@pytest.mark.parametrize("first", [False, True])
def test_a_call_that_fails_leaves_nothing_stale(first):
    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    compiled = compile_fresh(lambda x: layer(may_fail(layer(x))))
    with torch.no_grad():
        if not first:
            compiled(x)
        layer.weight.mul_(-3)
        failing.now = fail
        try:
            with pytest.raises(RuntimeError, match="as asked"):
                compiled(x)
        finally:
            del failing.now
        torch.testing.assert_close(compiled(x), layer(layer(x)))


def test_a_write_in_the_middle_of_a_call_is_seen_by_the_next():
    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    compiled = compile_fresh(lambda x: may_fail(layer(x)))

    def write():
        layer.weight.detach().numpy()[:] *= -3
        _core.memory_written(layer.weight.data_ptr(), layer.weight.nbytes)

    with torch.no_grad():
        failing.now = write
        try:
            compiled(x)  # the weight is packed before it is written
        finally:
            del failing.now
        torch.testing.assert_close(compiled(x), layer(x))


def test_threads_that_call_while_weights_change_and_calls_fail():
    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    weights = [torch.randn(64, 64) for _ in range(40)]
    current, wrong, failures = 0, [], []
    with torch.no_grad():
        layer.weight.data = weights[0]
        compiled = [compile_fresh(lambda x: layer(may_fail(layer(x)))), compile_fresh(lambda x: layer(x))]
        for c in compiled:
            c(x)
        wanted = []
        for w in weights:
            y = nn.functional.linear(x, w, layer.bias)
            wanted.append([nn.functional.linear(y, w, layer.bias), y])

    def call(number):
        which = number % 2
        with torch.no_grad():
            for n in range(150):
                if n % 5 == number and which == 0:
                    failing.now = fail
                first = current
                try:
                    got = compiled[which](x)
                except RuntimeError as error:
                    failures.append(str(error))
                    continue
                finally:
                    failing.__dict__.clear()
                if not any(torch.allclose(got, w[which], 1e-4, 1e-4) for w in wanted[max(first - 1, 0) : current + 1]):
                    wrong.append((number, n))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for k in range(1, len(weights)):
        current = k  # a call under way may take the one before or this one
        layer.weight.data = weights[k]
        time.sleep(0.002)
    for t in threads:
        t.join()
    with torch.no_grad():
        for which, c in enumerate(compiled):
            torch.testing.assert_close(c(x), wanted[-1][which])
    assert not wrong and len(failures) == 60 and all("as asked" in f for f in failures)


def test_a_faulty_call_is_found_faulty_again():
    layer = nn.Linear(8, 4)
    layer.register_buffer("index", torch.tensor([0, 9]))
    compiled = compile_fresh(lambda x: x @ layer.weight.index_select(0, layer.index).t())
    x = torch.randn(3, 8)
    with torch.no_grad():
        for _ in range(3):
            with pytest.raises(IndexError):
                compiled(x)
        layer.index.fill_(1)
        torch.testing.assert_close(compiled(x), x @ layer.weight[[1, 1]].t())
