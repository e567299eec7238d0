# hologram_torch/explain/table.py: the kernels of a graph as lines of text
import re


def size_text(expression: str, unit: str) -> str:
    """'1234567', 'B' → '1.2 MB'; symbolic sizes stay expressions."""
    if not re.fullmatch(r"-?\d+", expression):
        return f"{expression} {unit}"
    n = float(expression)
    for prefix in ("", "k", "M", "G", "T"):
        if abs(n) < 1000:
            return f"{n:.3g} {prefix}{unit}"
        n /= 1000
    return f"{n:.3g} P{unit}"


def table(graph, rows: bool = True) -> list:
    """Lines about an explain.Graph: what was compiled, and, with `rows`, a row for each kernel."""
    lines = _summary(graph)
    return lines + _kernels(graph) if rows else lines


def _summary(graph) -> list:
    report, plan = graph.report, graph.plan
    kernels = [step for step in plan["steps"] if not step["cached"]]
    stages = ", ".join(f"{k} {v:.1f}" for k, v in sorted(report["milliseconds"].items()))
    lines = [
        f"{graph.name}: {report['ops_before']} operations → {report['ops_canonical']} canonical → "
        f"{len(kernels)} kernels ({report['kernels']} distinct)",
        f"  compiled in ms: {stages}; kernels from memory {report['memory_hits']}, library {report['builtin']}, "
        f"disk {report['disk_hits']}, compiled {report['compiled']}",
        f"  intermediates: {size_text(plan['arena_bytes'], 'B')} planned "
        f"({size_text(str(plan['boundary_bytes']), 'B')} of them in the boundary pool), "
        f"{size_text(plan['eager_bytes'], 'B')} if every operation made a tensor",
    ]
    if report["rules"]:
        fired = ", ".join(f"{name} ×{n}" for name, n in sorted(report["rules"].items(), key=lambda r: (-r[1], r[0])))
        lines.append(f"  rules: {fired}")
    if graph.shared[0]:
        lines.append(
            f"  {graph.shared[0]} packed weights ({size_text(str(graph.shared[1]), 'B')}) share memory with other tensors: contents "
            "are compared at each call, or versions once all of these tensors are known"
        )
    return lines


def _kernels(graph) -> list:
    kernels = graph.kernels()
    times = f" {'time':>10} {'share':>6} {'FLOP/s':>9} {'B/s':>9} {'limit':>6}" if graph.times else ""
    lines = [f"  {'kernel':<48} {'FLOP':>12} {'bytes':>12}{times}"]
    whole = sum(s.get("seconds", 0) for s in kernels)
    for step in kernels:
        if step["kind"] == "host":
            line = f"  {step['name'][:40] + ' (PyTorch)':<48} {'':>12} {'':>12}"
        else:
            line = f"  {step['name'][:48]:<48} {size_text(step['flop'], ''):>12} {size_text(step['bytes'], 'B'):>12}"
        if graph.times:
            line += f" {step['seconds'] * 1e6:>7.1f} µs {100 * step['seconds'] / max(whole, 1e-12):>5.1f}%"
            line += _rate(step, "flop") + _rate(step, "bytes") + _limit(step)
        lines.append(line.rstrip())
    if graph.times:
        lines.append(f"  {'all kernels':<48} {'':>12} {'':>12} {whole * 1e6:>7.1f} µs")
    return lines


def _rate(step: dict, what: str) -> str:
    """Amount per second as a column of the table; empty where it is not a number."""
    amount = step.get(what, "")
    if not re.fullmatch(r"\d+", amount) or step["seconds"] <= 0 or amount == "0":
        return f" {'':>9}"
    return f" {size_text(str(round(int(amount) / step['seconds'])), ''):>9}"


def _limit(step: dict) -> str:
    """The share of what this machine can do at most, and what binds, as a column of the table."""
    return f" {100 * step['limit'][0]:>5.0f}% ({step['limit'][1]})" if step["limit"] else ""
