# tools/site/rooms.py: a page for each folder of src/: what comes in and goes out, three terms, where to change what, its files
"""All of it is read from the tree: the row of docs/layout.md, the includes, the comments above declarations and the first lines of files.

What is said here is which three terms one should know in a room, and which file one opens to change what.
"""

import re
import sys
from pathlib import Path

from tools.site.reference import table

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
_WALKS = {"operator": "Add an operator", "block": "Add a kind of block", "backend": "Add a backend"}  # headings of hacking.md

# folder: three terms, as header:name; (what to change, where), where: files below src/, or one of _WALKS
ROOMS = {
    "base": (("expr.h:Expr", "fingerprint.h:Fingerprint", "error.h:ErrorCode"),
             (("add an environment variable", "base/settings.cpp"), ("add a dtype", "base/dtype.h"),
              ("simplify sizes and indices", "base/expr.cpp"))),
    "rewrite": (("rewrite.h:Pattern", "rewrite.h:Rule", "rewrite.h:Rewriter"), (("change how rules are tried", "rewrite/rewrite.h"),)),
    "sigmatics": (("classes.h:Parts", "expression.h:Leaf", "effects.h:effects_of"),
                  (("add a rule of circuits", "sigmatics/canonical.cpp"), ("add a word to the language", "sigmatics/lexer.cpp"))),
    "ir": (("graph.h:Value", "graph.h:Graph", "op.h:OpKind"),
           (("add an operation", "operator"), ("change a rule of shapes or dtypes", "ir/infer.cpp"),
            ("fold constants as nodes are made", "ir/fold.cpp"))),
    "canon": (("canon.h:canonicalize", "terms.h:Terms", "canon.h:Report"),
              (("add a rule for arithmetic", "canon/arithmetic.cpp"), ("for movement", "canon/movement.cpp"),
               ("for casts", "canon/cast.cpp"))),
    "atlas": (("program.h:Program", "program.h:Block", "body.h:Instr"),
              (("add a kind of block", "block"), ("add an elementary function", "operator"),
               ("change what the verifier holds", "atlas/verify.cpp"))),
    "schedule": (("cluster/cluster.h:Cluster", "machine.h:Machine", "plan.h:Slot"),
                 (("decide what is computed once", "schedule/cluster/roots.cpp"), ("join kernels", "schedule/cluster/fuse.cpp"),
                  ("turn a cluster into a program", "schedule/lower/lower.cpp"), ("place intermediates", "schedule/memory.cpp"))),
    "interp": (("interp.h:run", "lanes.h:BodyRunner", "lanes.h:Reducer"),
               (("give a block its meaning", "interp/lanes.h"), ("give an instruction its meaning", "interp/arithmetic.cpp"))),
    "strips": (("routine.h:Routine", "body.h:BodyPlan", "vectors.h:Tile"),
               (("add a loop for an instruction", "strips/loops.inc"), ("run another block", "strips/routine.cpp"))),
    "codegen": (("function.h:Scope", "function.h:Function", "target.h:TargetTraits"),
                (("emit an instruction", "codegen/arithmetic.cpp"), ("emit a load or store", "codegen/memory.cpp"),
                 ("change the passes", "codegen/module.cpp"))),
    "gpu": (("loops.h:Teams", "products.h:Tiling", "workspaces.h:Workspace"),
            (("cut loops for threads", "gpu/loops.cpp"), ("cut products", "gpu/products.cpp"))),
    "host": (("thread_pool.h:ThreadPool", "memory_pool.h:MemoryPool", "boundary_pool.h:BoundaryPool"),
             (("cut work into chunks", "host/context.cpp"), ("share cores with busy processes", "host/core_share.cpp"))),
    "builtin": (("definitions.h:Definition", "kernels.h:BuiltinKernel", "definitions.h:precompiled"),
                (("add an operation of executors", "builtin/definitions.cpp"),)),
    "backend": (("backend.h:Backend", "launcher.h:Launcher", "memory.h:Memory"),
                (("add a backend", "backend"), ("run on the host what a device cannot", "backend/on_host.h"))),
    "backend/interp": (("backend.h:make_backend",), (("see what a backend needs at least", "backend/interp/backend.cpp"),)),
    "backend/null": (("device.h:FakeDevice", "late_queues.h:LateQueues", "late_events.h:LateEvent"),
                     (("make the device stricter", "backend/null/device.cpp"),)),
    "backend/cpu": (("machine.h:CpuMachine", "loops/plan.h:LoopPlan", "load.h:LoadedKernel"),
                    (("choose instructions for a processor", "backend/cpu/choices.cpp"), ("change costs", "backend/cpu/cost.h"),
                     ("cut a product", "backend/cpu/products/plan.cpp"), ("run loops along lanes", "backend/cpu/loops/emit.cpp"))),
    "backend/cuda": (("facts.h:Facts", "function.h:CudaFunction", "graph.h:LaunchGraph"),
                     (("choose a form of product", "backend/cuda/facts.cpp"), ("place accesses", "backend/cuda/accesses.cpp"),
                      ("call the driver", "backend/cuda/driver.cpp"))),
    "backend/webgpu": (("batch.h:Batch", "kernel.h:Pipelines", "addresses.h:Addresses"),
                       (("write WGSL", "backend/webgpu/wgsl"), ("join dispatches", "backend/webgpu/batch.cpp"))),
    "compiler": (("library.h:Part", "library.h:Contents"), (("change how the library is found", "compiler/open.cpp"),)),
    "runtime": (("executable.h:Executable", "kernel_cache.h:KernelCache", "storage.h:Storage"),
                (("run a call", "runtime/executable.cpp"), ("keep kernels on disk", "runtime/disk_cache.cpp"),
                 ("keep packed weights", "runtime/packed_files.cpp"))),
    "archive": (("index.h:Index", "archive.h:Archive", "function.h:Session"),
                (("add a record to the format", "archive/index.h"), ("change what is trusted", "archive/trust.cpp"))),
    "capi": (("handles.h:HandleTable", "handles.h:Pin", "error.h:guarded"),
             (("add a function", "capi/executor.cpp"), ("change how arguments are read", "capi/tensors.cpp"))),
    "rt": (("wasm/gpu.h:Gpu", "wasm/gpu.h:make_gpu_backend", "wasm/gpu.h:set_gpu_reads"),
           (("change what runs without the compiler", "rt/backend.cpp"),)),
}  # fmt: skip


