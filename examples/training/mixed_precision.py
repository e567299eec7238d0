# examples/training/mixed_precision.py: bfloat16 and float16 inside of float32 training, by Hologram and in eager beside each other
"""Needs `pip install hologram-compute[torch,examples]`; the 1,797 digits come with scikit-learn.

    python mixed_precision.py [--epochs 4]
"""

from functools import partial

import beside
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

BATCH = 50
images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float().view(-1, 8, 8) / 16
train_images, train_labels = images[:1500], labels[:1500]
test_images, test_labels = images[1500:], labels[1500:]


class Rows(nn.Module):
    """A transformer over the eight rows of an image."""

    def __init__(self, width=64):
        super().__init__()
        self.first, self.place = nn.Linear(8, width), nn.Parameter(torch.zeros(8, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, activation="gelu")
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layers(self.first(x) + self.place).mean(1))


def train(epochs, dtype, **how):
    """Yields the loss of each step; returns the model, whose weights stay float32."""
    torch.manual_seed(0)
    model = Rows()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # Gradients below 6e-8 are zero in float16: the loss is scaled up and the gradients down again. bfloat16 reaches as far as float32.
    scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)

    @torch.compile(backend="hologram", dynamic=False, **how)
    def loss_of(x, y):
        with torch.autocast("cpu", dtype):  # products take 16-bit operands and sum in float32; the backward pass follows
            return F.cross_entropy(model(x), y)

    for _ in range(epochs):
        for picked in torch.randperm(len(train_images)).split(BATCH):
            optimizer.zero_grad()
            loss = loss_of(train_images[picked], train_labels[picked])
            scaler.scale(loss).backward()
            scaler.step(optimizer)  # leaves out a step whose gradients are not finite
            scaler.update()
            yield loss
    return model


@torch.no_grad()
def right(model):
    """The share of the kept digits that the model knows, in float32."""
    return (model.eval()(test_images).argmax(-1) == test_labels).float().mean().item()


if __name__ == "__main__":
    trains = {str(dtype).split(".")[1]: partial(train, dtype=dtype) for dtype in (torch.bfloat16, torch.float16)}
    # Both sides round to 8 or 11 bits in places of their own: that is how far apart the curves are.
    for ours, eager in beside.run(trains, beside.options(__doc__, "epochs", 4, 1), each=len(train_images) // BATCH, within=0.1):
        shares = [f"{100 * right(side.result):.1f} %" for side in (ours, eager)]
        print(f"{ours.name}: of digits it has not seen {shares[0]} are right, eager's {shares[1]}")
