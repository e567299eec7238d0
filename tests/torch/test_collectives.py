# tests/torch/test_collectives.py: functional collectives that read and write until they are awaited
import hologram_torch
import pytest
import torch
from harness import compile_fresh

dist = torch.distributed
if not dist.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

collective = torch.ops._c10d_functional
GROUP = "hologram_tests_delayed"
events, works = [], []
poison = True


class DelayedWork(dist.Work):
    """Does everything when it is waited for, and leaves nothing of the operand."""

    def __init__(self, output, operand, value):
        super().__init__()
        self.output, self.operand, self.value = output, operand, value
        output.fill_(float("nan"))
        events.append("begin")
        works.append(self)

    def wait(self, timeout=None):
        events.append("wait")
        self.output.copy_(self.value(self.operand))
        if poison:
            self.operand.fill_(float("nan"))
        return True


class DelayedGroup(dist.ProcessGroup):
    def __init__(self):
        super().__init__(0, 2)

    def size(self):
        return 2

    def _gather(self, outputs, operands, options=None):
        return DelayedWork(*outputs, *operands, lambda x: torch.cat([x, 10 * x]))

    def _reduce(self, outputs, operands, options=None):
        return DelayedWork(*outputs, *operands, lambda x: x[: len(x) // 2] + x[len(x) // 2 :])

    all_gather_single_coalesced = allgather_into_tensor_coalesced = _gather
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced = _reduce


@pytest.fixture(scope="module", autouse=True)
def group():
    made = DelayedGroup()
    dist.distributed_c10d._register_process_group(GROUP, made)
    yield made
    dist.distributed_c10d._unregister_process_group(GROUP)


@pytest.fixture(autouse=True)
def fresh():
    global poison
    poison = True
    events.clear()
    works.clear()


@torch.library.custom_op("hologram_tests::note", mutates_args=())
def note(x: torch.Tensor, name: str) -> torch.Tensor:
    events.append(name)
    return x.clone()


@note.register_fake
def _(x, name):
    return torch.empty_like(x)


def gather(x):
    return collective.all_gather_into_tensor(x, 2, GROUP)


def check(function, *arguments, reference=None):
    compiled = compile_fresh(function, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            expected = (reference or function)(*[a.clone() for a in arguments])
            events.clear()
            actual = compiled(*[a.clone() for a in arguments])
            torch.testing.assert_close(actual, expected)
    stats = hologram_torch.stats()
    assert stats["failed_graphs"] == 0 and not any("c10d" in name for name in stats["fallback_ops"])


def busy(x):
    """Intermediates of x's size, each of which ends before the next begins."""
    for _ in range(4):
        x = (x @ x.t()).softmax(-1) @ x
    return x


OVERLAPPED = {
    "a gather": lambda x: [gather(x * 2)],
    "a reduction": lambda x: [collective.reduce_scatter_tensor(x * 2, "sum", 2, GROUP)],
    "several": lambda x: [gather(x * n) for n in range(1, 4)],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", OVERLAPPED)
def test_operands_live_until_the_wait(name, dynamic):
    def function(x):
        pending = OVERLAPPED[name](x)
        y = busy(x)
        return sum(collective.wait_tensor(p) for p in pending) + 1, y

    compiled = compile_fresh(function, fullgraph=True, dynamic=dynamic)
    for n in (20, 34, 48) if dynamic else (48, 48, 48):
        x = torch.randn(n, n)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x.clone()), function(x.clone()))
    stats = hologram_torch.stats()
    assert stats["failed_graphs"] == 0 and not any("c10d" in name for name in stats["fallback_ops"])


def early_and_late(x):
    y = note(x + 1, "work")
    out = collective.wait_tensor(gather(x * 2)) * 2
    return out, note(y * 2, "more work")


def in_order(x):
    first = gather(note(x.exp(), "first"))
    second = gather(x + 1)
    return collective.wait_tensor(second), collective.wait_tensor(first)


def unread(x):
    collective.wait_tensor(gather(x * 2))
    return x + 1


ORDERS = [
    (early_and_late, "begin, work, more work, wait"), (in_order, "first, begin, begin, wait, wait"),
    (unread, "begin, wait"), (lambda x: collective.wait_tensor(gather(x * 2))[:0] + 1, "begin, wait"),  # nothing remains of it
]  # fmt: skip


@pytest.mark.parametrize("function, happened", ORDERS)
def test_each_begins_and_ends_in_its_place(function, happened):
    check(function, torch.randn(8, 8))
    assert ", ".join(events) == happened


def test_an_argument_is_written_after_the_wait():
    global poison
    poison = False

    def function(x):
        pending = gather(x)
        x.mul_(3)
        return collective.wait_tensor(pending).clone(), x + 1

    def reference(x):
        return torch.cat([x, 10 * x]), 3 * x + 1

    check(function, torch.randn(48, 48), reference=reference)


def test_one_that_nobody_waits_for_in_the_graph():
    compiled = compile_fresh(lambda x: (gather(x * 2), busy(x)), fullgraph=True)
    x = torch.randn(48, 48)
    with torch.no_grad():
        pending, _ = compiled(x)
        compiled(x + 1)
        torch.testing.assert_close(collective.wait_tensor(pending), torch.cat([2 * x, 20 * x]))


def test_nothing_reads_what_is_not_complete():
    compiled = compile_fresh(lambda x: gather(x * 2) + 1)
    with torch.no_grad():
        compiled(torch.randn(8, 8))
    stats = hologram_torch.stats()  # as in eager: PyTorch reads it
    assert (stats["failed_graphs"], stats["fallback_ops"]) == (0, {"aten.add.Tensor": 1})
