# tests/torch/test_packed_weights.py: packed weights of archives in files that processes share
import os

import hologram
import hologram_torch
import numpy as np
import pytest
import torch
from checks import python
from hologram import _core
from hologram.archive import Archive

INPUT = np.random.default_rng(0).normal(size=(3, 256)).astype(np.float32)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """An archive whose weights are worth sharing, and what it computes."""
    path = tmp_path_factory.mktemp("packed") / "model.holo"
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 128)).eval()
    hologram_torch.export(model, (torch.from_numpy(INPUT),), path, isas=())
    return path, hologram.load(path)(INPUT)


def fresh(path):
    """The archive as a process without any kernel or weight would see it."""
    return Archive(_core.Archive.open(os.fspath(path)), _core.Runtime("cpu"))


def files(cache):
    return sorted(cache.rglob("*.packed"))


def mapped(cache):
    with open("/proc/self/maps") as maps:
        return [line for line in maps if os.fspath(cache) in line]


def test_packed_weights_are_mapped_by_all_who_load_the_archive(exported, cache):
    path, expected = exported
    first, second = fresh(path), fresh(path)
    np.testing.assert_array_equal(first(INPUT), expected)
    assert len(files(cache)) == 2 and cache.stat().st_mode & 0o777 == 0o700
    assert all(line.split()[1] == "r--s" for line in mapped(cache)) and len(mapped(cache)) == 2
    times = [file.stat().st_ino for file in files(cache)]
    for _ in range(2):
        np.testing.assert_array_equal(second(INPUT), expected)
        np.testing.assert_array_equal(first(INPUT), expected)
    assert [file.stat().st_ino for file in files(cache)] == times and len(mapped(cache)) == 4
    assert second._runtime.memory_stats()["in_use"] < 2**18 and first._runtime.memory_stats()["in_use"] < 2**18


@pytest.mark.parametrize("damage", ["bit", "header", "short", "long", "link", "zeros"])
def test_files_that_are_not_what_was_written_are_made_again(exported, cache, damage, tmp_path):
    path, expected = exported
    fresh(path)(INPUT)
    before = [file.read_bytes() for file in files(cache)]
    for file in files(cache):
        content = bytearray(file.read_bytes())
        file.unlink()  # what is mapped stays
        if damage == "bit":
            content[-100] ^= 1
        elif damage == "header":
            content[20] ^= 1
        elif damage == "short":
            content = content[:-4096]
        elif damage == "long":
            content += b"0"
        elif damage == "zeros":
            content = bytes(len(content))
        if damage == "link":
            (tmp_path / file.name).write_bytes(content)
            file.symlink_to(tmp_path / file.name)
        else:
            file.write_bytes(content)
    np.testing.assert_array_equal(fresh(path)(INPUT), expected)
    assert [file.read_bytes() for file in files(cache)] == before
    assert not any(file.is_symlink() for file in files(cache))


def test_weights_that_are_not_what_the_index_says_are_not_shared(exported, cache, tmp_path):
    path, expected = exported
    content = bytearray(path.read_bytes())
    offset = max(t["offset"] for t in _core.Archive.open(os.fspath(path)).tensors if t["bytes"] > 2**16)
    content[offset + 3] ^= 0x40
    (tmp_path / "other.holo").write_bytes(content)
    assert (fresh(tmp_path / "other.holo")(INPUT) != expected).any()
    assert len(files(cache)) == 1  # that of the other weight
    np.testing.assert_array_equal(fresh(path)(INPUT), expected)
    assert len(files(cache)) == 2


# Prints the KiB of packed weights that it alone maps, less those that it shares.
SECOND = """
import sys, numpy as np, hologram
model = hologram.load(sys.argv[1])
model(np.zeros((3, 256), np.float32))
private, packed = 0, False
for line in open("/proc/self/smaps"):
    if "-" in line.split()[0]:
        packed = ".packed" in line
    elif packed and line.startswith(("Private", "Shared")):
        private += int(line.split()[1]) * (1 if line.startswith("Private") else -1)
print(private)
"""


def test_two_processes_share_the_pages(exported, cache):
    path, _ = exported
    model = fresh(path)
    model(INPUT)
    assert int(python("-c", SECOND, path)) < -600  # KiB: shared
