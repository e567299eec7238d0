#!/usr/bin/env python3
# bench/generation.py: tokens a second of decoders of real sizes, beside eager and Inductor, and as a share of the memory's bandwidth
"""    python bench/generation.py [CASE...] [--peers eager,inductor,onnxruntime,openvino,hologram] [--threads N] [--length N] [--layers N]

One step of one row behind half of a cache of `--length` tokens, random weights; greedy. Peers take turns in one process; ratios are
medians of the turns' quotients. The share is that of the bytes a step has to read (all weights but tables of embeddings that no layer
multiplies by, and the cache up to the step) a second in what the same threads read from memory in front of each peer's step of the same
turn: the median of the turns, as memory may change its speed from second to second. On one thread the clock is the thread's own, which
other work on the machine does not stop. Logits are compared with eager's first; a peer that is farther off
than its weights' bits explain is not timed. ONNX Runtime and OpenVINO run an ONNX file of the step (generation_peers.py), whose cache
holds the tokens before alone; ONNX Runtime has no bfloat16 products on CPUs."""

import argparse
import copy
import gc
import tempfile
import time
from pathlib import Path

import generation_peers
import numpy as np
import torch

import hologram_torch
from hologram import limits
from hologram_torch import generation
from hologram_torch.generation.steps import Steps

CASES = {  # model, dtype, quantisation
    "gpt2": ("gpt2", torch.float32, None),
    "gpt2-bf16": ("gpt2", torch.bfloat16, None),
    "gpt2-int8": ("gpt2", torch.float32, "weight-int8"),
    "gpt2-int4": ("gpt2", torch.float32, "weight-int4"),
    "gpt2-bf16-int8": ("gpt2", torch.bfloat16, "weight-int8"),
    "gpt2-bf16-int4": ("gpt2", torch.bfloat16, "weight-int4"),
    "llama-bf16": ("llama", torch.bfloat16, None),
    "llama-int8": ("llama", torch.float32, "weight-int8"),
    "llama-int4": ("llama", torch.float32, "weight-int4"),
    "llama-bf16-int8": ("llama", torch.bfloat16, "weight-int8"),
    "llama-bf16-int4": ("llama", torch.bfloat16, "weight-int4"),
}
FARTHEST = {"bf16": 0.05, "int8": 0.1, "int4": 0.7}  # logits from eager's, of the largest; else 1e-3. 4 bits: two quantisers differ
WARM = 2  # steps without a clock before each that counts


def built(name: str, layers):
    """GPT-2 of 124 M parameters, or the shape of TinyLlama (1.1 B), with small random weights."""
    import transformers

    kind, dtype, how = CASES[name]
    if kind == "gpt2":
        config = transformers.GPT2Config(eos_token_id=None, **({"n_layer": layers} if layers else {}))
    else:
        config = transformers.LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=layers or 22, num_attention_heads=32,
                                          num_key_value_heads=4, max_position_embeddings=2048, eos_token_id=None)  # fmt: skip
    make = transformers.GPT2LMHeadModel if kind == "gpt2" else transformers.LlamaForCausalLM
    with torch.device("meta"):
        model = make(config)
    model = model.to(dtype).to_empty(device="cpu")
    model.tie_weights()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.uniform_(-0.02, 0.02, generator=generator) if p.dim() > 1 else p.fill_(1)
        for rotary in (m for m in model.modules() if hasattr(m, "inv_freq")):
            rotary.inv_freq.copy_(type(rotary)(config=config).inv_freq)
    return model.eval(), hologram_torch.quantize(model, how) if how else model


