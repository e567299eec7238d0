# tests/torch/test_transforms.py: torch.func's transforms inside of compiled functions, and gradients of gradients
import hologram_torch
import pytest
import torch
from torch.nn import functional as F

X, W = torch.linspace(-1.2, 1.5, 12).reshape(3, 4), torch.linspace(-1, 1, 20).reshape(4, 5)
FUNCTIONS = {
    "elementary": lambda x: (torch.sin(x) * x.exp() + x.tanh() / (1 + x * x)).sum(),
    "layers": lambda x: (F.gelu(x @ W.to(x.dtype)) + F.silu(x @ W.to(x.dtype))).square().mean(),
    "softmax": lambda x: (x.softmax(-1) * x.log_softmax(-1)).sum() + x.logsumexp(-1).sum(),
    "norm": lambda x: (F.layer_norm(x, x.shape[-1:]) * x).sum() + x.norm(),
    "reductions": lambda x: x.var() + x.amax() + x.cumsum(-1).prod() + x.clamp(-1, 1).sum(),
    "attention": lambda x: ((x @ x.T).softmax(-1) @ x).square().sum(),
    "indices": lambda x: (x.roll(1, -1) * x.flip(-1)).sum() + torch.where(x > 0, x * x, -x).sum() + F.pad(x, (1, 2)).pow(3).sum(),
    "losses": lambda x: F.mse_loss(x, X) + F.binary_cross_entropy_with_logits(x, X.sigmoid()) + F.smooth_l1_loss(x, 2 * X),
}
TRANSFORMS = {
    "hessian": lambda f: torch.func.hessian(f),
    "jacrev": lambda f: torch.func.jacrev(torch.func.grad(f)),
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),)),
    "vmap of grad": lambda f: lambda x: torch.func.vmap(torch.func.grad(f))(torch.stack([x, 2 * x])),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_are_native(name):
    torch._dynamo.reset()
    hologram_torch.reset_stats()
    transformed = [transform(FUNCTIONS[name]) for transform in TRANSFORMS.values()]

    def together(x):
        return [t(x) for t in transformed]

    want = together(X.double())
    got = torch.compile(together, backend="hologram", fullgraph=True)(X)
    torch.testing.assert_close(got, want, check_dtype=False, rtol=2e-4, atol=2e-5)
    assert hologram_torch.stats()["fallback_ops"] == {}


def test_gradients_of_gradients_through_compiled_functions_say_what_to_do():
    f = FUNCTIONS["elementary"]
    x = X.clone().requires_grad_()
    (g,) = torch.autograd.grad(torch.compile(f, backend="hologram")(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"compile the function that takes the gradient, torch.compile\(torch.func.grad\(f\)"):
        g.sum().backward()
    penalty = lambda v: torch.func.grad(f)(v).square().sum()
    got, want = (torch.autograd.grad(p(x), x) for p in (torch.compile(penalty, backend="hologram"), penalty))
    torch.testing.assert_close(got, want)
