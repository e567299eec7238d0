# hologram/generation.py: token after token from archives with the methods "prefill" and "decode"
"""`generate` and `tokens`: text generation, as token ids, by what `hologram_torch.export_generation` has written."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, Union

import numpy as np

from hologram import archive as _archive

__all__ = ["generate", "tokens"]

Stop = Union[Callable[[Any], Any], Sequence[Any], None]
LEAST = 1e-30  # temperature and probability: float32 has what logits come to, divided by it


def generate(
    model: Any,
    ids: Any,
    *,
    streamer: Any = None,
    progress: Optional[Callable[[int, int], Any]] = None,
    max_new_tokens: int = 20,
    **choices: Any,
) -> Any:
    """Continues prompts. → int64 [batch, prompt + new]: the prompts, then their tokens.

    model: an Archive that hologram_torch.export_generation wrote, or a Session of it; ids, max_new_tokens and choices: as in
    `tokens`. streamer: called with each step's tokens (int64 [batch]); an object with put() and end(), as
    transformers' streamers, gets the prompts first. progress: called with (steps made, max_new_tokens) after each.
    """
    made = [_prompts(ids)]
    put = getattr(streamer, "put", streamer)
    if put is not streamer:
        put(made[0])
    for step in tokens(model, made[0], max_new_tokens=max_new_tokens, **choices):
        made.append(step[:, None])
        if put is not None:
            put(step)
        if progress is not None:
            progress(len(made) - 1, max_new_tokens)
    if put is not streamer:
        streamer.end()
    return np.concatenate(made, axis=1)


def tokens(
    model: Any,
    ids: Any,
    *,
    max_new_tokens: int = 20,
    do_sample: bool = False,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: Optional[int] = None,
    eos: Union[int, Sequence[int], None] = None,
    pad: Optional[int] = None,
    stop: Stop = None,
    attention_mask: Any = None,
) -> Iterator[Any]:
    """Yields each step's tokens, int64 [batch], as they are made.

    model: as in `generate`. ids: integers [batch, prompt], or [prompt] for a batch of one. Greedy, or with do_sample drawn from
    softmax(logits / temperature) among the top_k most probable tokens (0: all) and of these the fewest whose probabilities come
    to top_p; the same seed draws the same tokens. A row ends behind a token of `eos`; `pad` (the first of
    eos) follows it. stop: sequences of tokens behind which a row ends too, or a function of all tokens so far ([batch, n]) that is
    true for rows that end. attention_mask: [batch, prompt], 0 on the left of shorter prompts.

    Raises TypeError for a model without those methods, ValueError for wrong shapes and numbers, and for more tokens than the
    model keeps.
    """
    ids = _prompts(ids)
    steps = _steps_of(model)
    starts = _starts(attention_mask, ids)
    _check(steps, ids, max_new_tokens, temperature, top_k, top_p)
    ends = _integers("eos", [] if eos is None else eos)
    pad = operator.index(pad) if pad is not None else int(ends[0]) if ends.size else 0
    choose = _Draw(steps, temperature, top_k, top_p, seed) if do_sample else lambda step: step[1]
    return _run(steps, ids, starts, max_new_tokens, choose, ends, pad, stop)


def _run(
    steps: Any, ids: Any, starts: Any, count: int, choose: Callable[[Any], Any], ends: Any, pad: int, stop: Stop
) -> Iterator[Any]:
    ended = np.zeros(len(ids), bool)
    stopped = _stopping(stop)
    token: Any = None
    for number in range(count):
        step = steps.decode(token) if number else steps.prefill(ids, starts)
        token = np.where(ended[:, None], pad, choose(step))
        yield token[:, 0]
        ended |= np.isin(token[:, 0], ends)
        if stopped is not None:
            ids = np.concatenate([ids, token], axis=1)
            ended |= np.asarray(stopped(ids), bool)
        if ended.all():
            return


class _Draw:
    """Chooses tokens in the archive's own graph; a random number a row and step comes from here."""

    def __init__(self, steps: Any, temperature: float, top_k: int, top_p: float, seed: Optional[int]) -> None:
        self._steps, self._random = steps, np.random.default_rng(seed)
        self._choices = _choices(temperature, top_k, top_p)

    def __call__(self, step: tuple[Any, Any]) -> Any:
        logits = step[0]
        return self._steps.sample(logits, *self._choices, self._random.random(len(logits), np.float32))