def bytes_read(steps) -> int:
    """Of the step at the middle of the cache: what products and attention have to read."""
    multiplied, tables = {}, {}
    for module in steps.modules():
        for t in (*module._parameters.values(), *module._buffers.values()):
            if t is not None:
                (tables if "Embedding" in type(module).__name__ else multiplied)[t.data_ptr()] = t.nbytes
    cache = sum(t.nbytes for n in range(steps.layers) for t in (getattr(steps, f"keys{n}"), getattr(steps, f"values{n}")))
    return sum(multiplied.values()) - cache + cache * (steps.length // 2 + 1) // steps.length


class Peer:
    """Steps of one way to run the model, each at the same place of the cache."""

    def __init__(self, name, model, length, others):
        self.name, ids = name, np.array([[11]])
        self.steps = None
        if name in Others.NAMES:
            self.call = others.call(name)
            return
        if name == "hologram":
            made = generation.compiled(model, 1, length)
            self.steps, self.call = made.steps, lambda: made.decode(ids)
            return
        self.steps = Steps(model, 1, length)
        call = self.steps.decode if name == "eager" else torch.compile(self.steps.decode, backend=name, fullgraph=True, dynamic=False)
        self.call = lambda: call(torch.from_numpy(ids))

    @torch.no_grad()
    def step(self, clock=time.perf_counter, warm=0):
        """Logits and seconds of the step at the middle of the cache, behind `warm` others."""
        if self.steps is not None:
            self.steps.position.fill_(self.steps.length // 2 - warm)
        for _ in range(warm):
            self.call()
        begin = clock()
        made = self.call()
        return made[0], clock() - begin


class Others:
    """The step as one file for those that do not run PyTorch's modules."""

    NAMES = ("onnxruntime", "openvino")

    def __init__(self, model, length, threads, how, dtype, folder):
        self.model, self.before, self.threads, self.how, self.dtype, self.folder = model, length // 2, threads, how, dtype, folder
        self.path = self.pairs = None

    def call(self, name):
        if self.path is None:
            model = copy.deepcopy(self.model)  # an ONNX file's arrays share its memory: ours would compare weights at each call
            steps = Steps(model, 1, 2 * self.before)
            self.pairs = [(getattr(steps, f"keys{n}"), getattr(steps, f"values{n}")) for n in range(steps.layers)]
            self.path = generation_peers.export(model, self.pairs, self.before, self.folder)
            if self.how:
                self.path = generation_peers.quantised(self.path, int(self.how[-1]))
        arguments = self.path, self.threads, self.pairs, self.before
        if name == "onnxruntime":
            return generation_peers.onnxruntime(*arguments)
        return generation_peers.openvino(*arguments, self.dtype == torch.bfloat16)


def measured(peers, seconds, clock, threads) -> tuple[dict, dict]:
    """Seconds of each peer's steps, one a turn, and what memory gave in front of each."""
    times, reads = {peer.name: [] for peer in peers}, {peer.name: [] for peer in peers}
    end = time.perf_counter() + seconds * len(peers)
    while time.perf_counter() < end or len(times[peers[-1].name]) < 5:
        for peer in peers:
            reads[peer.name].append(limits.memory_read(threads))
            times[peer.name].append(peer.step(clock, WARM)[1])
    return times, reads


def run(name, args, folder):
    plain, model = built(name, args.layers)
    others = Others(plain, args.length, args.threads, CASES[name][2], CASES[name][1], folder)
    peers, wanted = [], None
    farthest = FARTHEST.get(name.split("-")[-1], 1e-3)
    for kind in args.peers.split(","):
        begin = time.perf_counter()
        try:
            peer = Peer(kind, model, args.length, others)
            logits = torch.as_tensor(peer.step()[0])
        except Exception as error:  # what a peer lacks is a line of the result
            print(f"  {kind}: n/a: {type(error).__name__}: {' '.join(str(error).split())[:160]}", flush=True)
            continue
        wanted = logits if wanted is None else wanted
        apart = (logits - wanted).abs().max().item() / wanted.abs().max().item()
        print(f"  {kind}: first step {time.perf_counter() - begin:.1f} s, logits apart by {apart:.1e} of the largest", flush=True)
        if apart <= farthest:
            peers.append(peer)
        else:
            print(f"  {kind}: n/a: wrong", flush=True)
    clock = time.thread_time if args.threads == 1 else time.perf_counter
    times, reads = measured(peers, args.seconds, clock, args.threads)
    every = np.concatenate([reads[peer.name] for peer in peers]) / 1e9
    size = bytes_read(next(peer.steps for peer in peers if peer.steps is not None))
    print(f"{name}: {sum(p.numel() for p in plain.parameters()) / 1e6:.0f} M parameters, a step reads {size / 1e6:.0f} MB; "
          f"memory reads {every.min():.1f} to {every.max():.1f} GB/s, median {np.median(every):.1f}")  # fmt: skip
    base = np.array(times[peers[0].name])
    for peer in peers:
        t, read = np.array(times[peer.name]), np.array(reads[peer.name])
        ratio = np.median(base[: len(t)] / t[: len(base)])
        print(f"  {peer.name:<10} {1 / np.median(t):8.1f} tokens/s (fastest {1 / t.min():.1f}), {ratio:5.2f} times {peers[0].name}, "
              f"{size / np.median(t) / 1e9:6.1f} GB/s: {np.median(size / t / read):.2f} of the bandwidth", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["gpt2"], help=", ".join(CASES))
    parser.add_argument("--peers", default="eager,hologram")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--folder", help="where the ONNX file is written for a while; a model of 1 B in float32 takes 9 GB")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.cases:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            run(name, args, Path(folder))
        torch._dynamo.reset()
        gc.collect()


if __name__ == "__main__":
    main()
