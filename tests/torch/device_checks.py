# tests/torch/device_checks.py: what test_hologram_device.py runs in a process whose device for extensions is ours
"""Each function check_* says what holds for device="hologram"; run() calls them all."""

import copy
import io
import os
import random
import traceback
import types
import unittest

import torch
import torch.nn.functional as F

DEVICE = "hologram"


def there(*shape, **how):
    return torch.randn(*shape, **how).to(DEVICE)


def used(kind, work):
    """Calls of `kind` ("kernel_ops", "fallback_ops") by operator that work() made."""
    import hologram_torch

    before = hologram_torch.device.stats()[kind]
    work()
    return {op: n - before.get(op, 0) for op, n in hologram_torch.device.stats()[kind].items() if n > before.get(op, 0)}


def refused(kind, work) -> str:
    try:
        work()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was expected")


def check_tensors_go_there_and_back():
    x = torch.arange(6.0).reshape(2, 3)
    y = x.to(DEVICE)
    assert (y.device, y.is_hologram, y.shape, y.stride()) == (torch.device("hologram:0"), True, x.shape, x.stride())
    assert torch.equal(y.cpu(), x) and torch.equal((y * 2 + y).cpu(), x * 3)
    assert y.T.cpu().stride() == x.T.stride() and y.hologram() is y
    assert "device='hologram:0'" in repr(y) and "[3., 4., 5.]" in repr(y)
    for dtype in (torch.bool, torch.int8, torch.bfloat16, torch.float64, torch.complex64, torch.uint16, torch.float8_e4m3fn):
        one = torch.ones(3).to(dtype)
        assert torch.equal(one.to(DEVICE).cpu().float(), one.float()), dtype


def check_views_share_memory():
    x = torch.zeros(4, 5, device=DEVICE)
    x[1:3, ::2] = 1
    x.view(2, 10)[0, 0] = 5
    x.T[4, 3] = 9
    assert x.cpu().tolist() == [[5, 0, 0, 0, 0], [1, 0, 1, 0, 1], [1, 0, 1, 0, 1], [0, 0, 0, 0, 9]]
    assert x[2].data_ptr() == x.data_ptr() + 2 * 5 * 4 and x[2]._base is x
    assert [part.data_ptr() for part in torch.unsafe_chunk(x, 2)] == [x.data_ptr(), x[2].data_ptr()]  # its schema names no view
    c = there(3, 2)
    z = torch.view_as_complex(c)
    assert torch.equal(z.conj().cpu(), z.cpu().conj()) and torch.equal(z.conj().imag.cpu(), -c.cpu()[:, 1])
    z.conj().copy_(torch.ones(3, dtype=torch.complex64) * 1j)
    assert torch.equal(c.cpu()[:, 1], -torch.ones(3))


def check_storages():
    plain = torch.arange(4.0).untyped_storage()
    there_ = plain.to(device=DEVICE)
    for storage in (there_, there_.clone(), copy.deepcopy(there_), torch.UntypedStorage(plain.tolist(), device=DEVICE)):
        assert storage.device.type == DEVICE and storage.cpu().tolist() == plain.tolist()
    assert len(torch.UntypedStorage(16, device=DEVICE)) == 16 and torch.UntypedStorage(3, device="meta").device.type == "meta"
    assert "resize" in refused(NotImplementedError, lambda: there_.resize_(64))


def check_resizing():
    x = torch.arange(4.0).to(DEVICE)
    x.resize_(2, 3)
    assert x.shape == (2, 3) and x.cpu().flatten()[:4].tolist() == [0, 1, 2, 3]
    assert x.resize_(2).cpu().tolist() == [0, 1]
    assert x.resize_as_(there(9, 9, 3), memory_format=torch.contiguous_format).shape == (9, 9, 3) and x[0, 0, 1].item() == 1
    out = torch.empty(0, device=DEVICE)
    torch.add(torch.ones(3, device=DEVICE), 1, out=out)
    assert out.cpu().tolist() == [2, 2, 2]
    torch.sort(torch.tensor([2.0, 1.0], device=DEVICE), out=(out, torch.empty(5, dtype=torch.int64, device=DEVICE)))
    assert out.cpu().tolist() == [1, 2]