def _choices(temperature: float, top_k: int, top_p: float) -> tuple[Any, Any, Any]:
    """As the graph takes them: none becomes 0 by rounding, which would divide by it, or leave no token."""
    return np.float32(max(temperature, LEAST)), np.int64(min(top_k, 1 << 31)), np.float32(max(top_p, LEAST))


class _OfArchive:
    """prefill, decode and sample of an archive's session. length: the most tokens that its cache holds."""

    def __init__(self, session: Any) -> None:
        self._methods = session.methods
        missing = [name for name in ("prefill", "decode", "sample") if name not in self._methods]
        if missing:
            raise TypeError(
                f"generate: the archive has no method {', '.join(missing)}, but {', '.join(self._methods)}; "
                "hologram_torch.export_generation writes archives for generation"
            )
        prompt = self._methods["prefill"].inputs[0]
        self.batch = prompt["shape"][0]
        self.length = max(most for _, most in self._methods["prefill"].sizes.values())
        self.decode = self._methods["decode"]
        self.sample = self._methods["sample"]

    def prefill(self, ids: Any, starts: Any) -> Any:
        if ids.shape[1] == 1:  # the graph is for two and more: one more on the left, which nothing attends to
            ids, starts = np.concatenate([ids, ids], axis=1), starts + 1
        return self._methods["prefill"](ids, starts)


def _steps_of(model: Any) -> Any:
    if isinstance(model, _archive.Archive):
        return _OfArchive(model.session())
    return _OfArchive(model) if isinstance(model, _archive.Session) else model


def _prompts(ids: Any) -> Any:
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"generate: ids are integers, got {ids.dtype}")
    ids = ids[None] if ids.ndim == 1 else ids
    if ids.ndim != 2 or not ids.size:
        raise ValueError(f"generate: ids are [batch, prompt] with a token at least, got {list(ids.shape)}")
    return ids.astype(np.int64, copy=False)


def _integers(name: str, values: Any) -> Any:
    try:
        found = np.atleast_1d(np.asarray(values))
    except ValueError:  # lists of unequal lengths
        found = np.array([None])
    if found.ndim > 1 or found.size and found.dtype.kind not in "iu":
        raise TypeError(f"generate: {name}: expected integers, got {values!r}")
    return found.astype(np.int64)


def _starts(mask: Any, ids: Any) -> Any:
    """How many places on the left of each row are no part of its prompt."""
    if mask is None:
        return np.zeros(len(ids), np.int64)
    mask = np.asarray(mask).astype(bool)
    if mask.shape != ids.shape:
        raise ValueError(f"generate: attention_mask is {list(mask.shape)}, ids are {list(ids.shape)}")
    starts = ids.shape[1] - mask.sum(axis=1)
    if not np.array_equal(mask, np.arange(ids.shape[1]) >= starts[:, None]) or (starts == ids.shape[1]).any():
        raise ValueError("generate: attention_mask has zeros on the left of a row alone, and a one in each; pad prompts on the left")
    return starts.astype(np.int64)


def _check(steps: Any, ids: Any, count: int, temperature: float, top_k: int, top_p: float) -> None:
    if operator.index(count) < 1:
        raise ValueError(f"generate: max_new_tokens is at least 1, got {count}")
    if not temperature > 0 or operator.index(top_k) < 0 or not 0 < top_p <= 1:
        raise ValueError(f"generate: temperature > 0, top_k >= 0, 0 < top_p <= 1; got {temperature}, {top_k}, {top_p}")
    if len(ids) != steps.batch:
        raise ValueError(f"generate: {len(ids)} prompts, the model is for {steps.batch}")
    needed = max(ids.shape[1], 2) + count - 1
    if needed > steps.length:
        raise ValueError(f"generate: a prompt of {ids.shape[1]} and {count} new tokens need a cache of {needed}, it has {steps.length}")


def _stopping(stop: Stop) -> Optional[Callable[[Any], Any]]:
    if stop is None or callable(stop):
        return stop
    tails = [_integers("stop", tail) for tail in stop]
    if not all(tail.size for tail in tails):
        raise ValueError("generate: stop: expected sequences of tokens, got an empty one")

    def found(all_ids: Any) -> Any:
        ended = np.zeros(len(all_ids), bool)
        for tail in tails:
            if tail.size <= all_ids.shape[1]:
                ended |= (all_ids[:, all_ids.shape[1] - tail.size :] == tail).all(axis=1)
        return ended

    return found
