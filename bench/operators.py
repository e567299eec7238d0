#!/usr/bin/env python3
# bench/operators.py: single operators and small patterns against eager PyTorch, in one process
"""Each case is checked against eager first, then both sides are timed in turns; prints the median ratio and its
quartiles (turns.py; above 1: ours is faster) and what fell back to PyTorch.

    python bench/operators.py [--threads 2] [--seconds 0.2] [--only cumsum,cat] [--below 1.0] [--dynamo]

Ours is the compiled graph itself: what torch.compile's guards add is bench/overhead.py's matter. With --dynamo they are part
of the time.
"""

import argparse
import sys

import torch
import torch.nn.functional as F

from torch.fx.experimental.proxy_tensor import make_fx

import hologram_torch
from hologram_torch.capture import decomp
from hologram_torch.compiler import compile_graph
from hologram_torch.options import Options
from turns import take_turns


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def indices(limit, *shape):
    return torch.randint(0, limit, shape)


def distinct(count, limit):
    return torch.randperm(limit)[:count]


X, Y = (1024, 1024), (1024, 1024)  # most cases' operands
IMAGE, SEQUENCE = (4, 32, 64, 64), (8, 128, 384)


def position_ids(mask):
    """As text models count the positions of the words that a mask keeps."""
    return mask.cumsum(1) * mask + 1


def top_p(logits):
    """The nucleus of a distribution over a vocabulary: what sampling keeps."""
    values, _ = logits.softmax(-1).sort(-1, descending=True)
    kept = values.cumsum(-1) - values < 0.9
    return torch.where(kept, values, 0.0)


def route(scores):
    """Experts of a token and their weights."""
    values, experts = scores.softmax(-1).topk(2, -1)
    return values / values.sum(-1, keepdim=True), experts


def append_keys(cache, new):
    return torch.cat([cache, new], 2)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


