# tools/site/way.py: one small model followed from PyTorch's graph to machine code, as it really is when the site is built
import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_MODEL = '''import torch
import hologram_torch


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 128)
        self.norm = torch.nn.LayerNorm(128)

    def forward(self, x):
        return torch.softmax(self.norm(torch.nn.functional.gelu(self.linear(x))), -1)


model, x = Small().eval(), torch.randn(32, 64)
'''
_RUN = _MODEL + '''
explanation = hologram_torch.explain(model, x)
print(explanation)
explanation.save("plan.svg")
'''
# One with more intermediates than may lie in memory at once.
_ENCODER = '''import torch
import hologram_torch

layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
hologram_torch.explain(layer, torch.randn(4, 128, 64))
'''
_STAGES = "fx,graph,plan,atlas,llvm,asm"


def _run(command, **where) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **where)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed:\n{done.stderr}")
    return done.stdout


@functools.cache
def _found() -> dict:
    """Texts by stage, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "small.py").write_text(_RUN)
        env = dict(os.environ, HOLOGRAM_DUMP=_STAGES, HOLOGRAM_DUMP_DIR="dump", HOLOGRAM_CACHE_DIR="off")
        said = _run([sys.executable, "small.py"], cwd=folder, env=env)
        texts = {p.name.split(".", 1)[1].removesuffix(".txt"): p.read_text() for p in Path(folder, "dump").iterdir()}
        graph = next(Path(folder, "dump").glob("*.graph.txt"))
        texts["canon"] = _run([sys.executable, "-m", "hologram", "graph", "canon", str(graph)])
        texts["explained"], texts["picture"] = said, Path(folder, "plan.svg").read_text()
        return {name: text.replace(folder + os.sep, "") for name, text in texts.items()}


@functools.cache
def _encoder_plan() -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "layer.py").write_text(_ENCODER)
        env = dict(os.environ, HOLOGRAM_DUMP="plan", HOLOGRAM_DUMP_DIR="dump", HOLOGRAM_CACHE_DIR="off")
        _run([sys.executable, "layer.py"], cwd=folder, env=env)
        return next(Path(folder, "dump").glob("*.plan.txt")).read_text()


def memory_picture(plan: str) -> str:
    """The arena of a plan's text as SVG: steps from left to right, bytes from bottom to top, a box for each intermediate."""
    steps = [[int(slot) for slot in slots.split(",")] for slots in re.findall(r"^step \d+ .*?\(([\d, ]+)\)", plan, re.M)]
    arena = re.findall(r"^slot (\d+) arena (\w+) \[([\d, ]+)\].* at (\d+)$", plan, re.M)
    total = int(re.search(r"^arena (\d+) bytes", plan, re.M)[1])
    wide, high = 62, 220
    out = []
    for slot, dtype, shape, offset in arena:
        used = [number for number, slots in enumerate(steps) if int(slot) in slots]
        size = int(re.sub(r"\D", "", dtype)) // 8
        for dimension in shape.split(","):
            size *= int(dimension)
        x, width = used[0] * wide, (used[-1] - used[0] + 1) * wide
        y, height = high * (1 - (int(offset) + size) / total), high * size / total
        out.append(f'<rect x="{x}" y="{y:.1f}" width="{width}" height="{height:.1f}" rx="3" fill="currentColor" fill-opacity="0.12" '
                   f'stroke="currentColor"/><text x="{x + width / 2}" y="{y + height / 2 + 4:.1f}">slot {slot}: {size // 1024} KiB</text>')
    out += [f'<text x="{(number + 0.5) * wide}" y="{high + 16}">step {number}</text>' for number in range(len(steps))]
    width = len(steps) * wide
    return (f'<svg viewBox="-2 -2 {width + 4} {high + 26}" style="width: {width}px; max-width: 100%" font-size="10" text-anchor="middle" '
            f'font-family="sans-serif" fill="currentColor">{"".join(out)}</svg>')  # fmt: skip


def _fence(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _fused(found: dict) -> str:
    """The number of the kernel that holds the product and what follows it."""
    return next(n.split(".")[0] for n, t in found.items() if n.endswith(".atlas") and "\nproduct " in t)


def _hot(assembly: str) -> str:
    """The straight run of instructions with the most multiply-adds: the inner loop."""
    blocks = re.split(r"^(?=\.LBB)", assembly, flags=re.M)
    return max(blocks, key=lambda block: len(re.findall(r"\bvfmadd|\bfmla|\bmulps", block)))


def _optimised(llvm: str) -> str:
    """The same of LLVM's text."""
    blocks = re.split(r"\n\n(?=\w+:)", llvm)
    return max(blocks, key=lambda block: block.count("@llvm.fma"))


def pictures() -> dict:
    return {"plan.svg": _found()["picture"]}


def page() -> str:
    found = _found()
    kernel = _fused(found)
    before, after = (found[n].count("\n%") for n in ("graph", "canon"))
    return "\n\n".join([
        "# A model's way through the house",
        "What follows was made when this site was built: a small model, and what each room hands to the next. "
        "`HOLOGRAM_DUMP` shows the same for yours.",
        _fence(_MODEL, "python"),
        "## 1. PyTorch's graph",
        "Dynamo and AOTAutograd give a graph of ATen operators (`hologram_torch/capture`). To change what is taken over natively: "
        "`hologram_torch/lowering`, a function an operator.",
        _fence(found["fx"], "python"),
        "## 2. Our graph",
        f"The same in the few operations of `src/ir/op_table.cpp`: {before} nodes. Movement, arithmetic, reductions, products; nothing "
        "knows what a layer norm is.",
        _fence(found["graph"]),
        "## 3. Canonical form",
        f"`src/canon` applies its rules to a fixed point; {after} nodes are left. Scalars meet, divisions become products, casts and moves "
        "go where they cost least. Two graphs that mean the same become the same text.",
        _fence(found["canon"]),
        "## 4. Few kernels",
        "`src/schedule` decides which values are computed together and where the rest lies in memory.",
        _fence(found["explained"]),
        '<figure class="plan" markdown="span">![The plan: kernels from top to bottom](plan.svg)</figure>',
        "### Its memory",
        "Intermediates share an arena; two that are never needed at once may have the same bytes (`src/schedule/memory.cpp`). "
        "This one is of a whole encoder layer, four sequences of 128 tokens:",
        f'<figure>{memory_picture(_encoder_plan())}</figure>',
        "## 5. An Atlas program",
        f"Kernel {kernel} is the product with its epilogue: what is loaded, what is summed over the row axis, and what is done "
        "to each sum before it is stored. The interpreter (`src/interp`) defines what it means; every backend runs the same text.",
        _fence(found[f"{kernel}.atlas"]),
        "## 6. LLVM's text",
        "`src/backend/cpu` cuts the product into blocks of registers for this processor. The innermost loop, before LLVM optimises it:",
        _fence(_optimised(found[f"{kernel}.llvm"]), "llvm"),
        "## 7. Machine code",
        "And what the processor runs there: one load of the packed weights feeds several rows.",
        _fence(_hot(found[f"{kernel}.asm"]), "asm"),
    ]) + "\n"  # fmt: skip
