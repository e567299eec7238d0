# tests/torch/test_cut.py: what no native graph holds: sizes that are data, numbers and states of the host's, bodies of loops
import pytest
import torch
import torch.nn.functional as F
from harness import check, compile_fresh
from hologram_torch.capture import draws
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint
from zoo import normal

hologram_torch = pytest.importorskip("hologram_torch")
SIZES = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
"""Dynamo's settings: it would break the graph at such operators."""


def call(function, arguments):
    """Results, written arguments and gradients of the sum of what requires them, from one state of the random generator."""
    arguments = [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in arguments]
    torch.manual_seed(3)
    out = function(*arguments)
    summed = [t.values() if t.is_nested else t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    inputs = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
    gradients = torch.autograd.grad(sum(t.sum() for t in summed), inputs) if inputs and summed else ()
    return pytree.tree_map(plain, (out, gradients, arguments))


def plain(t):
    return t.values().detach() if isinstance(t, torch.Tensor) and t.is_nested else t


def agree(function, *calls, left=(), dynamic=None):
    """Every call beside eager; `left`: the operators that PyTorch ran."""
    compiled = compile_fresh(function, dynamic=dynamic, fullgraph=True)
    with torch._dynamo.config.patch(SIZES):
        for arguments in calls:
            actual, expected = call(compiled, arguments), call(function, arguments)
            for x, e in zip(*map(pytree.tree_leaves, (actual, expected)), strict=True):
                check(x, e, strides=False) if isinstance(e, torch.Tensor) else None  # tracing knows other ones of nonzero
                assert isinstance(e, torch.Tensor) or x == e
    stats = hologram_torch.stats()
    assert stats["failed_graphs"] == 0 and stats["graphs"] > 0 and set(stats["fallback_ops"]) == set(left)
    return stats


# --- sizes that are data
def experts(x):
    """A mixture of two experts, as models write it."""
    chosen = (x[:, :2] @ x.new_ones(2, 2)).argmax(-1)
    out = torch.zeros_like(x)
    for number in range(2):
        rows = torch.where(chosen == number)[0]
        out = out.index_add(0, rows, torch.tanh(x[rows]) * (number + 1))
    return out


def written(x):
    rows, y = torch.unique(x), x * 2
    x.add_(1)
    return rows + 1, y, x.sum()


def leading(x, n):
    n = n.item()
    torch._check(n >= 0)
    torch._check(n < 8)
    return torch.zeros(n) + 1, x.sin()[:n], x[n:], x[n], x.sin()[n] * 2


def drawn(*names):
    """The operators that PyTorch runs where ours draw other numbers than its own."""
    return [] if draws.exact("uniform", torch.float32) and draws.masks() else [f"aten.{name}.default" for name in names]


def chances(x):
    return torch.rand_like(x), F.dropout(torch.unique(x), 0.5, True) + torch.rand(()), torch.rand(())


REPEATED = torch.tensor([1.0, 2, 2, 3, 1, -1, 0, 0])
SIGNS = [(normal(6, 3),), (-normal(6, 3).abs(),), (normal(6, 3, seed=1).abs(),)]  # none is positive, then all are
DATA = {
    "unique": (lambda x: torch.unique(x * 2, return_inverse=True)[0] * 3 + torch.unique(x).sum(), [(REPEATED,)], ["aten._unique2.default"]),
    "nonzero": (lambda x: (torch.nonzero(x > 0) * 2, torch.nonzero(x > 0).t().contiguous() + 1), SIGNS, ["aten.nonzero.default"]),
    "mask": (lambda x: (x[x > 0] * 2).sum() + x.sin(), SIGNS, ["aten.index.Tensor"]),
    "select": (lambda x: torch.masked_select(x.sin(), x > 0).reshape(-1, 1) @ torch.ones(1, 3) + 1, SIGNS, ["aten.masked_select.default"]),
    "experts": (experts, [(normal(6, 3).requires_grad_(),), (normal(6, 3, seed=5).requires_grad_(),)], ["aten.nonzero.default"]),
    "repeats": (lambda x, n: torch.repeat_interleave(x.sin(), n, 0) * 2, [(normal(3, 2), torch.tensor(n)) for n in ([1, 2, 3], [0, 0, 0])],
                ["aten.repeat_interleave.Tensor"]),
    "number": (leading, [(normal(8, 3), torch.tensor(n)) for n in (3, 0, 1, 7)], ["aten._local_scalar_dense.default"]),
    "written": (written, [(REPEATED,)], ["aten._unique2.default"]),
    "random": (chances, [(REPEATED,)], ["aten._unique2.default", *drawn("rand_like", "native_dropout", "rand")]),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_sizes_that_are_data(name):
    function, calls, left = DATA[name]
    agree(function, *calls, left=left)


def test_the_same_assumptions_compile_once():
    calls = [(torch.arange(8) % m,) for m in (3, 5, 2)]
    assert agree(lambda x: torch.unique(x) * 2, *calls, left=["aten._unique2.default"])["graphs"] == 1


# --- one operator
def test_an_operator_that_no_graph_holds_is_one_step(monkeypatch):
    """Whatever translating it raised."""
    from hologram_torch.translate.translator import Translator

    step = Translator._step

    def failing(self, node, module):
        if node.target is torch.ops.aten.tanh.default:
            raise LookupError("no luck")
        step(self, node, module)

    monkeypatch.setattr(Translator, "_step", failing)
    monkeypatch.setenv("HOLOGRAM_STRICT", "0")
    stats = agree(lambda x: (torch.tanh(x.sin()).cos() @ x, x * 2), (normal(4, 4).requires_grad_(),), left=["aten.tanh.default"])
    assert stats["kernels"] > 0


def test_arguments_of_the_host_are_written():
    def function(x, y, z):
        x.add_(y.to(torch.complex64))
        z.copy_(y.sin())
        return x * 2, y.cos()

    arguments = normal(4).to(torch.complex64), normal(4), normal(4).to(torch.float8_e4m3fn)
    left = ("_to_copy.default", "add.Tensor", "mul.Tensor", "copy_.default", "copy.default")
    agree(function, arguments, left=["aten." + name for name in left])


# --- values of the host's
def test_results_that_are_no_tensors():
    agree(lambda x: (x.sin(), x.shape[0] > 2, x.shape[0] / 2, 2.5), (normal(4),), (normal(7),), dynamic=True)


@pytest.mark.parametrize("attends", [False, True])
def test_checkpoints_with_dropout(attends):
    """The state of the random generator is a value of the host's."""

    def block(x):
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5) if attends else F.dropout(torch.tanh(x), 0.5, True)

    def function(x):
        y = checkpoint(block, checkpoint(block, x, use_reentrant=False), use_reentrant=False)
        return y + torch.rand_like(x)

    agree(function, (normal(2, 2, 4, 8).requires_grad_(),), left=drawn("native_dropout", "rand_like"))


def ragged(*lengths, **options):
    return torch.nested.nested_tensor([normal(n, 4, seed=n) for n in lengths], layout=torch.jagged, **options)


def test_nested_tensors():
    layer = torch.nn.Linear(4, 4)

    def function(x):
        return F.layer_norm(torch.relu(layer(x)), (4,)).softmax(-1) * 2 + x

    agree(function, (ragged(3, 2, 5),), (ragged(4, 1),))
    agree(lambda x: layer(x).sin().values().sum(), (ragged(3, 2, 5, requires_grad=True),))


# --- checks of values
def bounded(x):
    torch._check(x.max().item() < 5)
    return x.add_(1) * 2


def asserted(x):
    torch._assert_async((x < 5).all(), "too much")
    return x.add_(1) * 2


def asserted_inside(x):
    def double(x):
        torch._assert_async((x < 5).all(), "too much")
        return x * 2

    return torch.cond(x.sum() > 0, double, torch.neg, (x,))


CHECKS = {
    "check": (bounded, "Runtime assertion failed"),
    "assert": (asserted, "too much"),
    "body": (asserted_inside, "too much"),
    "chances": (lambda x: torch.bernoulli(x / 5) * 2, "p_in <= 1"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_values(name):
    """What fails one leaves arguments as they are."""
    function, words = CHECKS[name]
    compiled = compile_fresh(function)
    with torch._dynamo.config.patch(SIZES):
        for x in (normal(4).abs(), torch.full((4,), 9.0), normal(4).abs()):
            given = x.clone()
            torch.manual_seed(0)
            if (x < 5).all():
                expected = function(x.clone())
                torch.manual_seed(0)
                check(compiled(given), expected)
            else:
                with pytest.raises(RuntimeError, match=words):
                    compiled(given)
                check(given, x)


# --- conditionals and loops
def loop(x):
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, torch.tanh(x @ x) + x.sin()), (torch.tensor(0), x))[1]


def counted(x):
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, torch.tanh(x @ x)), (0, x))[1] + 1