# Name: (function, what makes its inputs)
CASES = {
    # scans
    "cumsum last": (lambda a: a.cumsum(-1), lambda: (normal(*X),)),
    "cumsum last 8x50257": (lambda a: a.cumsum(-1), lambda: (normal(8, 50257),)),
    "cumsum 1M": (lambda a: a.cumsum(0), lambda: (normal(1 << 20),)),
    "cumsum first": (lambda a: a.cumsum(0), lambda: (normal(*X),)),
    "cumsum middle": (lambda a: a.cumsum(1), lambda: (normal(*SEQUENCE),)),
    "cumsum bf16": (lambda a: a.cumsum(-1), lambda: (normal(*X, dtype=torch.bfloat16),)),
    "cumsum i64": (lambda a: a.cumsum(-1), lambda: (indices(9, *X),)),
    "cumprod last": (lambda a: a.cumprod(-1), lambda: (1 + normal(*X) / 64,)),
    "cummax last": (lambda a: a.cummax(-1), lambda: (normal(*X),)),
    "logcumsumexp": (lambda a: a.logcumsumexp(-1), lambda: (normal(1024, 128),)),
    "position ids": (position_ids, lambda: (torch.ones(64, 512, dtype=torch.int64),)),
    # concatenation and stacking
    "cat rows": (lambda a, b: torch.cat([a, b]), lambda: (normal(*X), normal(*Y))),
    "cat columns": (lambda a, b: torch.cat([a, b], 1), lambda: (normal(*X), normal(*Y))),
    "cat columns bf16": (lambda a, b: torch.cat([a, b], 1),
                         lambda: (normal(*X, dtype=torch.bfloat16), normal(*Y, dtype=torch.bfloat16))),
    "cat four channels": (lambda *a: torch.cat(a, 1), lambda: tuple(normal(*IMAGE) for _ in range(4))),
    "cat and relu": (lambda a, b: torch.cat([a, b], 1).relu(), lambda: (normal(*IMAGE), normal(*IMAGE))),
    "append to keys": (append_keys, lambda: (normal(1, 12, 1000, 64), normal(1, 12, 1, 64))),
    "rotate half": (rotate_half, lambda: (normal(1, 12, 1024, 64),)),
    "stack last": (lambda a, b: torch.stack([a, b], -1), lambda: (normal(*X), normal(*Y))),
    "stack first": (lambda a, b: torch.stack([a, b]), lambda: (normal(*X), normal(*Y))),
    # padding, turning, repeating
    "pad 1": (lambda a: F.pad(a, (1, 1, 1, 1)), lambda: (normal(*IMAGE),)),
    "pad last": (lambda a: F.pad(a, (0, 24)), lambda: (normal(*X),)),
    "pad reflect": (lambda a: F.pad(a, (1, 1, 1, 1), mode="reflect"), lambda: (normal(*IMAGE),)),
    "pad replicate": (lambda a: F.pad(a, (1, 1, 1, 1), mode="replicate"), lambda: (normal(*IMAGE),)),
    "roll last": (lambda a: a.roll(7, 1), lambda: (normal(*X),)),
    "roll both": (lambda a: a.roll((-3, -3), (1, 2)), lambda: (normal(8, 56, 56, 96),)),
    "flip last": (lambda a: a.flip(-1), lambda: (normal(*X),)),
    "flip first": (lambda a: a.flip(0), lambda: (normal(*X),)),
    "repeat": (lambda a: a.repeat(2, 2), lambda: (normal(*X),)),
    "repeat heads": (lambda a: a.repeat_interleave(4, 1), lambda: (normal(1, 4, 512, 64),)),
    "repeat interleave last": (lambda a: a.repeat_interleave(2, 1), lambda: (normal(*X),)),
    "tril": (lambda a: a.tril(), lambda: (normal(*X),)),
    "triu": (lambda a: a.triu(1), lambda: (normal(*X),)),
    "transpose": (lambda a: a.t().contiguous(), lambda: (normal(*X),)),
    "channels last": (lambda a: a.permute(0, 2, 3, 1).contiguous(), lambda: (normal(*IMAGE),)),
    "pixel shuffle": (lambda a: F.pixel_shuffle(a, 2), lambda: (normal(*IMAGE),)),
    "unfold": (lambda a: F.unfold(a, 3), lambda: (normal(*IMAGE),)),
    "diff": (lambda a: a.diff(), lambda: (normal(*X),)),
    # gathers
    "index select rows": (lambda a, i: a.index_select(0, i), lambda: (normal(*X), indices(1024, 1024))),
    "index select columns": (lambda a, i: a.index_select(1, i), lambda: (normal(*X), indices(1024, 1024))),
    "gather last": (lambda a, i: a.gather(1, i), lambda: (normal(*X), indices(1024, *X))),
    "gather first": (lambda a, i: a.gather(0, i), lambda: (normal(*X), indices(1024, *X))),
    "embedding": (lambda w, i: F.embedding(i, w), lambda: (normal(30000, 384), indices(30000, 8, 128))),
    "index pairs": (lambda a, i, j: a[i, j], lambda: (normal(*X), indices(1024, 65536), indices(1024, 65536))),
    "take along sorted": (lambda a, i: torch.take_along_dim(a, i, 1), lambda: (normal(*X), indices(1024, 1024, 64))),
    # scatters
    "scatter add last": (lambda a, i, b: a.scatter_add(1, i, b), lambda: (normal(*X), indices(1024, *X), normal(*Y))),
    "scatter add first": (lambda a, i, b: a.scatter_add(0, i, b), lambda: (normal(*X), indices(1024, *X), normal(*Y))),
    "scatter add line": (lambda a, i, b: a.scatter_add(0, i, b),
                         lambda: (normal(4096), indices(4096, 1 << 18), normal(1 << 18))),
    "scatter last": (lambda a, i, b: a.scatter(1, i, b),
                     lambda: (normal(*X), torch.rand(*X).argsort(-1), normal(*Y))),
    "index add rows": (lambda a, i, b: a.index_add(0, i, b), lambda: (normal(*X), indices(1024, 1024), normal(*Y))),
    "index add graph": (lambda a, i, b: a.index_add(0, i, b),
                        lambda: (normal(2000, 64), indices(2000, 20000), normal(20000, 64))),
    "index put add": (lambda a, i, b: a.index_put((i,), b, accumulate=True),
                      lambda: (normal(*X), indices(1024, 1024), normal(*Y))),
    "index copy rows": (lambda a, i, b: a.index_copy(0, i, b), lambda: (normal(*X), distinct(256, 1024), normal(256, 1024))),
    "embedding gradient": (lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 30000, -1, False),
                           lambda: (normal(8, 128, 384), indices(30000, 8, 128))),
    "one hot": (lambda i: F.one_hot(i, 1024), lambda: (indices(1024, 1024),)),
    "histogram": (lambda a: a.histc(64, -3.0, 3.0), lambda: (normal(1 << 20),)),
    "tokens per expert": (lambda i: i.float().histc(64, 0, 63), lambda: (indices(64, 2048),)),
    # choices
    "where": (lambda a, b: torch.where(a > 0, a, b), lambda: (normal(*X), normal(*Y))),
    "masked fill": (lambda a, m: a.masked_fill(m, 0.0), lambda: (normal(*X), normal(*X) > 0)),
    "argmax last": (lambda a: a.argmax(-1), lambda: (normal(*X),)),
    "argmax first": (lambda a: a.argmax(0), lambda: (normal(*X),)),
    "argmax vocabulary": (lambda a: a.argmax(-1), lambda: (normal(8, 50257),)),
    "max with place": (lambda a: a.max(-1), lambda: (normal(*X),)),
    "max with place first": (lambda a: a.max(0), lambda: (normal(*X),)),
    "any last": (lambda a: (a > 3).any(-1), lambda: (normal(*X),)),
    "all": (lambda a: (a > -9).all(), lambda: (normal(*X),)),
    "count": (lambda a: (a > 0).sum(), lambda: (normal(*X),)),
    "var": (lambda a: a.var(-1), lambda: (normal(*X),)),
    "std": (lambda a: a.std(), lambda: (normal(*X),)),
    "norm": (lambda a: a.norm(dim=-1), lambda: (normal(*X),)),
    "sum i64": (lambda a: a.sum(-1), lambda: (indices(9, *X),)),
    "bucketize": (lambda a, e: torch.bucketize(a, e), lambda: (normal(*X), torch.linspace(-3, 3, 64))),
    "bucketize 4096": (lambda a, e: torch.bucketize(a, e), lambda: (normal(*X), torch.linspace(-3, 3, 4096))),
    "search rows": (lambda a, e: torch.searchsorted(e, a), lambda: (normal(*X), normal(1024, 256).sort(-1)[0])),
    # orders
    "sort 256x1024": (lambda a: a.sort(stable=True, dim=-1), lambda: (normal(256, 1024),)),
    "sort 1024x128": (lambda a: a.sort(stable=True, dim=-1), lambda: (normal(1024, 128),)),
    "sort 8x50257": (lambda a: a.sort(stable=True, dim=-1, descending=True), lambda: (normal(8, 50257),)),
    "sort 1M": (lambda a: a.sort(stable=True, dim=-1), lambda: (normal(1 << 20),)),
    "sort first": (lambda a: a.sort(stable=True, dim=0), lambda: (normal(1024, 256),)),
    "sort i64": (lambda a: a.sort(stable=True, dim=-1), lambda: (indices(1 << 40, 256, 1024),)),
    "sort bf16": (lambda a: a.sort(stable=True, dim=-1), lambda: (normal(256, 1024, dtype=torch.bfloat16),)),
    "argsort small i64": (lambda a: a.argsort(stable=True, dim=-1), lambda: (indices(64, 64, 4096),)),
    "topk 10 of 1024": (lambda a: a.topk(10, -1), lambda: (normal(256, 1024),)),
    "topk 50 of 50257": (lambda a: a.topk(50, -1), lambda: (normal(8, 50257),)),
    "topk 8 of 64": (lambda a: a.topk(8, -1), lambda: (normal(4096, 64),)),
    "median": (lambda a: a.median(-1), lambda: (normal(256, 1024),)),
    "kthvalue": (lambda a: a.kthvalue(100, -1), lambda: (normal(256, 1024),)),
    "top p": (top_p, lambda: (normal(4, 50257) * 3,)),
    "route": (route, lambda: (normal(1024, 64),)),
}  # fmt: skip


