# tests/torch/test_cuda_freeze.py: freeze() on tensors of a GPU over the fake driver: all but torch.export of a model that is there
import types

import fake_cuda
import hologram_torch
import pytest
import torch
from hologram_torch import frozen
from test_cuda import gpu, traced  # noqa: F401  (a fixture)


class CudaTensor(torch.Tensor):
    """A tensor by its type and version, whose memory is `there`, on the fake device."""

    @classmethod
    def of(cls, there: fake_cuda.DeviceTensor):
        out = torch.Tensor._make_subclass(cls, torch.empty(0))
        out.there = there
        return out

    def write(self, values):
        """As PyTorch writes in place: the version says so."""
        self.zero_()
        self.there.write(values)


class Weighted(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, x):
        return weighted(self.weight, x)


def weighted(w, x):
    return x * torch.softmax(w, -1)


@pytest.fixture
def there(gpu, monkeypatch):  # noqa: F811
    """Makes CUDA tensors; freeze() finds them in the exchange table, and a capture gives the graph of such tensors."""
    capture = frozen.exported.capture

    def captured(model, inputs):
        w, (x,) = model.weight.there, [x.there for x in inputs]
        host = [torch.zeros(t.shape, dtype=t.dtype) for t in (w, x)]
        program = capture(Weighted(host[0]), (host[1],))
        return types.SimpleNamespace(graph_module=traced(weighted, *host), graph_signature=program.graph_signature,
                                     constants=program.constants, call_spec=program.call_spec)  # fmt: skip

    monkeypatch.setattr(frozen.exported, "capture", captured)
    monkeypatch.setattr(torch.Tensor, "__dlpack_c_exchange_api__", gpu.exchange)
    return lambda values, device_id=0: CudaTensor.of(gpu.tensor(values, device_id))


def on_gpu(there, weight):
    model = Weighted(torch.zeros(1)).eval()
    model._parameters["weight"] = there(weight)
    return model


def right(result, weight, x):
    torch.testing.assert_close(result.cpu(), weighted(weight, x))


def test_a_frozen_model_keeps_what_depends_on_its_weights_on_the_device(gpu, there):  # noqa: F811
    w, x = torch.randn(8), torch.randn(4, 8)
    model = on_gpu(there, w)
    before = gpu.count("launches")
    call = hologram_torch.freeze(model, (there(x),))
    launches = [gpu.count("launches") - before]
    with torch.no_grad():
        for written in (False, False, True, False):
            x = torch.randn(4, 8)  # at another address
            if written:
                w = torch.randn(8)
                model.weight.write(w)
            before = gpu.count("launches")
            right(call(there(x)), w, x)
            launches.append(gpu.count("launches") - before)
    kept = launches[1]
    assert launches == [kept + 1, kept, kept, kept + 1, kept] and call.captures == 1


def test_a_weight_that_others_hold_is_kept_once_they_are_known(gpu, there):  # noqa: F811
    w, x = torch.randn(8), torch.randn(4, 8)
    model = on_gpu(there, w)
    alias = model.weight.data
    call = hologram_torch.freeze(model, (there(x),))
    launches, array = [], None
    with torch.no_grad():
        for written in (False, False, True, False, None, None):
            if written:  # by a version of its own
                w = torch.randn(8)
                alias.zero_()
                model.weight.there.write(w)
            array = alias.as_subclass(torch.Tensor).numpy() if written is None and array is None else array
            before = gpu.count("launches")
            right(call(there(x)), w, x)
            launches.append(gpu.count("launches") - before)
    kept = launches[3]
    assert launches[1:] == [kept, kept + 1, kept, kept + 1, kept + 1]
