# tests/torch/test_functional.py: hologram_torch.functional, nn, autograd, utils and HologramTensor
import copy
import gc
import types
import weakref

import hologram
import hologram_ffi as hg
import hologram_torch
import pytest
import torch
from checks import refuses
from hologram_torch import functional, nn, utils

F = torch.nn.functional


@pytest.fixture
def executor():
    with hologram_torch.Executor() as e:
        yield e


ELEMENTWISE = {
    "relu": (functional.relu, F.relu),
    "sigmoid": (functional.sigmoid, torch.sigmoid),
    "tanh": (functional.tanh, torch.tanh),
    "gelu": (functional.gelu, F.gelu),
    "gelu tanh": (lambda *a: functional.gelu(*a, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "softmax 0": (lambda *a: functional.softmax(*a, dim=0), lambda x: torch.softmax(x, 0)),
    "softmax -1": (lambda *a: functional.softmax(*a, dim=-1), lambda x: torch.softmax(x, -1)),
    "softmax": (functional.softmax, lambda x: torch.softmax(x.reshape(-1), 0).reshape(x.shape)),
}
BINARY = {name: (getattr(functional, name), getattr(torch, name)) for name in ("add", "sub", "mul", "div")}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(executor, name):
    ours, theirs = ELEMENTWISE[name]
    for x in (torch.randn(32, 256), torch.randn(7), torch.randn(3, 4, 5).transpose(0, 2), torch.randn(5, 2, dtype=torch.float64)):
        torch.testing.assert_close(ours(executor, x), theirs(x))
        torch.testing.assert_close(ours(x), theirs(x))
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ours, (x,))


@pytest.mark.parametrize("name", BINARY)
def test_binary(executor, name):
    ours, theirs = BINARY[name]
    for a, b in (((4, 5), (4, 5)), ((4, 5), (5,)), ((2, 1, 5), (4, 1)), ((), (3,))):
        x, y = torch.randn(a), torch.randn(b) + 3
        torch.testing.assert_close(ours(executor, x, y), theirs(x, y))
        x, y = (t.double().requires_grad_() for t in (x, y))
        assert torch.autograd.gradcheck(ours, (x, y))
    x = torch.randn(3, 4)
    out = torch.empty(3, 4)
    assert ours(executor, x, x, out=out) is out
    torch.testing.assert_close(out, theirs(x, x))
    refuses(ValueError, None, lambda: ours(executor, torch.ones(2), torch.ones(3)))
    refuses(TypeError, "one dtype", lambda: ours(executor, torch.ones(2), torch.ones(2, dtype=torch.float64)))
    for dtype in (torch.uint8, torch.int64):
        x, y = torch.tensor([3, 2]).to(dtype), torch.tensor([1, 2]).to(dtype)
        torch.testing.assert_close(ours(x, y), theirs(x, y))


def test_linear(executor):
    weight, bias = torch.randn(6, 4), torch.randn(6)
    for x in (torch.randn(4), torch.randn(3, 4), torch.randn(2, 3, 4), torch.randn(4, 3).T):
        torch.testing.assert_close(functional.linear(executor, x, weight, bias), F.linear(x, weight, bias))
        torch.testing.assert_close(functional.linear(executor, x, weight), F.linear(x, weight))
    operands = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 3, 4), (6, 4), (6,))]
    assert torch.autograd.gradcheck(functional.linear, operands)
    refuses(TypeError, "linear_bias: floats of one dtype", lambda: functional.linear(weight, weight, bias.double()))
    refuses(ValueError, "do not go together", lambda: functional.linear(executor, torch.randn(3, 5), weight))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(executor, reduction):
    x, t = torch.rand(5, 3), torch.rand(5, 3)
    classes = torch.tensor([0, 2, 1, -100, 0])
    for ours, theirs, a, b in (
        (functional.mse_loss, F.mse_loss, x, t),
        (functional.binary_cross_entropy, F.binary_cross_entropy, x, t),
        (functional.cross_entropy, F.cross_entropy, x * 5, classes),
    ):
        torch.testing.assert_close(ours(executor, a, b, reduction=reduction), theirs(a, b, reduction=reduction))
        a = (a.double() * 0.8 + 0.1).requires_grad_()
        assert torch.autograd.gradcheck(lambda v: ours(v, b.double() if b.is_floating_point() else b, reduction), (a,))
    refuses(ValueError, "reduction", lambda: functional.mse_loss(executor, x, t, reduction="most"))
    refuses(ValueError, "one shape", lambda: functional.mse_loss(executor, x, t[0]))


def test_an_mlp_trains_as_in_torch():
    ours = torch.nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    theirs = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(64, 8)
    y = (x[:, :1] - x[:, 1:2]).tanh()
    first, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (ours, theirs))
    losses = []
    for _ in range(200):
        losses.append(utils.train_step(ours, (x, y), first))
        want = utils.train_step(theirs, (x, y), second, loss=F.mse_loss)
        if len(losses) <= 50:
            assert losses[-1] == pytest.approx(want, rel=1e-4)
    assert losses[-1] < 0.1 * losses[0]