def scanned(x):
    from torch._higher_order_ops.scan import scan

    carry, out = scan(lambda c, y: (torch.tanh(c + y), c * y), x[0], x)
    return carry + 1, out


def mapped(x):
    from torch._higher_order_ops.map import map

    return map(lambda y: torch.tanh(y) * 2 + y.sum(), x) + 1


def branch(x):
    def inner(y):
        return torch.cond(y.max() > 1, lambda z: z.sin() @ z, lambda z: z @ z, (y,))

    return torch.cond(x.sum() > 0, inner, lambda y: torch.cos(y), (x,)) + 1


def strictly(x):
    from torch._higher_order_ops.strict_mode import strict_mode

    return strict_mode(lambda y: (y.sin(), y @ y), (x,))[1] * 2


def associated(x):
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(lambda a, b: a * b, x.tanh(), 1, combine_mode="pointwise") * 2


LOOPS = {
    # name: (function, in inference, in training) → what PyTorch runs itself
    "cond": (branch, [], []),
    "while": (loop, [], ["aten._local_scalar_dense.default"]),
    "while-number": (counted, [], None),
    "scan": (scanned, ["scan"], ["scan"]),
    "map": (mapped, ["map_impl"], ["map_impl"]),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", LOOPS)
def test_bodies_are_compiled(name, training):
    function, *left = LOOPS[name]
    if left[training] is None:
        pytest.skip("PyTorch has no gradient of it")
    x = normal(4, 4)
    calls = [(x.requires_grad_(training),), ((-x).detach().requires_grad_(training),)]
    stats = agree(function, *calls[: 2 if name == "cond" else 1], left=left[training])
    assert stats["graphs"] > 1 + training and stats["kernels"] > 1


@pytest.mark.parametrize("function", [strictly, associated])
def test_operators_that_call_graphs_are_native(function):
    agree(function, (normal(4, 4),))


def test_operators_that_call_graphs_in_training_and_over_sizes():
    agree(associated, (normal(4, 4).requires_grad_(),))
    assert compile_fresh(associated)(normal(4, 4)).stride() == (1, 4)
    agree(strictly, (normal(4, 4),), (normal(6, 6),), dynamic=True)


def test_an_operator_that_another_one_calls_is_named():
    @torch.library.custom_op("cut_test::add_into", mutates_args=("y",))
    def add_into(x: torch.Tensor, y: torch.Tensor) -> None:
        y.add_(x)

    def function(x):
        y = x.sin()
        add_into(x, y)
        return y * 2

    agree(function, (normal(4, 4),), left=["cut_test.add_into.default"])


def test_bodies_of_other_sizes():
    agree(loop, (normal(4, 4),), (normal(6, 6),), dynamic=True)
