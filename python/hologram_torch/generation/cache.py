# hologram_torch/generation/cache.py: a static cache of transformers over tensors that a module holds
"""A layer of the cache is two tensors of fixed size, [batch, heads, length, width of a head]; all layers share one position."""

import torch
from hologram import _core
from transformers.cache_utils import Cache, StaticCache, StaticLayer

from ..compiler import EXCHANGE
from ..runtimes import runtime

_ATTENTION = ("StaticLayer", "StaticSlidingWindowLayer")


class Layer(StaticLayer):
    """Keys and values of the places before `position`, a tensor of no axes, which the caller moves."""

    def __init__(self, keys, values, position):
        super().__init__(keys.shape[2])
        self.keys, self.values, self.cumulative_length = keys, values, position
        self.is_initialized = True

    def update(self, key_states, value_states, *args, **kwargs):
        places = torch.arange(key_states.shape[-2], device=key_states.device) + self.cumulative_length
        self.keys.index_copy_(2, places, key_states)
        self.values.index_copy_(2, places, value_states)
        return self.keys, self.values


def tensors(model, batch, length, argument):
    """Pairs of zeros for the layers' keys and values. argument: what model.forward calls its cache.

    A layer that looks back over a window has a place for every token too: the model's mask leaves out those before the window.
    Raises NotImplementedError for layers that keep anything else, and for models that keep nothing or have an encoder too."""
    kind = type(model).__name__
    if model.config.is_encoder_decoder:
        raise NotImplementedError(f"generate: {kind} has an encoder, and prompts are continued by decoders alone")
    layers = StaticCache(config=model.config, max_cache_len=length).layers
    other = sorted({type(layer).__name__ for layer in layers if type(layer).__name__ not in _ATTENTION})
    if other:
        raise NotImplementedError(f"generate: {kind} keeps more than keys and values ({', '.join(other)})")
    layers = _seen(model, batch, argument)
    if any(layer.keys is None for layer in layers):
        raise NotImplementedError(f"generate: {kind} keeps no keys and values in the cache that it is given")
    seen = [(t.dtype, (batch, t.shape[1], length, t.shape[3])) for layer in layers for t in (layer.keys, layer.values)]
    if model.device.type == "cpu":
        made = _side_by_side(seen)
    else:
        made = [torch.zeros(shape, dtype=dtype, device=model.device) for dtype, shape in seen]
    return list(zip(made[::2], made[1::2]))


def _side_by_side(kinds):
    """Zeros in one block of the runtime's pool, which is on huge pages: a step looks for rows all over the cache, and finding each of
    its small pages costs more than reading it. Each is a storage of its own, as nothing else writes a place of it."""
    line = 128
    sizes = [-(-dtype.itemsize * torch.Size(shape).numel() // line) * line for dtype, shape in kinds]
    unsigned, host = 1, 1  # DLPack's numbers
    block = _core.pool_tensor(runtime(), getattr(torch.Tensor, EXCHANGE), (unsigned, 8), [sum(sizes)], [1], host).zero_().numpy()
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return [
        torch.frombuffer(block, dtype=dtype, count=torch.Size(shape).numel(), offset=start).resize_(shape)
        for (dtype, shape), start in zip(kinds, starts)
    ]


def _seen(model, batch, argument):
    """Layers as the model fills them, which its configuration does not always tell; nothing is computed."""
    cache = StaticCache(config=model.config, max_cache_len=2)
    with torch.no_grad(), torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        ids = torch.ones(batch, 2, dtype=torch.int64, device=model.device)
        model(input_ids=ids, use_cache=True, **{argument: cache})
    return cache.layers


def over(pairs, position):
    """The cache that a model is given."""
    return Cache(layers=[Layer(keys, values, position) for keys, values in pairs])