def test_modules(executor):
    x = torch.randn(32, 512)
    for linear in (nn.Linear(executor, 512, 256), nn.Linear(512, 256), nn.Linear(512, 256, bias=False)):
        reference = torch.nn.Linear(512, 256, bias=linear.bias is not None)
        reference.load_state_dict(linear.state_dict())
        torch.testing.assert_close(linear(x), reference(x))
        torch.testing.assert_close(linear(executor, x), reference(x))
        assert linear(x).shape == (32, 256)
        torch.testing.assert_close(copy.deepcopy(linear)(x), reference(x))
    for ours, theirs in (
        (nn.ReLU(), torch.nn.ReLU()),
        (nn.Sigmoid(), torch.nn.Sigmoid()),
        (nn.Tanh(), torch.nn.Tanh()),
        (nn.GELU(), torch.nn.GELU()),
        (nn.Softmax(1), torch.nn.Softmax(1)),
    ):
        torch.testing.assert_close(ours(executor, x), theirs(x))
    with pytest.warns(UserWarning, match="dim"):
        nn.Softmax()
    p, classes = x[:, :3].sigmoid(), torch.arange(32) % 3
    for name, operands in {"MSELoss": (x, x + 1), "BCELoss": (p, p.flip(0)), "CrossEntropyLoss": (x[:, :3], classes)}.items():
        ours, theirs = (getattr(module, name)(reduction="sum") for module in (nn, torch.nn))
        torch.testing.assert_close(ours(executor, *operands), theirs(*operands))
    y = x.clone()
    assert nn.ReLU(inplace=True)(y) is y and (y >= 0).all()


def test_misuse(executor):
    for function, wrong, error, words in (
        (functional.relu, [1.0], TypeError, "Tensor"), (functional.relu, torch.zeros(3, dtype=torch.complex64), TypeError, "complex64"),
        (functional.relu, torch.zeros(3, device="meta"), ValueError, "meta"),
        (functional.gelu, torch.ones(3, dtype=torch.int64), TypeError, "gelu: floats of one dtype are expected, got torch.int64"),
        (functional.relu, torch.ones(3, dtype=torch.bool), TypeError, "relu: floats or integers"),
    ):  # fmt: skip
        refuses(error, words, lambda: function(executor, wrong))
    refuses(TypeError, "targets of integers", lambda: functional.cross_entropy(torch.ones(2, 2), torch.ones(2)))
    with hologram.Executor("interp") as other, pytest.raises(ValueError, match="'cpu' is expected, got one of 'interp'"):
        functional.relu(other, torch.zeros(3))
    executor.cleanup()
    refuses(hologram.HologramError, None, lambda: functional.relu(executor, torch.zeros(3)))


def test_operands_are_not_copied(executor):
    tensor = torch.randn(3, 4)
    buffer, flat = utils.tensor_to_buffer(executor, tensor)
    assert buffer.ptr == tensor.data_ptr() == flat.data_ptr() and not buffer.copied
    back = utils.buffer_to_tensor(buffer, (3, 4), requires_grad=True)
    assert back.data_ptr() == tensor.data_ptr() and back.requires_grad
    again, _ = utils.tensor_to_buffer(executor, tensor + 1, existing_buffer=buffer)
    assert again is buffer and tensor[0, 0] == buffer[0]
    other, _ = utils.tensor_to_buffer(executor, torch.randn(5), existing_buffer=buffer)
    assert other is not buffer
    for shape in ((), (1,), (2, 3), (2, 3, 4), (2, 3, 4, 5)):
        t = torch.randn(shape)
        torch.testing.assert_close(utils.buffer_to_tensor(utils.tensor_to_buffer(executor, t)[0], shape), t)


def test_devices():
    class On:
        def __init__(self, kind):
            self.device = torch.device(kind)

    assert [utils.match_device(On(kind)) for kind in ("cpu", "cuda", "mps")] == ["cpu", "cuda", "metal"]
    refuses(ValueError, None, lambda: utils.match_device(On("cpu"), "cuda"))
    assert utils.create_executor_for_tensor(torch.ones(1)).backend == "cpu"


def test_hologram_tensor():
    executor = hg.new_executor()
    buffer = hg.executor_allocate_buffer(executor, 6)
    tensor = hologram_torch.HologramTensor(executor, buffer, (2, 3))
    assert (tensor.shape, tensor.ndim, tensor.numel(), tensor.device_info()) == ((2, 3), 2, 6, (1, 0))
    shared = torch.from_dlpack(tensor)
    shared.fill_(7)
    assert hg.buffer_to_vec(executor, buffer) == "[7, 7, 7, 7, 7, 7]"
    source = torch.arange(6.0).reshape(3, 2)
    imported = hologram_torch.HologramTensor.from_dlpack(executor, source.T)
    assert imported.data_ptr == source.data_ptr() and not imported.is_contiguous()
    assert torch.equal(torch.from_dlpack(imported.contiguous()), source.T)
    gone = weakref.ref(source)
    del source, imported
    gc.collect()
    assert gone() is None
    hg.executor_cleanup(executor)
    assert shared.sum() == 42
    del tensor


