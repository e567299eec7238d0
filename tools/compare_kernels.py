#!/usr/bin/env python3
# tools/compare_kernels.py: whether a change moved code or changed kernels
"""Dumps what the compiler makes of a corpus, and compares two dumps.

    compare_kernels.py programs OUT [NAME...]   what the models of bench/shared/zoo.py are planned to
    compare_kernels.py objects OUT --programs FOLDER --generator FILE [--isas ...]
    compare_kernels.py diff BEFORE AFTER

`programs` writes each distinct program's text form as OUT/<hash>.atlas, and OUT/<model>.txt with those of one
model in their order; it uses the hologram module that PYTHONPATH finds. `objects` compiles a folder of programs,
and copies the objects of the kernels that came with the library. `diff` compares two folders byte for byte and
ends with status 1 when they differ.
"""

import argparse
import filecmp
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ISAS = ["sse42", "avx2", "avx512", "amx", "neon"]
VARIANTS = ("float32", "bfloat16", "dynamic", "training")


def run_model(name, variant):
    """Compiles a model of the zoo in this process, whose HOLOGRAM_DUMP is set."""
    sys.path.insert(0, str(ROOT / "bench" / "shared"))
    import torch
    import zoo

    torch.manual_seed(0)
    case = zoo.ZOO[name](torch.bfloat16 if variant == "bfloat16" else torch.float32)
    if variant == "training":
        case.module.train()
        result = torch.compile(case.module, backend="hologram")(*case.inputs)
        tensors = [t for t in (result if isinstance(result, tuple) else (result,)) if torch.is_tensor(t)]
        sum(t.float().sum() for t in tensors).backward()
        return
    with torch.no_grad():
        torch.compile(case.module, backend="hologram", dynamic=variant == "dynamic" or None)(*case.inputs)


def number(path):
    """Dumps are named <graph>.<kernel>.atlas.txt."""
    return [int(p) if p.isdigit() else p for p in path.name.replace("_", ".").split(".")]


def dump_programs(out, names):
    out.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(ROOT / "bench" / "shared"))
    if not names:
        import zoo

        names = [f"{name}-{variant}" for name in zoo.ZOO for variant in VARIANTS]
    for job in names:
        name, variant = job.rsplit("-", 1)
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "HOLOGRAM_DUMP": "atlas", "HOLOGRAM_DUMP_DIR": folder}
            done = subprocess.run([sys.executable, __file__, "--model", name, variant], env=environment,
                                  capture_output=True, text=True)  # fmt: skip
            hashes = []
            for path in sorted(Path(folder).glob("*.atlas.txt"), key=lambda p: [str(x).zfill(6) for x in number(p)]):
                text = path.read_bytes()
                hashes.append(hashlib.sha256(text).hexdigest()[:20])
                (out / f"{hashes[-1]}.atlas").write_bytes(text)
        failure = "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1] + "\n"
        (out / f"{job}.txt").write_text(failure + "".join(f"{h}\n" for h in hashes))
        print(f"{job}: {len(hashes)} kernels{', failed: ' + failure.strip() if failure else ''}", flush=True)


def dump_objects(out, programs, generator, isas):
    subprocess.run([generator, "--programs", programs, out, *isas], check=True)
    builtin = generator.parent / "generated" / "builtin" / "objects"
    for path in builtin.glob("*.o"):
        shutil.copy(path, out)
    print(f"{sum(1 for _ in out.glob('*.o'))} objects, {sum(1 for _ in out.glob('*.error'))} errors")


def diff(before, after):
    a, b = ({p.name for p in folder.iterdir()} for folder in (before, after))
    _, changed, unread = filecmp.cmpfiles(before, after, sorted(a & b), shallow=False)
    faults = [f"only in {before}: {n}" for n in sorted(a - b)] + [f"only in {after}: {n}" for n in sorted(b - a)]
    faults += [f"differs: {n}" for n in changed + unread]
    print("\n".join(faults[:40] + ["..."] * (len(faults) > 40) + [f"{len(a & b)} common files, {len(faults)} differences"]))
    return 1 if faults or not a else 0


def main():
    if sys.argv[1:2] == ["--model"]:
        return run_model(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("programs")
    command.add_argument("out", type=Path)
    command.add_argument("names", nargs="*", metavar="MODEL-VARIANT", help=f"variants: {', '.join(VARIANTS)}")
    command = commands.add_parser("objects")
    command.add_argument("out", type=Path)
    command.add_argument("--programs", type=Path, required=True)
    command.add_argument("--generator", type=Path, default=ROOT / "build" / "release" / "hologram_kernelgen")
    command.add_argument("--isas", nargs="+", default=ISAS)
    command = commands.add_parser("diff")
    command.add_argument("before", type=Path)
    command.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "programs":
        return dump_programs(options.out, options.names)
    if options.command == "objects":
        return dump_objects(options.out, options.programs, options.generator, options.isas)
    return diff(options.before, options.after)


if __name__ == "__main__":
    sys.exit(main())
