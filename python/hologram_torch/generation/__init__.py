# hologram_torch/generation/__init__.py: generate(): token after token by compiled steps over a static cache
import operator
import types

import torch
from hologram import generation

from .. import archive
from .compiled import Compiled
from .steps import Steps

_KEPT = "_hologram_generation"
_MOST = 4  # compiled pairs of batch and length that a model keeps


def generate(model, ids, *, max_new_tokens=20, length=None, streamer=None, progress=None, options=None, **choices):
    """Continues prompts by `model`, compiled for this backend. → int64 [batch, prompt + new] on the CPU.

    model: a causal language model of transformers, or a module whose forward(ids, positions) gives logits and which keeps its own
    cache in buffers (then `length` says how many tokens that holds). ids: int64 [batch, prompt] or [prompt]. choices: do_sample,
    temperature, top_k, top_p, seed, eos, pad, stop, attention_mask as in hologram.generation.tokens; eos and pad are by default those of
    model.generation_config. streamer, progress: as in hologram.generate. options: as in torch.compile.

    Keys and values lie in memory of their own, which each step writes one place of. Prompts of all lengths are one graph, steps
    another; they are compiled for each batch and for lengths of 64, 128, 256, ... tokens. Whatever changed in the model before a call is
    seen; while tokens are made, writes into its weights alone.

    Raises TypeError and ValueError as hologram.generate, NotImplementedError for a model with state beside keys and values.
    """
    steps, choices = _prepared(model, ids, max_new_tokens, length, options, choices)
    streamer = None if streamer is None else _Streamer(streamer)
    with steps:
        made = generation.generate(steps, _array(ids), max_new_tokens=max_new_tokens, streamer=streamer, progress=progress, **choices)
    return torch.from_numpy(made)


def tokens(model, ids, *, max_new_tokens=20, length=None, options=None, **choices):
    """Yields each step's tokens, int64 [batch], as they are made; arguments as in generate()."""
    steps, choices = _prepared(model, ids, max_new_tokens, length, options, choices)
    with steps:
        for step in generation.tokens(steps, _array(ids), max_new_tokens=max_new_tokens, **choices):
            yield torch.from_numpy(step)


def export_generation(model, path, *, batch=1, length=1024, isas=None, **options):
    """Writes `model` as an archive that hologram.generate() runs without PyTorch: methods prefill, decode and sample, which share
    weights, and a cache of `length` tokens for `batch` rows that belongs to sessions. model: as in generate(); isas, options, the
    report and errors: as in export()."""
    steps = Steps(model, batch, length)
    ids, row = torch.ones(batch, min(8, length), dtype=torch.int64), torch.zeros(batch)
    logits = torch.zeros(batch, _vocabulary(steps))
    scalars = torch.tensor(1.0), torch.tensor(1), torch.tensor(1.0)
    prompt = torch.export.Dim("prompt", min=2, max=length)
    methods = {
        "prefill": {"args": (ids, row.long()), "dynamic_shapes": ({1: prompt}, None), "function": "prefill"},
        "decode": {"args": (ids[:, :1],), "function": "decode"},
        "sample": {"args": (logits, *scalars, row), "function": "sample"},
    }
    return archive.export(steps, path=path, methods=methods, isas=isas, **options)


def _vocabulary(steps):
    with torch.no_grad(), torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        return steps.decode(torch.ones(steps.batch, 1, dtype=torch.int64))[0].shape[-1]


def _prepared(model, ids, count, length, options, choices):
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"generate: expected a torch.nn.Module, got {type(model).__name__}")
    ids = generation._prompts(_array(ids))
    choices = dict(choices)
    if choices.get("attention_mask") is not None:
        choices["attention_mask"] = _array(choices["attention_mask"])
    config = getattr(model, "generation_config", None)
    for name in ("eos", "pad"):
        choices.setdefault(name, getattr(config, f"{name}_token_id", None))
    batch = len(ids)
    if length is None:
        length = 1 << max(5, ids.shape[1] + operator.index(count) - 1).bit_length()
    how = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
    # Before there is memory for as many tokens.
    generation._check(types.SimpleNamespace(batch=batch, length=length), ids, count, **{n: choices.get(n, v) for n, v in how.items()})
    return compiled(model, batch, length, options), choices


class _Kept(dict):
    """What a model keeps of its compiled steps: not in copies of the model, nor in files."""

    def __reduce__(self):
        return _Kept, ()


def compiled(model, batch, length, options=None):
    """The steps of a model, as hologram.generation.tokens takes them: of those compiled before, or new ones."""
    kept = model.__dict__.setdefault(_KEPT, _Kept())
    key = batch, length, model.training, tuple(sorted((options or {}).items()))
    kept[key] = kept.pop(key, None) or Compiled(model, batch, length, options)
    for old in list(kept)[:-_MOST]:
        del kept[old]
    return kept[key]


class _Streamer:
    """Gives tensors to one of transformers' streamers, or to a function."""

    def __init__(self, inner):
        self._put, self._end = getattr(inner, "put", inner), getattr(inner, "end", None)

    def put(self, step):
        self._put(torch.from_numpy(step))

    def end(self):
        if self._end is not None:
            self._end()


def _array(ids):
    return ids.detach().cpu().numpy() if isinstance(ids, torch.Tensor) else ids
