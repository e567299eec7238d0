# examples/training/ddp.py: two processes train one model together over gloo, by Hologram and in eager beside each other
"""Needs `pip install hologram-compute[torch,examples]`; the 1,797 digits come with scikit-learn. Starts both processes itself; on
several machines `torchrun` starts them, and `main` stays.

    python ddp.py [--epochs 4]
"""

import multiprocessing
import sys
import tempfile

import beside
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

PROCESSES, BATCH = 2, 50
torch.set_num_threads(1)  # each process has one
images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float()[:1500] / 16


def train(epochs, **how):
    """Yields the mean loss of both processes' halves of each batch; returns the model."""
    torch.manual_seed(0)  # both pick the same batches, and take a half each
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 128), nn.GELU(), nn.Linear(128, 10))
    together = DistributedDataParallel(model)  # averages the gradients while the backward pass runs
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    # Dynamo cuts the graph where DDP's buckets end, so that a bucket is sent while the next one is computed.
    compiled = torch.compile(together, backend="hologram", dynamic=False, **how)
    update = torch.compile(optimizer.step, backend="hologram", **how)
    for _ in range(epochs):
        for picked in torch.randperm(len(images)).split(BATCH):
            mine = picked.chunk(PROCESSES)[dist.get_rank()]
            optimizer.zero_grad()
            loss = F.cross_entropy(compiled(images[mine]), labels[mine])
            loss.backward()
            update()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            yield mean / PROCESSES
    return model


def main(rank, store, chosen):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=PROCESSES)
    for ours, _ in beside.run(train, chosen, each=len(images) // BATCH, within=0.02, show=rank == 0):
        weights = [torch.zeros_like(ours.result[0].weight) for _ in range(PROCESSES)]
        dist.all_gather(weights, ours.result[0].weight.detach())
        assert torch.equal(*weights), "the processes have different weights"
        if rank == 0:
            print("both processes have the same weights")
    dist.destroy_process_group()


if __name__ == "__main__":
    chosen = beside.options(__doc__, "epochs", 4, 1, checks=False)
    forking = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        processes = [forking.Process(target=main, args=(rank, f"{folder}/store", chosen)) for rank in range(PROCESSES)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    sys.exit(any(process.exitcode for process in processes))
