# tests/python/test_generation.py: the loop of generation, by steps that count
import hologram
import numpy as np
import pytest
from hologram import generation


class Counting:
    """The next token is the last one and 1; a draw is ten times that."""

    batch, length = 2, 32

    def prefill(self, ids, starts):
        self.starts = starts
        return self.decode(ids[:, -1:])

    def decode(self, ids):
        return np.zeros((2, 100), np.float32), ids + 1

    def sample(self, logits, temperature, top_k, top_p, uniform):
        self.drawn = [temperature, top_k, top_p]
        return np.floor(uniform[:, None] * 1000).astype(np.int64)


PROMPTS = np.array([[5, 6], [1, 2]])


@pytest.mark.parametrize("choices, expected", [
    ({}, [[5, 6, 7, 8, 9, 10], [1, 2, 3, 4, 5, 6]]),
    ({"eos": 9}, [[5, 6, 7, 8, 9, 9], [1, 2, 3, 4, 5, 6]]),
    ({"eos": [8, 4], "pad": 0}, [[5, 6, 7, 8], [1, 2, 3, 4]]),
    ({"eos": 3, "pad": 0}, [[5, 6, 7, 8, 9, 10], [1, 2, 3, 0, 0, 0]]),
    ({"stop": [[6, 7], [4]], "pad": 50}, [[5, 6, 7, 50], [1, 2, 3, 4]]),
    ({"stop": lambda ids: ids[:, -1] >= 4}, [[5, 6, 7, 0], [1, 2, 3, 4]]),
])  # fmt: skip
def test_ends(choices, expected):
    assert generation.generate(Counting(), PROMPTS, max_new_tokens=4, **choices).tolist() == expected


def test_draws_follow_the_seed():
    made = [generation.generate(Counting(), PROMPTS, do_sample=True, seed=seed, max_new_tokens=5).tolist() for seed in (3, 3, 4)]
    assert made[0] == made[1] != made[2]
    steps = Counting()
    next(generation.tokens(steps, PROMPTS, do_sample=True, temperature=0.5, top_k=7, top_p=0.9))
    assert steps.drawn == [np.float32(0.5), 7, np.float32(0.9)] and [n.dtype for n in steps.drawn] == ["float32", "int64", "float32"]
    next(generation.tokens(steps, PROMPTS, do_sample=True, temperature=1e-50, top_k=1 << 90, top_p=1e-50))
    assert all(0 < n < np.inf for n in steps.drawn), "none is 0 in float32"


def test_what_callers_see():
    class Streamer:
        def __init__(self):
            self.seen = []

        def put(self, step):
            self.seen.append(step.tolist())

        def end(self):
            self.seen.append("end")

    streamer, steps, progress = Streamer(), [], []
    generation.generate(Counting(), PROMPTS, max_new_tokens=2, streamer=streamer, progress=lambda *at: progress.append(at))
    generation.generate(Counting(), PROMPTS, max_new_tokens=2, streamer=lambda step: steps.append(step.tolist()))
    assert streamer.seen == [PROMPTS.tolist(), [7, 3], [8, 4], "end"]
    assert steps == [[7, 3], [8, 4]] == [step.tolist() for step in generation.tokens(Counting(), PROMPTS, max_new_tokens=2)]
    assert progress == [(1, 2), (2, 2)]


def test_the_left_of_shorter_prompts():
    steps = Counting()
    next(generation.tokens(steps, PROMPTS, attention_mask=[[0, 1], [1, 1]]))
    assert steps.starts.tolist() == [1, 0]


@pytest.mark.parametrize("error, said, ids, choices", [
    (TypeError, "ids are integers, got float64", PROMPTS * 1.0, {}),
    (ValueError, r"\[batch, prompt\] with a token at least, got \[2, 0\]", PROMPTS[:, :0], {}),
    (ValueError, "1 prompts, the model is for 2", PROMPTS[:1], {}),
    (ValueError, "a prompt of 2 and 32 new tokens need a cache of 33, it has 32", PROMPTS, {"max_new_tokens": 32}),
    (ValueError, "max_new_tokens is at least 1, got 0", PROMPTS, {"max_new_tokens": 0}),
    (ValueError, "got 0, 0, 1.0", PROMPTS, {"temperature": 0}),
    (ValueError, "got 1.0, 0, 1.5", PROMPTS, {"top_p": 1.5}),
    (ValueError, "got 1.0, -1, 1.0", PROMPTS, {"top_k": -1}),
    (TypeError, "integer", PROMPTS, {"top_k": 1.5}),
    (TypeError, "eos: expected integers, got 1.5", PROMPTS, {"eos": 1.5}),
    (TypeError, "integer", PROMPTS, {"pad": 0.5}),
    (ValueError, "stop: expected sequences of tokens, got an empty one", PROMPTS, {"stop": [[]]}),
    (ValueError, r"attention_mask is \[1, 2\], ids are \[2, 2\]", PROMPTS, {"attention_mask": [[1, 1]]}),
    (ValueError, "pad prompts on the left", PROMPTS, {"attention_mask": [[1, 0], [1, 1]]}),
    (ValueError, "pad prompts on the left", PROMPTS, {"attention_mask": [[0, 0], [1, 1]]}),
])  # fmt: skip
def test_errors(error, said, ids, choices):
    with pytest.raises(error, match=said):
        hologram.generate(Counting(), ids, **choices)
