# tests/torch/test_cuda_models.py: whole models of CUDA tensors over the fake driver: what runs where, and that it is right
import hologram_torch
import pytest
import torch
import zoo
from hologram_torch import compiler, owners, runtimes
from hologram_torch.capture import decomp
from hologram_torch.options import Options
from test_cuda import gpu  # noqa: F401  (a fixture)
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

# Sizes in the place of those that a call may choose: the emulator interprets every thread.
SIZES = {"batch": 1, "length": 5}
# Layers of PyTorch's own on GPUs: without one they cannot even be traced.
MODELS = [name for name in zoo.ZOO if name not in ("lstm", "gru")]


def functional(module):
    """A function of the parameters, the buffers and the inputs; a list of results."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}

    def run(*values):
        named, inputs = dict(zip(state, values)), values[len(state) :]
        result = torch.func.functional_call(module, named, inputs)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    return run, [value.detach() for value in state.values()]


def traced(function, *operands):
    """The graph as AOTAutograd leaves it, of tensors on the GPU."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        there = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda") for x in operands]
        whole = torch.func.functionalize(function, remove="mutations_and_views")
        return make_fx(whole, decomposition_table=decomp.table())(*there)


@pytest.mark.parametrize("name", MODELS)
def test_models_of_the_zoo_run_nothing_on_the_host(gpu, name):  # noqa: F811
    case = zoo.ZOO[name]()
    run, state = functional(case.module)
    inputs = case.resized({size: n for size, n in SIZES.items() if size in case.dynamic})
    operands = [*state, *inputs]
    with torch.no_grad():
        wanted = run(*[x.clone() for x in operands])
        with runtimes.owning(frozenset(owners.KINDS)):
            graph = traced(run, *operands)
        call = compiler.compile_graph(graph, "inference", Options(native_products=True), ())
        hologram_torch.reset_stats()
        before = hologram_torch.stats()["host_runs"]
        found = call([gpu.tensor(x) for x in operands])
    for result, right in zip(found, wanted):
        torch.testing.assert_close(result.cpu(), right, rtol=2e-4, atol=2e-4)
    stats = hologram_torch.stats()
    assert stats["host_runs"] == before and stats["fallback_ops"] == {}
