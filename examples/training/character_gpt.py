# examples/training/character_gpt.py: a small GPT over characters, trained by Hologram and in eager beside each other
"""Needs `pip install hologram-compute[torch,examples]`; the text is the demo's collection of 62 short passages, or TEXT.

    python character_gpt.py [--steps 500]
    TEXT=book.txt python character_gpt.py
"""

import os
from importlib import resources
from pathlib import Path

import beside
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LENGTH, BATCH = 64, 4, 64, 16
TEXT = Path(os.environ["TEXT"]) if "TEXT" in os.environ else resources.files("hologram_torch.demo") / "data" / "passages.txt"
text = TEXT.read_text(encoding="utf-8")
letters = sorted(set(text))
data = torch.tensor([letters.index(letter) for letter in text])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.feed(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(len(letters), WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(letters))

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.token(x) + self.place(torch.arange(x.shape[1])))))


def train(steps, **how):
    """Yields the loss of each step; returns the model."""
    torch.manual_seed(0)  # the same weights, batches and dropout masks on both sides
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(3e-3))  # a tensor: no new graph for a new rate
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    @torch.compile(backend="hologram", dynamic=False, **how)
    def loss_of(x, y):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    @torch.compile(backend="hologram", **how)
    def update():
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for _ in range(steps):
        at = torch.randint(len(data) - LENGTH, (BATCH, 1)) + torch.arange(LENGTH + 1)
        optimizer.zero_grad()
        loss = loss_of(data[at[:, :-1]], data[at[:, 1:]])
        loss.backward()
        update()
        schedule.step()
        yield loss
    return model


@torch.no_grad()
def written(model, start, count=80):
    """What the model goes on with, letter by letter."""
    line = [letters.index(letter) for letter in start]
    for _ in range(count):
        chances = model.eval()(torch.tensor([line[-LENGTH:]]))[0, -1].softmax(-1)
        line.append(torch.multinomial(chances, 1).item())
    return "".join(letters[i] for i in line)


if __name__ == "__main__":
    for ours, _ in beside.run(train, beside.options(__doc__, "steps", 500, 12)):
        print(repr(written(ours.result, text[:3])))
