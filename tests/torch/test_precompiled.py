# tests/torch/test_precompiled.py: archives with machine code, and when it runs
import hashlib
import json
import os
import struct
import subprocess
import sys

import forks
import hologram
import hologram_torch
import numpy as np
import pytest
import torch
from archived import LEVEL, Small
from checks import python, refuses
from hologram import _core
from hologram.archive import Archive

INPUT = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("precompiled") / "model.holo"
    report = hologram_torch.export(Small().eval(), (torch.from_numpy(INPUT),), path, isas=[LEVEL])
    return path, report, hologram.load(path, trust=False)(INPUT)


def fresh(path, trusted):
    return Archive(_core.Archive.open(os.fspath(path)), _core.Runtime("cpu"), trusted)


def precompiled(method):
    return method._made.function().precompiled


def test_code_runs_where_the_archive_is_trusted_and_nowhere_else(exported, cache):
    path, report, expected = exported
    assert report.targets and report.fingerprint == hologram.load(path).fingerprint
    for trusted in (True, False):
        model = fresh(path, trusted)
        np.testing.assert_array_equal(model(INPUT), expected)
        assert precompiled(model.methods["forward"]) is trusted
        assert any(cache.rglob("*.kernel")) is not trusted  # nothing was compiled


def test_who_trusts(exported, monkeypatch, tmp_path):
    path, report, _ = exported
    trusted = lambda **how: hologram.load(path, **how).trusted
    assert trusted() and trusted(trust=True) and not trusted(trust=False)
    monkeypatch.setenv("HOLOGRAM_TRUSTED", os.fspath(tmp_path / "own" / "list"))
    assert not trusted() and trusted(fingerprint=report.fingerprint) and trusted(trust=True)
    refuses(hologram.HologramError, "its fingerprint is", lambda: hologram.load(path, fingerprint="0" * 64))
    python("-m", "hologram", "archive", "trust", path)
    assert trusted() and report.fingerprint in (tmp_path / "own" / "list").read_text()
    (tmp_path / "own" / "list").chmod(0o666)
    assert not trusted()
    (tmp_path / "own" / "list").chmod(0o600)
    (tmp_path / "own").chmod(0o777)
    assert not trusted()
    monkeypatch.setenv("HOLOGRAM_TRUSTED", "off")
    assert not trusted()


def changed(path, tmp_path, at, bit):
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    (tmp_path / "changed.holo").write_bytes(content)
    return tmp_path / "changed.holo"


def sections(path):
    """(offset, bytes) of plans and code."""
    for code in _core.Archive.open(os.fspath(path)).precompiled:
        yield code["plan_offset"], code["plan_bytes"]
        yield code["code_offset"], code["code_bytes"]


def test_flipped_bits_are_refused(exported, tmp_path):
    """Plans and code are compared with their hashes before they are used, and by verify."""
    path, report, expected = exported
    own = next(c for c in _core.Archive.open(os.fspath(path)).precompiled if c["target"] == _core.Runtime("cpu").target)
    for kind in ("plan", "code"):
        for at in np.linspace(0, own[f"{kind}_bytes"] - 1, 40).astype(int):
            broken = changed(path, tmp_path, own[f"{kind}_offset"] + int(at), int(at) % 8)
            model = hologram.load(broken, fingerprint=report.fingerprint)  # the index and its hashes are as they were
            refuses(hologram.HologramError, "does not agree with its checksum", lambda: model(INPUT))
            np.testing.assert_array_equal(hologram.load(broken, trust=False)(INPUT), expected)
    for offset, size in sections(path):
        for at in (offset, offset + size - 1):
            with pytest.raises(hologram.HologramError, match="does not agree with its checksum"):
                hologram.load(changed(path, tmp_path, at, 3), verify="full")


def test_code_is_what_the_graph_compiles_to(exported, tmp_path):
    path, _, _ = exported
    verified = json.loads(python("-m", "hologram", "archive", "verify", path, "--rebuild", "--json"))
    assert verified["rebuilt"] == list(hologram.load(path).info()["targets"])
    for kind in ("plan", "code"):
        lie = hologram.load(with_changed_section(path, tmp_path, kind), verify="full")  # sound, as far as hashes say
        refuses(hologram.HologramError, "not what its graph compiles to", lie.verify_code)
        assert not lie.trusted


def digest(part):
    return hashlib.blake2b(part, digest_size=32).digest()


def with_index(content, old, new, path):
    """Another index, with its checksum."""
    (begin,) = struct.unpack("<Q", content[16:24])
    assert old in content[begin:] and len(old) == len(new)
    content[begin:] = content[begin:].replace(old, new)
    content[32:64] = digest(content[begin:])
    path.write_bytes(content)
    return path


def with_changed_section(path, tmp_path, kind):
    """Another last byte of a section, with the hashes that belong to it."""
    content = bytearray(path.read_bytes())
    code = _core.Archive.open(os.fspath(path)).precompiled[0]
    place = slice(code[f"{kind}_offset"], code[f"{kind}_offset"] + code[f"{kind}_bytes"])
    old = digest(content[place])
    content[place.stop - 1] ^= 1
    return with_index(content, old, digest(content[place]), tmp_path / "lie.holo")


