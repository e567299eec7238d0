# tests/torch/test_stale_weights.py: whatever writes a parameter, the next call sees it
import os
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


def data_in_place(layer):
    layer.weight.data.mul_(-3)
    layer.bias.data[3:5].add_(1)


def data_of_before(layer):
    if not hasattr(layer, "aliases"):
        layer.aliases = [p.data for p in layer.parameters()]
        layer(torch.randn(32, 64))
    for alias in layer.aliases:
        alias.mul_(-3)


def fused_optimizer(layer):
    for p in layer.parameters():
        p.grad = torch.randn_like(p)
    with torch.enable_grad():
        torch.optim.AdamW(layer.parameters(), lr=1, fused=True).step()


class OldOptimizer(torch.optim.Optimizer):
    """Writes as many optimizers outside of PyTorch do, and keeps what it writes into."""

    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.aliases = [p.data.view(-1) for group in self.param_groups for p in group["params"]]

    def step(self):
        for alias in self.aliases:
            alias.mul_(-3)


def optimizer_outside(layer):
    if not hasattr(layer, "optimizer"):
        layer.optimizer = OldOptimizer(layer.parameters())
    layer.optimizer.step()


def storage(layer):
    layer.weight.untyped_storage().copy_(torch.randn(64, 64).untyped_storage())


def storage_filled(layer):
    layer.weight.untyped_storage().fill_(0x3D + layer.weight.untyped_storage()[0] % 2)  # 0.046 or 0.186


def typed_storage(layer):
    layer.weight.storage()[5] = layer.weight[0, 5].item() * -3 + 1


def swapped(layer):
    torch.utils.swap_tensors(layer.weight, nn.Parameter(torch.randn(64, 64)))


def other_process(layer):
    process = os.fork()
    if process == 0:
        layer.weight.mul_(-3)
        os._exit(0)
    os.waitpid(process, 0)


WRITES = [preserved_version, old_address, in_inference_mode, new_data, compiled_data, collective, data_in_place, data_of_before,
          fused_optimizer, optimizer_outside, storage, storage_filled, typed_storage, swapped, other_process]  # fmt: skip


def of_torch_compile(layer, x):
    return compile_fresh(layer)


def of_freeze(layer, x):
    return hologram_torch.freeze(layer, (x,))


@pytest.mark.parametrize("compiler", [of_torch_compile, of_freeze])
@pytest.mark.parametrize("write", WRITES)
def test_a_written_weight_is_seen(write, compiler):
    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    if write is other_process:
        layer.share_memory()
    if write is swapped and compiler is of_freeze:
        pytest.skip("PyTorch's capture holds a weak reference of its own")
    compiled = compiler(layer, x)
    with torch.no_grad():
        for _ in range(3):
            before = layer(x)
            torch.testing.assert_close(compiled(x), before)
            write(layer)
            assert not torch.equal(layer(x), before)
            torch.testing.assert_close(compiled(x), layer(x))


NORMED = {
    "linear": (lambda: nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 64)), (32, 64)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(4, 16, 3), nn.BatchNorm2d(16), nn.ReLU()), (2, 4, 9, 9)),
}


@pytest.mark.parametrize("compiler", [of_torch_compile, of_freeze])
@pytest.mark.parametrize("model", NORMED)
def test_statistics_that_eager_batch_norm_moves_are_seen(model, compiler):
    make, shape = NORMED[model]
    net, x = make().eval(), torch.randn(shape)
    norm = next(m for m in net if hasattr(m, "running_mean"))
    compiled = compiler(net, x)
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


@pytest.mark.parametrize("backend", ["hologram", "aot_eager"])
@pytest.mark.parametrize("fused", [False, True])
def test_an_optimizer_whose_step_is_compiled_is_seen(fused, backend):
    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    compiled = compile_fresh(layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.001, fused=fused)
    step = torch.compile(optimizer.step, backend=backend)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), layer(x))
        compiled(x).sum().backward()
        step()
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), layer(x))


def test_converting_a_model_by_swapping_its_tensors():
    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    compiled = compile_fresh(layer)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), layer(x))
            layer.double()
            torch.testing.assert_close(compiled(x.double()), layer(x.double()))
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_reading_data_of_what_nothing_keeps_is_no_write():
    from hologram import _core

    layer, x = nn.Linear(64, 64), torch.randn(32, 64)
    other = nn.Linear(64, 64)
    compiled = compile_fresh(layer)
    with torch.no_grad():
        compiled(x)
        layer.weight.detach().numpy()[:] = 1  # as documented, not seen by itself
        assert other.eval().weight.data.shape == (64, 64) and not other.training
        other.weight.data.zero_()
        layer.train()  # as it is
        assert not torch.equal(compiled(x), layer(x))
        _core.memory_written(layer.weight.data_ptr(), 1)
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
