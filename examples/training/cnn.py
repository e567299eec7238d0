# examples/training/cnn.py: a convolutional network with batch norm, trained by Hologram and in eager beside each other
"""Needs `pip install hologram-compute[torch,examples]`; the 1,797 digits come with scikit-learn.

    python cnn.py [--epochs 4]
"""

import beside
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

BATCH = 50
images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float().view(-1, 1, 8, 8) / 16
train_images, train_labels = images[:1500], labels[:1500]
test_images, test_labels = images[1500:], labels[1500:]


class Residual(nn.Module):
    """Two convolutions beside a way past them."""

    def __init__(self, channels):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.silu(self.norm1(self.first(x)))
        return F.silu(x + self.norm2(self.second(y)))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 32, 3, padding=1)
        self.fine, self.coarse = Residual(32), Residual(64)
        self.halve = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.fine(F.silu(self.stem(x)))
        x = self.coarse(F.silu(self.halve(x)))
        return self.head(x.mean((2, 3)))


def train(epochs, **how):
    """Yields the loss of each step; returns the model."""
    torch.manual_seed(0)
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)

    @torch.compile(backend="hologram", dynamic=False, **how)
    def loss_of(x, y):  # batch norm's running averages are written in place, as in eager
        return F.cross_entropy(model(x), y)

    update = torch.compile(optimizer.step, backend="hologram", **how)
    for _ in range(epochs):
        for picked in torch.randperm(len(train_images)).split(BATCH):
            optimizer.zero_grad()
            loss = loss_of(train_images[picked], train_labels[picked])
            loss.backward()
            update()
            yield loss
    return model


@torch.no_grad()
def right(model):
    """The share of the kept digits that the model knows; in evaluation it uses its running averages."""
    return (model.eval()(test_images).argmax(-1) == test_labels).float().mean().item()


if __name__ == "__main__":
    # Where the ReLU has its kink a rounding decides over a whole gradient, and runs drift apart; with a smooth function they do not.
    for ours, eager in beside.run(train, beside.options(__doc__, "epochs", 4, 1), each=len(train_images) // BATCH, within=0.01):
        print(f"of digits it has not seen {100 * right(ours.result):.1f} % are right, eager's {100 * right(eager.result):.1f} %")
