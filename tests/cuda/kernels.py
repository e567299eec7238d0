# tests/cuda/kernels.py: what is known of the kernels of a run, and the table at its end
import json
import re
from pathlib import Path

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def assembled(words: str) -> list[dict]:
    """Of what `ptxas -v` says: each kernel's registers and spills, and whatever is a warning or an error."""
    found: list[dict] = []
    for line in words.splitlines():
        if entry := ENTRY.search(line):
            found.append({"entry": entry[1], "gpu": entry[2]})
        elif (spills := SPILLS.search(line)) and found:
            found[-1] |= dict(zip(("stack", "spill_stores", "spill_loads"), map(int, spills.groups())))
        elif (used := USED.search(line)) and found:
            found[-1]["registers"] = int(used[1])
        elif re.search(r"warning|error|C7[56]\d\d", line):
            found.append({"words": line.strip()[:400]})
    return found


def kernels_of(folder: Path) -> list[dict]:
    """What the driver (spy_driver.cpp) and the assembler told in a task's folder."""
    spied, words = folder / "kernels", folder / "assembled"
    found = []
    for line in spied.read_text(errors="replace").splitlines() if spied.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:  # cut where the process ended
            pass
    return found + (assembled(words.read_text(errors="replace")) if words.exists() else [])


def differing(done) -> list[str]:
    """Tasks that ended otherwise by another assembler: its fault, or theirs."""
    by_name: dict[str, dict[str, str]] = {}
    for task, outcome, _ in done:
        if found := re.fullmatch(r"(.*) \(([\d.]+)(.*)\)", task.name):
            by_name.setdefault(found[1] + found[3], {})[found[2]] = outcome.state
    ran = {name: {v: s for v, s in states.items() if s in ("passed", "failed")} for name, states in by_name.items()}
    apart = {name: states for name, states in ran.items() if len(set(states.values())) > 1}
    return [f"{name}: {', '.join(f'{s} by {v}' for v, s in states.items())}" for name, states in apart.items()]


def spilling(path: Path, most: int = 20) -> list[str]:
    """Kernels with bytes of local memory."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        kernel = json.loads(line)
        if kernel.get("local") or kernel.get("spill_stores"):
            name = kernel.get("entry") or kernel["kernel"].partition(": ")[2]
            bytes_ = kernel.get("spill_stores") or kernel["local"]
            found.setdefault(f"{name} of {kernel['task']}: {bytes_} bytes, {kernel.get('registers')} registers")
    return list(found)[:most]


def summary(done, device: str, kernels: Path) -> str:
    """A table of the stages, what failed, and the line "N passed, N failed, N skipped"."""
    lines = [device, "", "| stage | tasks | tests passed | failed | skipped | cut off | not run | seconds |", "| --- " * 8 + "|"]
    for stage in dict.fromkeys(task.stage for task, _, _ in done):
        some = [(outcome, seconds) for task, outcome, seconds in done if task.stage == stage]
        counts = [sum(getattr(o, name) for o, _ in some) for name in ("passed", "failed", "skipped")]
        states = [sum(o.state == name for o, _ in some) for name in ("cut off", "not run")]
        lines.append(f"| {stage} | {len(some)} | {' | '.join(map(str, counts + states))} | {sum(s for _, s in some):.0f} |")
    parts = {
        "failed": [f"{task.name}: {outcome.words[:400]}" for task, outcome, _ in done if outcome.state == "failed"],
        "other results by another assembler": differing(done),
        "kernels with local memory": spilling(kernels),
        "times": [f"{task.name}: {outcome.words}" for task, outcome, _ in done if task.stage in ("timings", "bars") and outcome.passed],
    }
    for title, found in parts.items():
        lines += ["", f"{title}:", *(f"- {line}" for line in found)] if found else []
    passed, failed, skipped = (sum(getattr(outcome, name) for _, outcome, _ in done) for name in ("passed", "failed", "skipped"))
    return "\n".join([*lines, "", f"{passed} passed, {failed} failed, {skipped} skipped"]) + "\n"