def test_code_of_another_build_is_no_damage(exported, tmp_path):
    """Compilers order some instructions differently, and planners and generators change: neither is told by bytes."""
    path, _, expected = exported
    generator = _core.Archive.open(os.fspath(path)).precompiled[0]["generator"]
    version, maker = generator.rsplit(" made by ", 1)
    planner = version.split(" ")[0]
    assert len(planner) == 64 and maker.split(" for ")[0] in ("GCC", "Clang")
    other = maker.swapcase()
    for old, new, words in (
        (maker, other, f"by a build of {other}, and this one, of {maker}, puts some instructions in another order"),
        (planner, "0" * 64, "by another version of the generator"),
    ):
        old, new = (f" made by {w}" if old == maker else w for w in (old, new))
        theirs = hologram.load(with_index(bytearray(path.read_bytes()), old.encode(), new.encode(), tmp_path / "x.holo"), trust=True)
        refuses(NotImplementedError, words, theirs.verify_code)
        np.testing.assert_array_equal(theirs(INPUT), expected)
        assert precompiled(theirs.methods["forward"])


EXPORT = """
import sys, torch, hologram_torch
sys.path.insert(0, sys.argv[1])
from archived import LEVEL, Small
torch.manual_seed(0)
model = torch.nn.Sequential(Small(), torch.nn.Linear(5, 64).bfloat16()).eval()
model.forward = lambda x: model[1](model[0](x).bfloat16())
print(hologram_torch.export(model, (torch.ones(3, 32),), sys.argv[2], isas=["sse42", "avx2", "avx512", "amx", "neon"]).fingerprint)
"""


def test_code_is_the_same_whatever_processor_makes_it(tmp_path):
    """Rows of the table of processors and numbers of threads are those of the target."""
    made = set()
    for model, threads in (("zen4", "2"), ("emerald-rapids", "64"), ("skylake-server", "1")):
        environment = os.environ | {"HOLOGRAM_CPU_MODEL": model, "HOLOGRAM_NUM_THREADS": threads, "HOLOGRAM_CACHE_DIR": "off"}
        done = forks.run(EXPORT, os.path.dirname(__file__), tmp_path / f"{model}.holo", env=environment)
        assert done.returncode == 0, done.stderr
        made.add(done.stdout)
    assert len(made) == 1
    verify = ["archive", "verify", tmp_path / "zen4.holo", "--rebuild"]
    python("-m", "hologram", *verify, env=os.environ | {"HOLOGRAM_CPU_MODEL": "zen5"})


def test_more_targets(exported, tmp_path):
    path, report, expected = exported
    before = set(report.targets)
    more = "sse42" if LEVEL != "sse42" else "avx2"
    out = tmp_path / "more.holo"
    hologram.load(path).write_with_targets(out, [more, LEVEL])
    model = hologram.load(out, trust=True)
    assert before < set(model.info()["targets"]) and any(f" {more} " in t for t in model.info()["targets"])
    np.testing.assert_array_equal(model(INPUT), expected)
    model.verify_code()
    for name, tensor in hologram.load(path).tensors.items():
        np.testing.assert_array_equal(model.tensors[name], tensor)
    refuses(ValueError, "is no instruction set.*wgsl for WebGPU", lambda: model.write_with_targets(out, ["avx3"]))
    assert hologram.load(out).fingerprint == model.fingerprint  # a failed one leaves the file


RUN = """
import os, sys, numpy as np, hologram
np.save(sys.argv[2], hologram.load(sys.argv[1], trust=True)(np.load(sys.argv[3])))
print(hologram.load(sys.argv[1], trust=True).methods["forward"]._made.function().precompiled)
"""


@pytest.mark.parametrize("isa", ["sse42", "avx2", "avx512", "amx"])
def test_every_instruction_set_of_this_machine(isa, tmp_path):
    """One file by default has code for all usual ones; each computes what compiling gives."""
    environment = {**os.environ, "HOLOGRAM_CPU_ISA": isa, "HOLOGRAM_CACHE_DIR": "off"}
    path, out, given = tmp_path / "m.holo", tmp_path / "out.npy", tmp_path / "in.npy"
    hologram_torch.export(Small().eval(), (torch.from_numpy(INPUT),), path, isas=None if isa != "amx" else ["amx"])
    np.save(given, INPUT)
    done = subprocess.run(
        [sys.executable, "-c", RUN, path, out, given], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if "this machine cannot run it" in done.stderr:
        pytest.skip(f"this machine lacks {isa}")
    assert done.stdout.strip() == "True", done.stderr
    trusted = np.load(out)
    for threads in ("2", "16"):  # stored code is cut for two
        environment["HOLOGRAM_NUM_THREADS"] = threads
        python("-c", RUN.replace("trust=True", "trust=False"), path, out, given, env=environment)
        np.testing.assert_array_equal(trusted, np.load(out))
        assert python("-c", RUN, path, out, given, env=environment) == "True\n"


def test_export_without_code(tmp_path):
    report = hologram_torch.export(Small().eval(), (torch.from_numpy(INPUT),), tmp_path / "m.holo", isas=())
    assert report.targets == () and not hologram.load(tmp_path / "m.holo").trusted
    with pytest.raises(ValueError, match="is no instruction set"):
        hologram_torch.export(Small().eval(), (torch.from_numpy(INPUT),), tmp_path / "n.holo", isas=("mmx",))
    assert not (tmp_path / "n.holo").exists()
