# hologram_torch/explain/alive.py: what a graph's call holds at the moment when its intermediates take the most
from .table import size_text


def peak(plan: dict):
    """→ (number of the step, the intermediates that are live while it runs, the largest first) or None where sizes vary or steps are
    not known. An intermediate: a slot of the plan with "made" and "last", the steps that write it first and need it last."""
    slots, steps = plan["slots"], plan["steps"]
    made, last = {}, {}
    for number, step in enumerate(steps):
        if "reads" not in step:
            return None
        for slot in (*step["reads"], *step["writes"]):
            made.setdefault(slot, number)
            last[slot] = number
    found = {s: dict(slots[s], made=made[s], last=last[s]) for s in made if s >= 0 and slots[s]["kind"] == "arena"}
    if not found or not all(slot["bytes"].isdigit() for slot in found.values()):
        return None

    def live(step):
        return [slot for slot in found.values() if slot["made"] <= step <= slot["last"]]

    at = max(range(len(steps)), key=lambda step: _bytes(live(step)))
    return at, sorted(live(at), key=lambda slot: -int(slot["bytes"]))


def lines(plan: dict, most: int) -> list:
    """The peak as text: a line for all, and one for each of the `most` largest intermediates."""
    found = peak(plan)
    if found is None:
        return []
    at, live = found
    steps = plan["steps"]
    out = [f"  at the peak, step {at} ({steps[at]['name'][:40]}): {size_text(str(_bytes(live)), 'B')} in {len(live)} intermediates"]
    for slot in live[:most]:
        sizes = f"{slot['dtype']} [{', '.join(slot['shape'])}]"
        made, last = (f"{slot[key]} ({steps[slot[key]]['name'][:32]})" for key in ("made", "last"))
        out.append(f"  {size_text(slot['bytes'], 'B'):>8} {slot['name'][:16]:16} {sizes:26} made by {made}, needed until {last}")
    return out


def _bytes(slots) -> int:
    return sum(int(slot["bytes"]) for slot in slots)