def check_operators_are_our_kernels_and_others_are_counted():
    x, y = there(8, 8), there(8, 8)
    ours = used("kernel_ops", lambda: (x @ y, torch.softmax(x, 1), x.add_(1), F.gelu(y)))
    assert {"aten.mm.default", "aten._softmax.default", "aten.add_.Tensor", "aten.gelu.default"} <= set(ours), ours
    left = used("fallback_ops", lambda: torch.linalg.qr(x))
    assert sum(left.values()) == 1 and "linalg_qr" in next(iter(left)), left


def check_other_sizes_compile_nothing_new():
    import hologram_torch

    sizes = [(n, n + 3) for n in range(5, 25)]
    before = hologram_torch.device.stats()["compiled"]
    for shape in sizes:
        x = torch.randn(shape)
        assert torch.allclose(torch.erfinv(x.to(DEVICE).tanh()).cpu(), torch.erfinv(x.tanh()), rtol=1e-4, atol=1e-5)
    assert hologram_torch.device.stats()["compiled"] - before <= 4


def check_devices_do_not_mix():
    x = there(3)
    assert (x + torch.tensor(2.0)).device.type == DEVICE
    for work in (lambda: x + torch.ones(3), lambda: torch.mm(there(2, 2), torch.ones(2, 2)), lambda: torch.cat([x, torch.ones(3)])):
        assert "same device" in refused(RuntimeError, work)
    assert x[torch.tensor([0, 2])].shape == (2,)
    assert "dense tensors alone" in refused(NotImplementedError, lambda: there(3, 3).to_sparse())


def check_memory_that_overlaps():
    x = torch.arange(6.0).to(DEVICE)
    x.add_(x)
    assert x.cpu().tolist() == [0, 2, 4, 6, 8, 10]
    assert "memory location" in refused(RuntimeError, lambda: x[1:].add_(x[:-1]))
    assert "memory location" in refused(RuntimeError, lambda: x[:1].expand(3).add_(1))


def check_saved():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    model(there(2, 3, 6, 6)).square().sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    for where, device in ((None, DEVICE), ("cpu", "cpu"), (DEVICE, DEVICE)):
        file.seek(0)
        state = torch.load(file, map_location=where)["model"]
        for name, value in model.state_dict().items():
            assert state[name].device.type == device and torch.equal(state[name].cpu(), value.cpu())
    model.to("cpu")
    assert all(p.device.type == "cpu" for p in model.parameters())


DRAWS = {  # name -> (what draws on a device, operators that PyTorch draws)
    "few": (lambda d: (torch.randn(4, device=d), torch.rand(2, device=d), F.dropout(torch.ones(6, device=d))), 3),
    "many": (lambda d: (torch.randn(N, device=d), torch.rand(N, device=d, dtype=torch.float64), torch.normal(1.0, 2.0, (N,), device=d)), 0),
    "integers": (lambda d: (torch.randint(3, 90, (N,), device=d), torch.randperm(N, device=d)), 0),
    "masks": (lambda d: (F.dropout(torch.ones(N, device=d), 0.3), torch.bernoulli(torch.linspace(0, 1, N).to(d))), 0),
    "in place": (lambda d: [getattr(torch.ones(N, device=d), f"{name}_")(*numbers) for name, *numbers in IN_PLACE], 0),
    "channels last": (lambda d: torch.empty(3, 64, 8, 8, device=d, memory_format=torch.channels_last).normal_(), 0),
    "choices": (lambda d: [torch.multinomial(torch.linspace(0, 1, N).to(d), 3, again) for again in (True, False)], 0),
    "parts": (lambda d: (torch.zeros(99, 99, device=d)[:, ::2].normal_(), torch.zeros(99, 99, device=d).T.uniform_()), 1),
    "another generator": (lambda d: torch.rand(N, generator=torch.Generator().manual_seed(1), device=d), 1),
}
N = 5000
IN_PLACE = ("exponential", 1.5), ("cauchy",), ("log_normal",), ("geometric", 0.3), ("random", 2, 7), ("random",), ("bernoulli", 0.2)


