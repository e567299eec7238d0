# tests/torch/test_zoo.py: the models of zoo.py, compiled against eager
import copy

import pytest
import torch
from harness import backend_stats, check, compile_fresh, graph_count, run_eager
from zoo import ZOO, normal

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@pytest.fixture(autouse=True)
def every_graph_compiles():
    yield
    assert backend_stats()["failed_graphs"] == 0


def eager_or_skip(case):
    try:
        return run_eager(case.module, case.inputs)
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"eager does not run it: {error}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ZOO)
def test_inference(name, dtype):
    case = ZOO[name](DTYPES[dtype])
    eager = eager_or_skip(case)
    truth = run_eager(case.module, case.inputs, torch.float32)
    module = copy.deepcopy(case.module)
    compiled = compile_fresh(module, dynamic=False)
    with torch.no_grad():
        check(compiled(*case.inputs), eager, truth)
        check(compiled(*case.inputs), eager, truth)
    assert graph_count() == 1
    assert not backend_stats()["fallback_ops"], "without a native kernel"


@pytest.mark.parametrize("name", [name for name in ZOO if ZOO[name]().dynamic])
def test_sizes_change_without_recompiling(name):
    case = ZOO[name]()
    marked = [tensor.clone() for tensor in case.inputs]
    for places in case.dynamic.values():
        for index, dim in places:
            torch._dynamo.mark_dynamic(marked[index], dim)
    module = copy.deepcopy(case.module)
    compiled = compile_fresh(module)
    with torch.no_grad():
        check(compiled(*marked), run_eager(case.module, case.inputs))
        graphs, kernels = graph_count(), backend_stats()["kernel_cache_misses"]
        for less in (1, 2):
            inputs = case.resized({size: case.size(size) - less for size in case.dynamic})
            check(compiled(*inputs), run_eager(case.module, inputs))
    assert graph_count() == graphs, "Dynamo captured again"
    assert backend_stats()["kernel_cache_misses"] == kernels, "a new size compiled a kernel"


@pytest.mark.parametrize("dtype", DTYPES)
def test_static_cache_is_updated_in_place(dtype):
    case = ZOO["gpt2_cached"](DTYPES[dtype])
    expected, truth = copy.deepcopy(case.module), copy.deepcopy(case.module).float()
    module = copy.deepcopy(case.module)
    caches = dict(module.named_buffers())
    places = {name: cache.data_ptr() for name, cache in caches.items()}
    compiled = compile_fresh(module, dynamic=False)
    steps = [case.inputs, *((torch.tensor([[7 * p]]), torch.tensor([p])) for p in range(9, 14))]
    with torch.no_grad():
        for step, inputs in enumerate(steps):
            check(compiled(*inputs), expected(*inputs), truth(*inputs))
            if step == 1:
                graphs = graph_count()
    assert graph_count() == graphs, "a later position captured again"
    for name, cache in expected.named_buffers():
        check(caches[name], cache, truth.get_buffer(name))
        assert caches[name].data_ptr() == places[name]


@pytest.mark.parametrize("name", [name for name in ZOO if name != "gpt2_cached"])  # whose cache is for inference
def test_training_step(name):
    case = ZOO[name]()
    results = []
    for compiling in (False, True):
        torch.manual_seed(3)  # of dropout
        module = copy.deepcopy(case.module).train()
        call = compile_fresh(module, dynamic=False) if compiling else module
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        first = None
        for _ in range(2):
            optimizer.zero_grad()
            outputs = torch.utils._pytree.tree_leaves(call(*case.inputs))
            loss = sum((o * normal(*o.shape, dtype=o.dtype, seed=i)).mean() for i, o in enumerate(outputs))
            loss.backward()
            gradients = {name: p.grad.clone() for name, p in module.named_parameters()}
            first = first or (loss.detach(), gradients)
            optimizer.step()
        state = {name: t.clone() for name, t in module.state_dict().items()}
        results.append((*first, loss.detach(), state))
    assert graph_count() >= 1
    check(results[1], results[0], strides=False)
