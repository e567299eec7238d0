# tests/torch/test_stale_weights.py: whatever writes a parameter, the next call sees it
import threading
import time

import hologram_torch
import pytest
import torch
from harness import compile_fresh
from torch import nn


def preserved_version(layer):
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(layer.weight):
        layer.weight.mul_(-3)


def old_address(layer):
    layer._apply(lambda p: p.detach() * -3).half().float()  # often at the address where it was before


def in_inference_mode(layer):
    with torch.inference_mode():
        layer.weight.mul_(-3)


def new_data(layer):
    layer.weight.data = layer.weight.data * -3


def compiled_data(layer):
    @torch.compile(backend="hologram")
    def write(w):
        w.data.mul_(-3)

    write(layer.weight)


def collective(layer):
    dist = torch.distributed
    if not dist.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        other = torch.randn(64, 64)
        dist.all_gather_into_tensor(layer.weight.detach(), other)
        dist.all_reduce(layer.weight.detach())
    finally:
        dist.destroy_process_group()
    torch.testing.assert_close(layer.weight.detach(), other)


WRITES = [preserved_version, old_address, in_inference_mode, new_data, compiled_data, collective]


def of_torch_compile(layer, x):
    return compile_fresh(layer)


def of_freeze(layer, x):
    return hologram_torch.freeze(layer, (x,))


@pytest.mark.parametrize("compiler", [of_torch_compile, of_freeze])
@pytest.mark.parametrize("write", WRITES)
def test_a_written_weight_is_seen(write, compiler):
    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    compiled = compiler(layer, x)
    with torch.no_grad():
        for _ in range(3):
            before = layer(x)
            torch.testing.assert_close(compiled(x), before)
            write(layer)
            assert not torch.equal(layer(x), before)
            torch.testing.assert_close(compiled(x), layer(x))


def test_a_recurrent_layer_sees_a_preserved_version():
    layer, x = nn.LSTM(16, 16), torch.randn(5, 3, 16)
    compiled = compile_fresh(layer)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x)[0], layer(x)[0])
            with torch.autograd._unsafe_preserve_version_counter(layer.weight_hh_l0):
                layer.weight_hh_l0.mul_(-2)
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
    from hologram import _core

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


def test_memory_that_nothing_keeps_is_no_reason_to_pack_again():
    from hologram import _core

    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    compiled = compile_fresh(layer)
    with torch.no_grad():
        compiled(x)
        layer.weight.detach().numpy()[:] = 1  # as documented, not seen by itself
        other = torch.zeros(1000)
        with torch.autograd._unsafe_preserve_version_counter(other):
            other.add_(1)
        assert not torch.equal(compiled(x), layer(x))
        _core.memory_written(layer.weight.data_ptr(), 1)
        torch.testing.assert_close(compiled(x), layer(x))
