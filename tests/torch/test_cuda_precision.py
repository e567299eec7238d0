# tests/torch/test_cuda_precision.py: what PyTorch's switches let float32 products of a GPU's tensors do
import torch
from hologram_torch import compiler, owners, precision, runtimes
from hologram_torch.options import Options
from test_cuda import gpu, traced  # noqa: F401  (a fixture)


X, Y = torch.randn(40, 400, generator=torch.Generator().manual_seed(0)), torch.randn(400, 24, generator=torch.Generator().manual_seed(1))


def compiled(options=None, keep=False):
    options = options or Options(native_products=True)
    with runtimes.owning(owners.own(options)):
        return compiler.compile_graph(traced(torch.mm, X, Y), "inference", options, (), keep=keep)


def result(gpu, call):  # noqa: F811
    (got,) = call([gpu.tensor(X), gpu.tensor(Y)])
    return got.cpu()


def error(got) -> float:
    """The largest error over the sum of the products' magnitudes."""
    x, y = X.double(), Y.double()
    return ((got.double() - x @ y).abs() / (x.abs() @ y.abs())).max().item()


def kind(got) -> str:
    """Which setting the errors are of: those of fewer bits are far above what the next one may have."""
    found = error(got)
    return "highest" if found < 2.0**-20 else "high" if found < 2.0**-15 + 2.0**-18 else "medium" if found < 2.0**-7 else "none"


def test_each_call_has_the_precision_of_its_time(gpu, setting):  # noqa: F811
    setting("highest")
    exact = compiled()
    setting("high")
    call = compiled()
    for name in ("high", "medium", "highest", "medium", "high"):
        setting(name)
        assert kind(result(gpu, call)) == name
        assert kind(result(gpu, exact)) == "highest"  # captured under it


def test_the_switches_of_cuda_count(gpu, setting):  # noqa: F811
    matmul = torch.backends.cuda.matmul
    setting("highest")
    matmul.allow_tf32 = True
    call = compiled()
    assert kind(result(gpu, call)) == "high"
    matmul.allow_tf32 = False
    assert kind(result(gpu, call)) == "highest"
    matmul.fp32_precision = "tf32"
    assert kind(result(gpu, call)) == "high"
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # another device's, which permits nothing here
    assert kind(result(gpu, call)) == "high"
    matmul.fp32_precision = "ieee"
    assert kind(result(gpu, call)) == "highest"
    assert precision.allowed() == {"cpu"}
    setting("medium")
    assert precision.allowed() == {"cpu", "cuda"}
    assert kind(result(gpu, call)) == "medium"


def test_who_ignores_them(gpu, setting):  # noqa: F811
    setting("medium")
    assert kind(result(gpu, compiled(Options(native_products=True, reproducible=True)))) == "highest"
    theirs = compiled(Options(native_products=False))
    assert not isinstance(theirs, precision.ByPrecision)  # PyTorch's products ask themselves
    assert isinstance(compiled(), precision.ByPrecision)