def check_random_numbers_are_the_hosts():
    for name, (draw, left) in DRAWS.items():
        calls = used("fallback_ops", lambda draw=draw: torch.testing.assert_close(*on_both(
            lambda d: (draw(d), torch.get_rng_state())), rtol=0, atol=0, msg=lambda m: f"{name}: {m}"))  # fmt: skip
        assert sum(calls.values()) == left or not exact(), (name, calls)
    before = torch.hologram.get_rng_state()
    with torch.random.fork_rng(device_type=DEVICE):
        torch.rand(1, device=DEVICE)
    assert torch.equal(torch.hologram.get_rng_state(), before)
    g = torch.Generator().manual_seed(1)
    assert torch.equal(torch.rand(2, generator=g, device=DEVICE).cpu(), torch.rand(2, generator=torch.Generator().manual_seed(1)))


def exact() -> bool:
    """Whether this machine's PyTorch draws as is known here."""
    from hologram_torch.capture import draws

    return all(draws.exact(kind, torch.float32) for kind in draws.KINDS if kind != "permutation")


def check_a_loader_with_pinned_memory():
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    batches = [x.to(DEVICE, non_blocking=True) for (x,) in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)]
    assert [b.cpu().tolist() for b in batches] == [[0, 1], [2, 3]]


def check_numbers_that_change_compile_once():
    import hologram_torch

    def steps(x):
        for n in range(2, 30):
            for part in (x, x[1:], x.view(1, -1)):
                part.mul_(1 - 1 / (2 * n)).addcdiv_(part, 1 + part * part, value=-0.1 / n).lerp_(part.sin(), 0.5 / n)
                part.div_(n).add_(n - 2, alpha=n / 2)
        return x

    x = torch.randn(7)
    before = hologram_torch.device.stats()["compiled"]
    mine = x.to(DEVICE)
    left = used("fallback_ops", lambda: steps(mine))
    assert hologram_torch.device.stats()["compiled"] - before <= 2 * 5 * (2 * 5 + 3)
    assert torch.allclose(mine.cpu(), steps(x), rtol=1e-4) and not left, left
    ones = torch.ones(3, device=DEVICE)
    for n in (0.0, -0.0, 1.0, -1.0, 2.0, -0.0, 0.0):
        assert ((ones * n).signbit().cpu() == (torch.ones(3) * n).signbit()).all(), n
        assert (ones.clone().fill_(n).signbit().cpu() == (torch.ones(3) * n).signbit()).all(), n


def on_both(work, *given):
    """(what `work` makes of copies on the host, of copies on the device, brought back), each from one seed."""
    results = []
    for device in ("cpu", DEVICE):
        move = lambda t, device=device: t.detach().clone().to(device).requires_grad_(t.requires_grad)
        torch.manual_seed(1)
        made = work(device, *torch.utils._pytree.tree_map_only(torch.Tensor, move, given))
        results.append(torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), made))
    return results


def share(found):
    """Some of PyTorch's database, others in each commit; HOLOGRAM_OPINFO=all: all."""
    from harness import seed_of

    return found if os.environ.get("HOLOGRAM_OPINFO") == "all" else random.Random(seed_of("HOLOGRAM_OPINFO_SEED")).sample(list(found), 12)


def check_modules_of_pytorchs_database():
    from torch.testing._internal.common_modules import module_db

    def step(device, info, sample, training, arguments):
        torch.manual_seed(0)
        module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).to(device).train(training)
        torch.manual_seed(2)
        out = module(*arguments.args, **arguments.kwargs)
        roots = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
        torch.autograd.backward(roots, [torch.ones_like(t) for t in roots])
        gradients = [p.grad.to_dense() if p.grad is not None and p.grad.is_sparse else p.grad for p in module.parameters()]
        return out, gradients

    ran = 0
    for info in share(module_db):
        for training in (True, False) if info.train_and_eval_differ else (True,):
            samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
            for sample in samples[:2]:
                if info.module_cls is torch.nn.Embedding and sample.constructor_input.kwargs.get("sparse"):
                    continue
                given = types.SimpleNamespace(args=sample.forward_input.args, kwargs=sample.forward_input.kwargs)
                work = lambda device, a, k: step(device, info, sample, training, types.SimpleNamespace(args=a, kwargs=k))
                try:
                    work("cpu", given.args, given.kwargs)
                except Exception:  # of another type of device
                    continue
                expected, actual = on_both(work, given.args, given.kwargs)
                torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4, equal_nan=True, msg=lambda m: f"{info.name}: {m}")
                ran += 1
    assert ran >= 8, ran


