# tests/torch/damaged.py: archives with wrong bits, by part
"""Accidents leave checksums that do not agree; whoever writes a hostile file makes them right."""

import hashlib
import json
import random
import struct

import torch
from torch import nn


class Small(nn.Module):
    """A gather, a product and rows: kernels in WGSL, and a size that calls choose."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer = nn.Embedding(9, 6), nn.Linear(6, 5)

    def forward(self, ids):
        return self.layer(self.table(ids)).softmax(-1).cumsum(-1)


def write(path, isas):
    """Exports the model; → its input."""
    import hologram_torch

    ids, batch = torch.tensor([1, 8, 0, 3]), torch.export.Dim("batch", min=1, max=64)
    hologram_torch.export(Small().eval(), (ids,), path, dynamic_shapes=({0: batch},), isas=list(isas))
    return ids.numpy()


def _digest(part: bytes) -> bytes:
    return hashlib.blake2b(part, digest_size=32).digest()


def parts(content: bytes) -> dict[str, tuple[int, int]]:
    """By name, where the parts of a file begin and end: all bytes but zeros between them. Plans and code as they lie, the code in
    WGSL as "wgsl", and "wgsl plan" for the plan in front of or behind it."""
    (index,) = struct.unpack("<Q", content[16:24])
    hashes, out, begin, order = content[index:], {"header": (0, 64), "index": (index, len(content))}, 64, []
    while begin < index:
        ends = (stop - padding for stop in range(begin + 64, index + 64, 64) for padding in range(64) if stop - padding <= index)
        end = next((e for e in ends if e > begin and _digest(content[begin:e]) in hashes), None)
        assert end is not None, f"no part begins at {begin}"
        text = content[begin:end]
        kind = "graph" if text.startswith(b"graph(") else "wgsl" if text.startswith(b"wgsl {") else "other"
        out[kind if kind != "other" else f"part at {begin}"] = begin, end
        order.append((kind, begin, end))
        begin = -(-end // 64) * 64
    at = [kind for kind, _, _ in order].index("wgsl")
    out["wgsl plan"] = out.pop(f"part at {order[at - 1][1]}")[:2]
    return out


def flipped(content: bytes, part: tuple[int, int], at: int, bit: int, honest: bool) -> bytes:
    """With another bit in a part; unless `honest`, with checksums that agree."""
    begin, end = part
    changed = bytearray(content)
    changed[begin + at] ^= 1 << bit
    return bytes(changed) if honest else _agreeing(content, part, changed)


def reworded(content: bytes, old: bytes, new: bytes) -> bytes:
    """With other words of the same length in the first kernel in WGSL that has these, and checksums that agree."""
    begin, end = part = parts(content)["wgsl"]
    assert len(old) == len(new) and old in content[begin:end], old
    changed = bytearray(content)
    changed[begin:end] = content[begin:end].replace(old, new, 1)
    return _agreeing(content, part, changed)


def _agreeing(content: bytes, part: tuple[int, int], changed: bytearray) -> bytes:
    """With checksums that agree with what has changed of a part."""
    begin, end = part
    (index,) = struct.unpack("<Q", content[16:24])
    if begin != index:
        hashes = bytes(changed[index:]).replace(_digest(content[begin:end]), _digest(bytes(changed[begin:end])))
        changed[index:] = hashes
    changed[32:64] = _digest(bytes(changed[index:]))
    return bytes(changed)


WORDS = {  # what a compiler of WGSL refuses, what it does not, and what a pipeline is not made of or launched with
    b"@compute": b"@Compute",
    b"array<f32>": b"array<u32>",
    b"@workgroup_size(64)": b"@workgroup_size(96)",
    b"fn main(": b"fn mein(",
    b"@binding(4)": b"@binding(9)",
}


def drawn(content: bytes, count: int, honest: bool, seed: int = 0):
    """(words, bytes) of files, `count` bits of each part at random; hostile ones of what the device's runtime reads."""
    draw = random.Random(seed)
    for name, part in parts(content).items():
        if not honest and name not in ("index", "wgsl", "wgsl plan"):
            continue
        for _ in range(count):
            at, bit = draw.randrange(part[1] - part[0]), draw.randrange(8)
            if name == "header" and at in (6, 7):  # a later minor version may say what it likes
                continue
            yield f"{name}, byte {at}, bit {bit}", flipped(content, part, at, bit, honest)


def write_all(folder, isas, honest: int, hostile: int):
    """damaged.bin, files one behind the other, and damaged.json, which names them: for tests in JavaScript."""
    ids = write(folder / "small.holo", isas)
    content, listed, at = (folder / "small.holo").read_bytes(), [], 0
    with (folder / "damaged.bin").open("wb") as out:
        files = [(right, *file) for right, count in ((True, honest), (False, hostile)) for file in drawn(content, count, right)]
        files += [(False, f"{old} is {new}", reworded(content, old, new)) for old, new in WORDS.items()]
        for right, words, damaged in files:
            listed.append({"words": words, "honest": right, "begin": at, "bytes": len(damaged)})
            at += out.write(damaged)
    (folder / "damaged.json").write_text(json.dumps({"ids": ids.tolist(), "files": listed}))
