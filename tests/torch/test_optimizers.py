# tests/torch/test_optimizers.py: steps of optimizers, compiled, beside eager; lists of tensors; what is around a step
import pytest
import torch
from harness import backend_stats, compile_fresh, graph_count
from hologram_torch import optim as ours
from hologram_torch.capture import foreach
from torch import optim

MAKE = {
    "SGD": lambda p, lr: optim.SGD(p, lr, weight_decay=0.01),
    "SGD, Nesterov": lambda p, lr: optim.SGD(p, lr, momentum=0.9, nesterov=True),
    "Adam, AMSGrad": lambda p, lr: optim.Adam(p, lr, amsgrad=True, weight_decay=0.01), "AdamW": lambda p, lr: optim.AdamW(p, lr),
    "AdamW of lists": lambda p, lr: optim.AdamW(p, lr.item(), foreach=True), "AdamW, fused": lambda p, lr: optim.AdamW(p, lr, fused=True),
    "Adagrad": lambda p, lr: optim.Adagrad(p, lr, lr_decay=0.1),
    "RMSprop": lambda p, lr: optim.RMSprop(p, lr, momentum=0.5, centered=True),
    "Adafactor": lambda p, lr: ours.Adafactor(p, lr, weight_decay=0.1), "Lion": lambda p, lr: ours.Lion(p, lr, weight_decay=0.1),
}  # fmt: skip
EAGER = {"Adafactor": lambda p, lr: optim.Adafactor(p, lr, weight_decay=0.1), "Lion": lambda p, lr: Lion(p, lr)}

GRAPHS = {"SGD, Nesterov": 2, "AdamW, fused": 0}  # momentum begins behind the first step; PyTorch's fused kernels are not captured


class Lion:
    """As the paper writes it, in float64."""

    def __init__(self, parameters, lr):
        self.parameters, self.lr = list(parameters), lr
        self.averages = [torch.zeros_like(p, dtype=torch.float64) for p in self.parameters]

    def step(self):
        with torch.no_grad():
            for p, m in zip(self.parameters, self.averages):
                g = p.grad.double()
                p.copy_(p - self.lr * ((0.9 * m + 0.1 * g).sign() + 0.1 * p))
                m.copy_(0.99 * m + 0.01 * g)


def parameters():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(n)) for n in ((24, 16), (24,), (4, 3, 3, 3))]


@pytest.mark.parametrize("name", MAKE)
def test_steps_are_eagers(name):
    """Four steps on gradients of which some are zero, the learning rate a tensor that a schedule writes into."""
    mine, other = parameters(), parameters()
    rates = torch.tensor(0.01), torch.tensor(0.01)
    compiled = compile_fresh(MAKE[name](mine, rates[0]).step)
    eager = EAGER.get(name, MAKE[name])(other, rates[1])
    for step in range(4):
        for p, q in zip(mine, other):
            p.grad = torch.randn_like(p).relu() - 0.3
            q.grad = p.grad.clone()
        compiled()
        eager.step()
        for rate in rates:
            rate.mul_(0.9)
    torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)
    stats = backend_stats()
    assert graph_count() == GRAPHS.get(name, 1)
    assert stats["failed_graphs"] == 0 and stats["fallback_ops"] == {}


@pytest.mark.parametrize("name", ["AdamW", "Adafactor"])
def test_updates_that_run_together_give_the_same_bits(name):
    """Parameters of many sizes, which the threads share out: the bits that one thread gives."""
    found, before = [], torch.get_num_threads()
    for threads in (2, 1):
        torch.manual_seed(0)
        mine = [torch.nn.Parameter(torch.randn(n)) for n in ((300, 200), (1,), (64, 7), (5000,), (300, 200), (3, 3))]
        step = compile_fresh(MAKE[name](mine, torch.tensor(0.01)).step)
        torch.set_num_threads(threads)
        try:
            for _ in range(20):
                for p in mine:
                    p.grad = torch.randn_like(p)
                step()
        finally:
            torch.set_num_threads(before)
        found.append(mine)
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_operators_of_lists():
    """Each takes its tensors one by one; a graph of them all leaves none to PyTorch."""
    shapes = (3, 4), (5,)
    x, y, z = ([torch.rand(n) * 0.8 + 0.1 for n in shapes] for _ in range(3))
    named = {"scalars": torch.tensor([2.0, 3.0]), "other": torch.tensor(2.0), "found_inf": torch.zeros(1), "inv_scale": torch.tensor(0.5)}
    calls = []
    for operator in foreach.table():
        if "lgamma" in str(operator):
            continue  # eager has none of it on the CPU
        lists, given = iter((x, y, z)), []
        for argument in operator._schema.arguments:
            kind = str(argument.type)
            if argument.has_default_value():
                break
            number = [2.0, 3.0] if kind.startswith("List") else named.get(argument.name, 2.0)
            given.append(next(lists) if kind == "List[Tensor]" else number)
        given = [[t[0].reshape(3, -1)[:, :3]] if t is x or t is y else t for t in given] if "_mm." in str(operator) else given
        calls.append((operator, given))

    def every():
        return [operator(*given) for operator, given in calls]

    found, expected = compile_fresh(every)(), every()
    for (operator, _), a, b in zip(calls, found, expected):
        torch.testing.assert_close(a, b, msg=lambda text: f"{operator}: {text}")
    assert backend_stats()["fallback_ops"] == {} and len(calls) > 70


def train(compiling, by_autograd):
    """Losses and weights: gradients of two batches summed, scaled, clipped, and zeroed both ways."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    batches = torch.randn(2, 8, 6)

    def step(keep):
        optimizer.zero_grad(set_to_none=keep)
        for batch in batches:
            loss = model(batch).square().mean()
            scaler.scale(loss / 2).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        return torch.stack([loss.detach(), norm])

    with torch._dynamo.config.patch(compiled_autograd=by_autograd):
        run = compile_fresh(step) if compiling else step
        losses = torch.stack([run(n % 2 == 0) for n in range(5)])
    return losses, list(model.parameters())


@pytest.mark.parametrize("by_autograd", [False, True])
def test_whole_steps_are_eagers(by_autograd):
    """backward() inside of what is compiled, by PyTorch's engine or captured by compiled autograd."""
    torch.testing.assert_close(train(True, by_autograd), train(False, False), rtol=1e-4, atol=1e-6)
    stats = backend_stats()
    assert stats["failed_graphs"] == 0 and stats["fallback_ops"] == {}
