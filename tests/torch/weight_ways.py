# tests/torch/weight_ways.py: ways of writing the weight of a layer: way(layer) prepares one and gives what writes
"""The layer has 64 × 64 weights and 64 biases. A way may hold other names of its memory."""
import copy
import os
import threading

import pytest
import torch
from torch import nn


def written(how):
    """A way that holds nothing: how(layer) writes."""
    return lambda layer: lambda: how(layer)


def through(alias, write=lambda t: t.mul_(-3)):
    """A way that holds what alias(layer) gives and writes through it."""

    def way(layer):
        held = alias(layer)
        return lambda: write(held)

    return way


def flat_buffer(layer):
    """As DeepSpeed and apex lay parameters out."""
    flat = nn.utils.parameters_to_vector(layer.parameters()).detach()
    nn.utils.vector_to_parameters(flat, layer.parameters())
    return flat


def replaced_data(layer):
    layer.weight.data = held = torch.randn(64, 64)
    return held


def old_address(layer):
    values = layer.weight.detach() * -3
    layer.weight.data = torch.empty(0)
    layer.weight.data = values.clone()  # often at the address where it was before


def preserved_version(layer):
    with torch.autograd._unsafe_preserve_version_counter(layer.weight):
        layer.weight.mul_(-3)


def in_inference_mode(layer):
    with torch.inference_mode():
        layer.weight.mul_(-3)


def by_thread(layer):
    thread = threading.Thread(target=lambda: layer.weight.detach().mul_(-3))
    thread.start()
    thread.join()


def storage_of(layer):
    return torch.empty(0).set_(layer.weight.detach().untyped_storage())


def compiled_data(layer):
    @torch.compile(backend="hologram")
    def write(w):
        w.data.mul_(-3)

    write(layer.weight)


def collective(layer):
    dist = torch.distributed
    if not dist.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.all_gather_into_tensor(layer.weight.detach(), torch.randn(64, 64))
        dist.all_reduce(layer.weight.detach())
    finally:
        dist.destroy_process_group()


def stepped(make):
    def way(layer):
        optimizer = make(layer.parameters())

        def step():
            for p in layer.parameters():
                p.grad = torch.randn_like(p)
            with torch.enable_grad():
                optimizer.step()

        return step

    return way


class OldOptimizer(torch.optim.Optimizer):
    """Writes as many optimizers outside of PyTorch do, and keeps what it writes into."""

    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.aliases = [p.data.view(-1) for group in self.param_groups for p in group["params"]]

    def step(self):
        for alias in self.aliases:
            alias.mul_(-3)


def loaded(assign, make=lambda layer: {k: torch.randn_like(v) for k, v in layer.state_dict().items()}):
    return written(lambda layer: layer.load_state_dict(make(layer), assign=assign))


def storage_filled(layer):
    layer.weight.untyped_storage().fill_(0x3D + layer.weight.untyped_storage()[0] % 2)  # 0.046 or 0.186


def typed_storage(layer):
    layer.weight.storage()[5] = layer.weight[0, 5].item() * -3 + 1


def halves(layer):
    layer.weight.detach().view(torch.int32).fill_(0x3F00003E)  # 0.5, and backwards 0.125
    return layer.weight.untyped_storage()


def swapped(layer):
    layer.weight = nn.Parameter(torch.randn(64, 64))  # the other one may have weak references
    return lambda: torch.utils.swap_tensors(layer.weight, nn.Parameter(torch.randn(64, 64)))


def other_process(layer):
    layer.share_memory()

    def write():
        process = os.fork()
        if process == 0:
            layer.weight.mul_(-3)
            os._exit(0)
        os.waitpid(process, 0)

    return write


WAYS = {
    "in place": written(lambda m: m.weight.mul_(-3)),
    "a row assigned": written(lambda m: m.weight.__setitem__(3, m.weight[3] * -3)),
    "for each": written(lambda m: torch._foreach_mul_(list(m.parameters()), -3)),
    "in inference mode": written(in_inference_mode),
    "by another thread": written(by_thread),
    "data": written(lambda m: m.weight.data.mul_(-3)),
    "data held": through(lambda m: m.weight.data),
    "a part of data held": through(lambda m: m.weight.data[3:9, 1:]),
    "detached and held": through(lambda m: m.weight.detach()),
    "bits held": through(lambda m: m.weight.data.view(torch.int32), lambda t: t.bitwise_xor_(-(2**31))),
    "new data": written(lambda m: setattr(m.weight, "data", m.weight.data * -3)),
    "data held, then given": through(replaced_data),
    "data at an old address": written(old_address),
    "a new parameter": written(lambda m: setattr(m, "weight", nn.Parameter(m.weight * -3))),
    "a shallow copy held": through(lambda m: copy.copy(m.weight.detach())),
    "set_ to its storage": written(lambda m: storage_of(m).mul_(-3)),
    "set_ to its storage, held": through(storage_of),
    "its storage copied into": written(lambda m: m.weight.untyped_storage().copy_(torch.randn(64, 64).untyped_storage())),
    "its storage filled": written(storage_filled),
    "its storage's bytes swapped": through(halves, lambda s: s.byteswap(torch.float32)),
    "typed storage": written(typed_storage),
    "vector_to_parameters": written(lambda m: nn.utils.vector_to_parameters(torch.randn(64 * 65), m.parameters())),
    "a flat buffer": through(flat_buffer),
    "an optimizer": stepped(lambda ps: torch.optim.SGD(ps, lr=1)),
    "a fused optimizer": stepped(lambda ps: torch.optim.AdamW(ps, lr=1, fused=True)),
    "an optimizer outside": stepped(OldOptimizer),
    "load_state_dict": loaded(False),
    "load_state_dict by assigning": loaded(True),
    "a state_dict held": through(lambda m: m.state_dict()["weight"]),
    "a preserved version": written(preserved_version),
    "data in a compiled graph": written(compiled_data),
    "a collective": written(collective),
    "swapped": swapped,
    "another process": other_process,
    "a NumPy array held": through(lambda m: m.weight.detach().numpy(), lambda a: a.__imul__(-3)),
    "DLPack": written(lambda m: torch.from_dlpack(m.weight.detach()).mul_(-3)),
    "DLPack held": through(lambda m: torch.from_dlpack(m.weight.detach())),
}  # fmt: skip