@pytest.fixture
def native():
    """Inside, PyTorch runs nothing for us."""
    hologram_torch.reset_stats()
    yield
    assert hologram_torch.stats()["fallback_ops"] == {}


def test_gradients_of_gradients_of_several_operands(native):
    x, y = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for name, (ours, _) in BINARY.items():
        assert torch.autograd.gradgradcheck(ours, (x, y + 3)), name
    assert torch.autograd.gradgradcheck(lambda v: functional.mul(v, v), (x,))  # one tensor for two operands
    assert torch.autograd.gradgradcheck(functional.linear, (x, y, torch.randn(3, dtype=torch.float64, requires_grad=True)))
    p, t, classes = x.sigmoid().detach().requires_grad_(), torch.rand(3, 4, dtype=torch.float64), torch.tensor([0, -100, 1])
    for reduction in ("mean", "none"):
        assert torch.autograd.gradgradcheck(lambda v, r=reduction: functional.binary_cross_entropy(v, t, r), (p,))
        assert torch.autograd.gradgradcheck(lambda v, r=reduction: functional.mse_loss(v, t, r), (p,))
        assert torch.autograd.gradgradcheck(lambda v, r=reduction: functional.cross_entropy(v, classes, r), (x,))


def tanh_of_linear(weight, bias, x, of):
    return of.tanh(of.linear(x, weight, bias)).pow(2).sum()


X, WEIGHT, BIAS = torch.randn(5, 4), torch.randn(3, 4), torch.randn(3)
TRANSFORMS = {  # of functions of a namespace, ours or PyTorch's
    "grad": lambda of: torch.func.grad(tanh_of_linear, argnums=(0, 1))(WEIGHT, BIAS, X, of),
    "grad of grad of grad": lambda of: torch.func.grad(
        lambda a: torch.func.grad(lambda b: torch.func.grad(lambda v: of.tanh(v).sum())(b).sum())(a).sum())(X),
    "vmap of grad": lambda of: torch.func.vmap(torch.func.grad(tanh_of_linear), in_dims=(None, None, 0, None))(WEIGHT, BIAS, X, of),
    "jvp": lambda of: torch.func.jvp(lambda v: of.softmax(v, dim=-1), (X,), (torch.ones_like(X),)),
    "jvp of vmap": lambda of: torch.func.jvp(torch.func.vmap(of.gelu), (X,), (X,)),
    "jacrev": lambda of: torch.func.jacrev(of.relu)(X[0]),
    "hessian": lambda of: torch.func.hessian(lambda v: of.div(of.gelu(v), of.add(v, v)).sum())(X[0].abs() + 1),
    "hessian of a loss": lambda of: torch.func.hessian(lambda v: of.cross_entropy(v, torch.tensor([0, 1, -100, 3, 0])))(X),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_torch_func(name, native):
    theirs = types.SimpleNamespace(**{n: getattr(F, n, getattr(torch, n, None)) for n in functional.__all__})
    torch.testing.assert_close(TRANSFORMS[name](functional), TRANSFORMS[name](theirs))


def test_in_graphs(executor, strict):
    net = torch.nn.Sequential(nn.Linear(executor, 4, 3), nn.ReLU(), nn.GELU(), nn.Softmax(-1))

    def loss(x):
        return nn.CrossEntropyLoss()(functional.mul(executor, net(x), 2 * torch.ones(1)), torch.arange(5) % 3)

    x = torch.randn(5, 4, requires_grad=True)
    hologram_torch.reset_stats()
    torch._dynamo.utils.counters.clear()
    got, want = torch.compile(loss, backend="hologram")(x), loss(x)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(torch.autograd.grad(got, x), torch.autograd.grad(want, x))
    assert not torch._dynamo.utils.counters["graph_break"] and not hologram_torch.stats()["fallback_ops"]


def test_replace_modules():
    shared = torch.nn.Linear(8, 8)
    model = torch.nn.Sequential(shared, torch.nn.ReLU(), shared, torch.nn.GELU(approximate="tanh"), torch.nn.Softmax(dim=-1))
    model.append(torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Sigmoid(), torch.nn.ELU()))
    seen = []
    model[0].register_forward_hook(lambda module, args, out: seen.append(type(module)))
    x, parameters = torch.randn(4, 8), list(model.parameters())
    want = model(x)
    assert nn.replace_modules(model) is model
    torch.testing.assert_close(model(x), want)
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert seen == [torch.nn.Linear] * 2 + [nn.Linear] * 2
    assert [type(m) for m in (*model[1:5], *model[5])] == [nn.ReLU, nn.Linear, nn.GELU, nn.Softmax, nn.Tanh, nn.Sigmoid, torch.nn.ELU]
    assert isinstance(nn.replace_modules(torch.nn.ReLU()), nn.ReLU)
    copy.deepcopy(model)(x)

    class Own(torch.nn.Linear):
        pass

    assert type(nn.replace_modules(Own(2, 2))) is Own
