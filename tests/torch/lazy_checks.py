# tests/torch/lazy_checks.py: what device_checks.py's process checks of operators that wait
"""Each function check_* says what holds for calls that wait."""

import gc
import random

import torch
import torch.nn.functional as F
from device_checks import DEVICE, refused, there


def counts():
    import hologram_torch

    return hologram_torch.device.stats()["lazy"]


def fused(work, times=6):
    """(what work() gave the last time, how many graphs of several calls ran meanwhile)"""
    before = counts()["fused"]
    for _ in range(times):
        found = work()
        torch.hologram.synchronize()
    return found, counts()["fused"] - before


def program(seed, device):
    """A random program of changes in place, views, reads and results that nobody keeps; what it has read, and all that it holds."""
    draw = random.Random(seed)
    make = torch.Generator().manual_seed(seed)
    held = [torch.randn(4, 6, generator=make).to(device) for _ in range(3)]
    read = []
    pick = lambda: draw.choice(held)
    alike = lambda x: draw.choice([y for y in held if y.shape == x.shape])
    scale = lambda: draw.choice((0.5, -1.25, 0.75))
    one = (lambda x: x * scale(), torch.tanh, torch.relu, torch.neg, lambda x: x.clone(), lambda x: F.layer_norm(x, x.shape[-1:]),
           lambda x: torch.softmax(x, 0), lambda x: x - x.mean(), lambda x: x.sum(-1, keepdim=True) * 0.25 + x)  # fmt: skip
    two = (torch.add, torch.mul, torch.maximum, lambda x, y: torch.where(x > 0, x, y), lambda x, y: (x @ y.T).tanh() @ x)
    views = (lambda x: x.T, lambda x: x.reshape(-1).view(x.shape), lambda x: x.view(x.shape), lambda x: x[1:3, ::2], lambda x: x[:, 1])
    changes = (lambda x, y: x.add_(y), lambda x, y: x.mul_(0.5), lambda x, y: x.copy_(y), lambda x, y: x.tanh_(), lambda x, y: x.fill_(0.5),
               lambda x, y: x.sub_(y, alpha=2), lambda x, y: torch.mul(x, 0.5, out=x), lambda x, y: x.lerp_(y, 0.25))  # fmt: skip
    for _ in range(draw.randint(6, 30)):
        kind, x = draw.random(), pick()
        if kind < 0.35:
            held.append(draw.choice(one)(x))
        elif kind < 0.5:
            held.append(draw.choice(two)(x, alike(x)) if x.dim() == 2 and x.shape[0] == 4 else torch.add(x, alike(x)))
        elif kind < 0.62 and x.dim() == 2 and x.shape == (4, 6) and x.is_contiguous():
            held.append(draw.choice(views)(x))
        elif kind < 0.78:
            draw.choice(changes)(x, alike(x).clone())
        elif kind < 0.82:
            read.append(x.sum().cpu())
        elif kind < 0.86:
            read.append(x.cpu().clone())
        elif len(held) > 3:
            held.pop(draw.randrange(len(held)))
    return read, held


def check_random_programs():
    import hologram_torch

    ran = 0
    for seed in range(25):
        expected = program(seed, "cpu")

        def work(seed=seed, expected=expected):
            found = program(seed, DEVICE)
            for a, e in zip((*found[0], *found[1]), (*expected[0], *expected[1]), strict=True):
                torch.testing.assert_close(a.cpu(), e, rtol=2e-4, atol=2e-5, msg=lambda m: f"program {seed}: {m}")
                assert a.stride() == e.stride()

        ran += fused(work, 5)[1]
    assert ran >= 25, (ran, hologram_torch.device.stats()["lazy"])


