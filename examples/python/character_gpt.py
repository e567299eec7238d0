# examples/python/character_gpt.py: a small GPT over characters, trained compiled and in eager from the same seed, its losses as a picture
"""python character_gpt.py [steps] [text file]: trains on the text (by default Python's licence), draws losses.svg, and writes a line."""

import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
TEXT = open(sys.argv[2]).read() if len(sys.argv) > 2 else str(license) + "".join(open(torch.nn.modules.linear.__file__))
LETTERS = sorted(set(TEXT))
WIDTH, HEADS, LENGTH, BATCH = 64, 4, 32, 16


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
        self.token, self.place = nn.Embedding(len(LETTERS), WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS))

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.token(x) + self.place(torch.arange(x.shape[1])))))


def train(compiled):
    """Losses, seconds a step, and the model: the same seed draws the same weights, batches and dropout masks."""
    torch.manual_seed(0)
    model, data = Gpt(), torch.tensor([LETTERS.index(letter) for letter in TEXT])
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(3e-3))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    def loss_of(x, y):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    step = optimizer.step
    if compiled:
        loss_of, step = (torch.compile(f, backend="hologram", dynamic=False) for f in (loss_of, step))
    losses, started = [], time.perf_counter()
    for number in range(STEPS):
        at = torch.randint(len(data) - LENGTH, (BATCH, 1)) + torch.arange(LENGTH + 1)
        optimizer.zero_grad()
        loss = loss_of(data[at[:, :-1]], data[at[:, 1:]])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step()
        schedule.step()
        losses.append(loss.item())
        if sys.stderr.isatty():
            print(f"\r{'#' * (20 * (number + 1) // STEPS):20} step {number + 1}: loss {losses[-1]:.3f}", end="", file=sys.stderr)
        if number == 2:  # the first steps compile
            started = time.perf_counter()
    return losses, (time.perf_counter() - started) / max(1, STEPS - 3), model


def picture(curves):
    """An SVG with a line for each list of losses."""
    most = max(max(losses) for _, losses, _ in curves)
    text = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 340" font-family="sans-serif" font-size="14">'
    text += f'<text x="4" y="24">{most:.1f}</text><text x="4" y="318">0</text><path d="M40 10V310H630" fill="none" stroke="#888"/>'
    for number, (name, losses, style) in enumerate(curves):
        points = " ".join(f"{40 + 590 * i / (STEPS - 1):.1f},{310 - 290 * loss / most:.1f}" for i, loss in enumerate(losses))
        text += f'<polyline points="{points}" fill="none" {style}/><text x="500" y="{30 + 20 * number}" {style}>{name}</text>'
    return text + "</svg>"


ours, our_time, model = train(True)
eager, eager_time, _ = train(False)
with open("losses.svg", "w") as file:
    file.write(picture([("eager", eager, 'stroke="#bbb" stroke-width="5"'), ("hologram", ours, 'stroke="#06c" stroke-width="1.5"')]))
apart = max(abs(a - b) for a, b in zip(ours, eager))
print(f"loss {ours[0]:.3f} → {ours[-1]:.3f}; eager's {eager[-1]:.3f}; the largest difference {apart:.1e}")
print(f"{1e3 * our_time:.1f} ms a step, eager {1e3 * eager_time:.1f}; losses.svg has both curves")
assert ours[-1] < 0.9 * ours[0] and apart < 0.05

model.eval()
line = [LETTERS.index(letter) for letter in "def "]
with torch.no_grad():
    for _ in range(40):
        chances = model(torch.tensor([line[-LENGTH:]]))[0, -1].softmax(-1)
        line.append(torch.multinomial(chances, 1).item())
print(repr("".join(LETTERS[i] for i in line)))