def same(ours, theirs) -> bool:
    if isinstance(theirs, (tuple, list)):
        return all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    if theirs.is_floating_point():
        wide = theirs.double()
        limit = (2e-2 if theirs.dtype == torch.bfloat16 else 2e-5) * max(1.0, wide.abs().max().item())
        return ours.dtype == theirs.dtype and bool(((ours.double() - wide).abs() <= limit).all())
    return ours.dtype == theirs.dtype and bool((ours == theirs).all())


def direct(function, inputs):
    """The compiled graph without torch.compile around it."""
    pure = torch.func.functionalize(function, remove="mutations_and_views")
    graph = make_fx(pure, decomposition_table=decomp.table(), tracing_mode="fake")(*inputs)
    call = compile_graph(graph, "inference", Options.make(None, None))
    several = isinstance(function(*inputs), (tuple, list))
    return lambda *arguments: tuple(call(list(arguments))) if several else call(list(arguments))[0]


@torch.no_grad()
def measure(name: str, seconds: float, dynamo: bool) -> tuple[float, bool]:
    """The ratio, 0 for a wrong result."""
    function, make = CASES[name]
    inputs = make()
    torch._dynamo.reset()
    hologram_torch.reset_stats()
    if dynamo:
        compiled = torch.compile(function, backend=hologram_torch.hologram, dynamic=False)
    else:
        compiled = direct(function, inputs)
    right = same(compiled(*inputs), function(*inputs))
    fallen = ", ".join(hologram_torch.stats()["fallback_ops"])
    if not right:
        print(f"{name:26} wrong")
        return 0.0, bool(fallen)
    turns = take_turns({"ours": lambda: compiled(*inputs), "theirs": lambda: function(*inputs)}, seconds)
    ours, theirs = turns.fastest().values()
    note = f"  calls {fallen}" if fallen else ""
    print(f"{name:26} {ours * 1e6:10.1f} us {theirs * 1e6:10.1f} us  ratio {turns.ratio(['theirs'], 'ours')}{note}", flush=True)
    return turns.median(["theirs"], "ours"), bool(fallen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=0.2, help="per case and side")
    parser.add_argument("--only", default="", help="words of the cases' names, with commas between them")
    parser.add_argument("--dynamo", action="store_true", help="through torch.compile")
    parser.add_argument("--below", type=float, default=1.0, help="the summary names the cases under this ratio")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    words = options.only.split(",")
    print(f"{options.threads} threads{'':17} {'hologram':>13} {'eager':>13}")
    ratios = {}
    for name in CASES:
        if any(word in name for word in words):
            torch.manual_seed(0)
            ratios[name] = measure(name, options.seconds, options.dynamo)
    low = [name for name, (ratio, _) in ratios.items() if ratio < options.below]
    fallen = [name for name, (_, fell) in ratios.items() if fell]
    print(f"{len(ratios)} cases, {len(low)} below {options.below:g}, {len(fallen)} with a fallback")
    return 0 if all(ratio > 0 for ratio, _ in ratios.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
