# examples/training/digits.py: a classifier of handwritten digits, trained by Hologram and in eager beside each other
"""Needs `pip install hologram-compute[torch,examples]`; the 1,797 digits come with scikit-learn.

    python digits.py [--epochs 10]
"""

import beside
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

BATCH = 50

# Images of 8 × 8 pixels from 0 to 16, as rows of 64 numbers; the last 297 are kept to look at what was learned.
images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
train_images, train_labels = images[:1500], labels[:1500]
test_images, test_labels = images[1500:], labels[1500:]


def train(epochs, **how):
    """Yields the loss of each step; returns the model."""
    torch.manual_seed(0)  # the same weights, batches and dropout masks on both sides
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, 128), nn.GELU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    # What is compiled: the model with its loss (its gradients follow), and the optimizer's step, one pass over all parameters.
    @torch.compile(backend="hologram", dynamic=False, **how)
    def loss_of(x, y):
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
    """The share of the kept digits that the model knows."""
    return (model.eval()(test_images).argmax(-1) == test_labels).float().mean().item()


if __name__ == "__main__":
    for ours, eager in beside.run(train, beside.options(__doc__, "epochs", 10, 1), each=len(train_images) // BATCH):
        print(f"of digits it has not seen {100 * right(ours.result):.1f} % are right, eager's {100 * right(eager.result):.1f} %")