def check_one_graph_writes_what_is_held():
    x, y = there(64, 64), there(64, 64)
    work = lambda: ((x * y + 1).tanh() * 0.5 - y).relu()
    z, ran = fused(work)
    assert ran >= 2 and torch.allclose(z.cpu(), ((x.cpu() * y.cpu() + 1).tanh() * 0.5 - y.cpu()).relu(), atol=1e-5)
    kept, ran = fused(lambda: (t := x.exp(), t + y, t[1:].T))
    assert ran >= 2 and torch.equal(kept[2].cpu(), kept[0].cpu()[1:].T)
    assert torch.allclose(kept[1].cpu(), x.cpu().exp() + y.cpu(), atol=1e-5)
    before = counts()
    work()  # nobody keeps what it gives
    torch.hologram.synchronize()
    assert counts()["runs"] == before["runs"]


def check_errors_come_at_their_calls():
    x = there(3, 4)
    for _ in range(3):
        y = x * 2
    assert "match" in refused(RuntimeError, lambda: y + there(5))
    assert "multiplied" in refused(RuntimeError, lambda: y @ there(3, 4))
    refused(IndexError, lambda: y.index_select(0, torch.tensor([7], device=DEVICE)))
    assert torch.equal(y.cpu(), x.cpu() * 2)


def check_who_looks_finds_values():
    import copy
    import pickle

    x = there(4, 4)
    add = lambda: x + 1
    fused(add)
    expected = (x.cpu() + 1).tolist()
    looks = {
        "item": lambda t: t.sum().item(),
        "tolist": lambda t: t.tolist() == expected,
        "repr": repr,
        "deepcopy": lambda t: copy.deepcopy(t).tolist() == expected,
        "pickle": lambda t: pickle.loads(pickle.dumps(t)).tolist() == expected,
        "storage": lambda t: t.untyped_storage().cpu().tolist() == x.cpu().add(1).untyped_storage().tolist(),
        "bool": lambda t: bool((t == t).all()),
        "index": lambda t: t[t == t].tolist() == sum(expected, []),
        "host operator": lambda t: torch.equal(torch.linalg.qr(t)[0].cpu(), torch.linalg.qr(t.cpu())[0]),
        "resize": lambda t: t.resize_(5, 5).flatten()[:16].tolist() == sum(expected, []),
        "set": lambda t: torch.empty(0, device=DEVICE).set_(t).tolist() == expected,
        "data": lambda t: setattr(t, "data", x * 0) or t.abs().sum().item() == 0,
        "compiled": lambda t: torch.compile(torch.neg, backend="hologram")(t).neg().tolist() == expected,
    }  # fmt: skip
    for name, look in looks.items():
        assert look(add()), name
    t = add()
    other, t.data = x * t, x * 0
    assert torch.allclose(other.cpu(), x.cpu() * (x.cpu() + 1))


def check_training_gives_the_same():
    import hologram_torch

    def losses(device):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, activation="gelu", batch_first=True)
        net = torch.nn.Sequential(torch.nn.Linear(5, 8), layer, torch.nn.Linear(8, 3)).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        x, labels, found = torch.randn(4, 6, 5).to(device), torch.randint(3, (24,)).to(device), []
        for _ in range(6):
            loss = F.cross_entropy(net(x).flatten(0, 1), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return torch.tensor(found)

    before = counts()["fused"]
    actual = losses(DEVICE)
    assert counts()["fused"] > before
    with hologram_torch.device.lazy(False):
        once = losses(DEVICE)
    assert torch.allclose(actual, once, rtol=1e-4) and torch.allclose(actual, losses("cpu"), rtol=1e-3), (actual, once)


def check_memory_stays():
    from hologram_torch.accelerator import tensors

    x = there(1 << 18)
    state = there(1 << 18)

    def step():
        nonlocal state
        state = (state * 0.5 + x).tanh()

    pool = lambda: tensors.runtime().memory_stats()["in_use"]
    for _ in range(200):
        step()
    torch.hologram.synchronize()
    gc.collect()
    before = pool()
    for _ in range(400):
        step()
    torch.hologram.synchronize()
    assert pool() <= before + (8 << 20), (before, pool())