def check_autocast():
    model, x = torch.nn.Linear(3, 2).to(DEVICE), there(4, 3)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast(DEVICE, dtype=dtype):
            y = model(x)
            assert (y.dtype, F.softmax(y, -1).dtype, F.mse_loss(y, y).dtype) == (dtype, torch.float32, torch.float32)
            assert torch.addcmul(y, y, x[:, :2]).dtype == torch.float32
            assert "unsafe to autocast" in refused(RuntimeError, lambda: F.binary_cross_entropy(x.sigmoid(), x.sigmoid()))
        assert model(x).dtype == torch.float32
        y.sum().backward()
        assert model.weight.grad.dtype == torch.float32
        model.zero_grad()


def check_compiled_models():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    mine, x = copy.deepcopy(net).to(DEVICE), torch.randn(5, 6)
    compiled = torch.compile(mine, backend="hologram")
    y, z = net(x), compiled(x.to(DEVICE))
    assert z.device.type == DEVICE and torch.allclose(z.cpu(), y, atol=1e-5)
    y.square().sum().backward()
    z.square().sum().backward()
    for p, q in zip(mine.parameters(), net.parameters()):
        assert torch.allclose(p.grad.cpu(), q.grad, atol=1e-4)

    lstm, sequence = torch.nn.LSTM(3, 5), torch.randn(4, 2, 3)
    z = torch.compile(copy.deepcopy(lstm).to(DEVICE), backend="hologram")(sequence.to(DEVICE))[0]
    assert z.device.type == DEVICE and torch.allclose(z.cpu(), lstm(sequence)[0], atol=1e-5)

    def step(a, b):
        b.add_(1)
        return torch.linalg.inv(a @ a.T + torch.eye(5, device=a.device)) @ b, b[1:]

    b = torch.randn(5, 2)
    theirs = b.to(DEVICE)
    expected, actual = step(x, b), torch.compile(step, backend="hologram")(x.to(DEVICE), theirs)
    assert all(torch.allclose(a.cpu(), e, atol=1e-4) for a, e in zip(actual, expected)) and torch.equal(theirs.cpu(), b)
    assert actual[1].data_ptr() == theirs[1:].data_ptr()


def check_functions_of_hologram_torch():
    import hologram_torch

    x = torch.randn(4, 3)

    def work(device, x):
        with hologram_torch.Executor() as executor:
            y = hologram_torch.functional.gelu(executor, hologram_torch.functional.mul(x, x))
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert y.device.type == g.device.type == device
        return y, g, torch.autograd.grad(g.sum(), x)

    left = used("fallback_ops", lambda: torch.testing.assert_close(*on_both(work, x.requires_grad_())))
    assert not left and hologram_torch.utils.match_device(there(1)) == "cpu", left


def check_tests_that_pytorch_makes_for_each_device():
    from torch.testing._internal import common_device_type as devices
    from torch.testing._internal.common_utils import TestCase

    class Made(TestCase):
        @devices.onlyOn([DEVICE])
        def test_device(self, device):
            self.assertEqual(torch.ones(3, device=device).sum().device.type, DEVICE)

    devices.device_type_test_bases[:] = devices.get_device_type_test_bases()  # as though imported behind use()
    scope = {"Made": Made}
    devices.instantiate_device_type_tests(Made, scope, only_for=DEVICE)
    (made,) = scope.values()
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(made).run(result)
    assert result.testsRun == 1 and result.wasSuccessful() and not result.skipped, result.errors + result.failures


def run() -> dict:
    """Name of each check -> what went wrong, or None."""
    import hologram_torch
    import lazy_checks

    hologram_torch.device.use()
    hologram_torch.device.use("cpu")  # again changes nothing
    return results(globals()) | results(vars(lazy_checks))


def results(checks) -> dict:
    found = {}
    for name, check in list(checks.items()):
        if name.startswith("check_"):
            try:
                found[name] = check()
            except Exception:
                found[name] = traceback.format_exc()
    return found