def declarations(header: Path) -> dict:
    """The comment above each type and function of a header, by name."""
    lines, found = header.read_text().split("\n"), {}
    for number, line in enumerate(lines):
        named = re.match(r"(?:class|struct|enum class|using) (?:alignas\(\d+\) )?(\w+)", line) or re.match(r"[\w:<>,&*\s]+?\b(\w+)\(", line)
        if not named or line.startswith((" ", "/", "#")):
            continue
        above = number - 1
        while lines[above].startswith("template"):
            above -= 1
        said: list = []
        while lines[above].startswith("///"):
            said.insert(0, lines[above][3:].strip())
            above -= 1
        if said:
            found.setdefault(named[1], " ".join(said))
    return found


def _files(folder: str) -> list:
    """(path below the folder, its first line), sources without a header of their own among them; not those of rooms further in."""
    inner = [SRC / other for other in ROOMS if other.startswith(folder + "/")]
    rows = []
    for path in sorted((SRC / folder).rglob("*")):
        alone = path.suffix in (".h", ".def", ".inc") or path.suffix == ".cpp" and not path.with_suffix(".h").exists()
        if alone and not any(other in path.parents for other in inner):
            head = " ".join(line[3:] for line in re.match(r"(// .*\n)+", path.read_text())[0].splitlines())
            rows.append((f"`{path.relative_to(SRC / folder)}`", re.split(r"(?<=\.) (?=[A-Z])", head.partition(": ")[2])[0]))
    return rows


def _where(place: str) -> str:
    if place in _WALKS:
        heading = _WALKS[place]
        return f"[{heading}](../../hacking.md#{heading.lower().replace(' ', '-')})"
    if not (SRC / place).exists():
        raise ValueError(f"tools/site/rooms.py: src/{place} is not there")
    return f"`src/{place}`"


def page(folder: str) -> str:
    """Raises ValueError naming a term, a file or a folder that is not there."""
    rows = re.findall(r"^\| `([\w/]+)` \| (.*?) \| (?:(.*?) )?\|$", (ROOT / "docs/layout.md").read_text(), re.M)
    row = next(((holds, way) for name, holds, way in rows if name == folder), None)
    if row is None or folder not in ROOMS:
        raise ValueError(f"tools/site/rooms.py: {folder} has no row in docs/layout.md, or none here")
    holds = re.sub(r"\]\((?!http)", "](../../", row[0])
    comes, _, goes = row[1].partition(" → ")
    terms, changes = ROOMS[folder]
    said = []
    for header, name in (term.split(":") for term in terms):
        meaning = declarations(SRC / folder / header).get(name)
        if meaning is None:
            raise ValueError(f"tools/site/rooms.py: src/{folder}/{header} has no {name} with a comment above it")
        said.append((f"`{name}`", meaning, f"`{header}`"))
    parts = [f"# `{folder}`", f"{holds[0].upper()}{holds[1:]}."]
    if goes:
        parts.append(table(("comes in", "goes out"), [(comes, goes)]))
    parts += [_neighbours(folder), "## Terms to know", table(("term", "meaning", "header"), said)]
    parts += ["## Where to change what", table(("to", "begin in"), [(what, _where(place)) for what, place in changes])]
    parts += ["## Files", table(("file", "what it is"), _files(folder))]
    return "\n\n".join(parts) + "\n"


def _neighbours(folder: str) -> str:
    """A picture of what the room stands on and who stands on it."""
    sys.path.insert(0, str(ROOT / "tools"))
    import check_includes
    import layers

    arrows = layers.reduced(check_includes.arrows(SRC))
    lines = ["```mermaid", "flowchart BT", f'  room["{folder}"]']
    below, above = arrows.get(folder, []), [name for name, targets in arrows.items() if folder in targets]
    for kind, names in (("of", below), ("by", above)):
        for number, name in enumerate(names):
            lines.append(f'  {kind}{number}["{name}"]')
            lines.append(f"  room --> of{number}" if kind == "of" else f"  by{number} --> room")
    return "\n".join([*lines, "```"])


def pages() -> dict:
    return {f"inside/rooms/{folder.replace('/', '_')}.md": lambda folder=folder: page(folder) for folder in ROOMS}
