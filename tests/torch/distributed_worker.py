# tests/torch/distributed_worker.py: one of two processes that train and evaluate together over gloo
"""python distributed_worker.py RANK STORE RESULTS CASE...: rank 0 writes {case: what happened} as JSON."""

import copy
import json
import sys
import traceback

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

WIDTH, BATCH, STEPS = 32, 8, 5


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.register_buffer("mix", torch.randn(WIDTH, WIDTH) / WIDTH**0.5)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(functional.linear(x, self.mix))


def compiled(module, **options):
    return torch.compile(module, backend="hologram", **options)


def by_blocks(model):
    for block in model.blocks:
        block.compile(backend="hologram")
    return model


def shard(model):
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def parallelize(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2,))
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def ddp(model):
    dist._DEFAULT_FIRST_BUCKET_BYTES = 8192
    if dist.get_rank() == 1:
        model.mix.zero_()  # comes from rank 0 again and again
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)


CASES = {
    "ddp": lambda model: compiled(ddp(model)),
    "fsdp by blocks": lambda model: by_blocks(shard(model)),
    "fsdp whole": lambda model: compiled(shard(model)),
    "tensor parallel": lambda model: compiled(parallelize(model)),
}
SAME_BATCH = ("tensor parallel",)


def train(model, inputs, targets, average, change):
    """→ the losses of five AdamW steps, and those of evaluations after each"""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    training, evaluation = [], []
    for step in range(STEPS):
        loss = functional.cross_entropy(model(inputs[step]), targets[step])
        training.append(average(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        change()
        with torch.no_grad():
            evaluation.append(average(functional.cross_entropy(model(inputs[-1]), targets[-1])))
    return training, evaluation


def average_of_both(loss):
    loss = loss.clone()
    dist.all_reduce(loss)
    return loss.item() / 2


def run(case, rank):
    import hologram_torch

    torch.manual_seed(1)
    model = Model()
    inputs, targets = torch.randn(STEPS + 1, BATCH, WIDTH), torch.randint(0, 4, (STEPS + 1, BATCH))

    def change(buffer, turn):
        def write():
            with torch.no_grad():
                buffer.add_(turn)

        return write

    turn = torch.randn(WIDTH, WIDTH) / WIDTH
    alone = copy.deepcopy(model)
    expected = train(alone, inputs, targets, torch.Tensor.item, change(alone.mix, turn))
    torch._dynamo.reset()
    hologram_torch.reset_stats()
    before = hologram_torch.stats()["memory"]["packed_weights"]
    mine = slice(None) if case in SAME_BATCH else slice(rank * BATCH // 2, (rank + 1) * BATCH // 2)
    together = CASES[case](model)
    # Under DDP rank 0 alone changes the buffer; PyTorch brings it to the other.
    silent = case == "ddp" and rank == 1
    actual = train(together, inputs[:, mine], targets[:, mine], average_of_both, change(model.mix, turn * (not silent)))
    stats = hologram_torch.stats()
    kept = {name: stats[name] for name in ("graphs", "failed_graphs", "fallback_ops")}
    kept["packed"] = stats["memory"]["packed_weights"] - before
    return {"expected": expected, "actual": actual, **kept}


def main():
    rank, store, results, *cases = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=2)
    found = {}
    for case in cases:
        try:
            found[case] = run(case, int(rank))
        except Exception:
            found[case] = {"error": traceback.format_exc()}
        with open(f"{results}.{rank}", "w") as file:
            json.dump(found, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
