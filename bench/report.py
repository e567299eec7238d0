# bench/report.py: benchmark results as terminal tables, JSON and plots
import csv
import io
import math
import statistics
from pathlib import Path

from peers import BEFORE, OURS

SHORT = (
    100e-6  # below this, a call through torch.compile is compared with torch.compile's peers only
)
DYNAMO_PEERS = ("eager", "inductor", "openvino")
COLORS = {
    "eager": "#8a8a8a",
    "inductor": "#d9822b",
    "openvino": "#3b7dd8",
    "openvino_model": "#7fb0ee",
    "onnxruntime": "#6b5bb5",
    "hologram": "#1f9d61",
    "aot_eager": "#c9c9c9",
    "before": "#a3d9c0",
}


def seconds(value: float | None) -> str:
    if value is None:
        return "n/a"
    scale, unit = (1, "s") if value >= 1 else (1e-3, "ms") if value >= 1e-3 else (1e-6, "µs")
    digits = 3 if value < scale * 10 else 2 if value < scale * 100 else 1
    return f"{value / scale:.{digits - 1}f} {unit}"


def steady(result: dict) -> float | None:
    """A peer's steady-state seconds: the median over rounds of each round's median block."""
    rounds = result.get("rounds")
    return statistics.median(r["median"] for r in rounds) if rounds else None


def fastest(result: dict) -> float | None:
    """A peer's fastest block in any round: what it takes when nothing else runs on the machine."""
    rounds = result.get("rounds")
    return min(r["min"] for r in rounds) if rounds else None


def ratio(numerator: dict, denominator: dict) -> float | None:
    """How many times longer the first takes, per round, then the median over rounds."""
    a, b = numerator.get("rounds"), denominator.get("rounds")
    return statistics.median(x["median"] / y["median"] for x, y in zip(a, b)) if a and b else None


def fastest_ratio(numerator: dict, denominator: dict) -> float | None:
    """The same of the fastest blocks."""
    a, b = fastest(numerator), fastest(denominator)
    return a / b if a and b else None


def best_peer(peers: dict, subject: str = "hologram") -> str | None:
    """The fastest of the others that the subject is compared with."""
    times = {name: steady(r) for name, r in peers.items() if name not in (subject, *OURS)}
    times = {name: t for name, t in times.items() if t is not None}
    if times and min(times.values()) < SHORT and any(name in times for name in DYNAMO_PEERS):
        times = {name: t for name, t in times.items() if name in DYNAMO_PEERS}
    return min(times, key=times.get) if times else None


def speedups(results: dict, subject: str = "hologram", ratio=ratio) -> dict[str, tuple[str, float]]:
    """case → (best other peer, how many times faster the subject is)"""
    found = {}
    for case, result in results["cases"].items():
        best = best_peer(result["peers"], subject)
        if best and subject in result["peers"]:
            times = ratio(result["peers"][best], result["peers"][subject])
            if times is not None:
                found[case] = best, times
    return found


def geometric_mean(values) -> float:
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def style(times: float | None) -> str:
    return "n/a" if times is None else f"[{'green' if times >= 1 else 'red'}]{times:.2f}×[/]"


def measured_peers(results: dict) -> list[str]:
    """The peers with a steady state, in the results' order."""
    return [
        name
        for name in results["peers"]
        if any(case["peers"].get(name, {}).get("rounds") for case in results["cases"].values())
    ]


def print_steady(results: dict, console):
    from rich.table import Table

    names = measured_peers(results)
    table = Table(title="Steady state, seconds per call")
    table.add_column("case")
    for name in names:
        table.add_column(name, justify="right")
    for title in ("against eager", "against the best", "by fastest blocks"):
        table.add_column(title, justify="right")
    found, quiet = speedups(results), speedups(results, ratio=fastest_ratio)
    for case, result in results["cases"].items():
        peers = result["peers"]
        against_eager = ratio(peers.get("eager", {}), peers.get("hologram", {}))
        best = f"{style(found[case][1])} {found[case][0]}" if case in found else "n/a"
        times = [seconds(steady(peers.get(name, {}))) for name in names]
        table.add_row(
            case,
            *times,
            style(against_eager),
            best,
            style(quiet[case][1] if case in quiet else None),
        )
    console.print(table)
    for what, times in (("medians", found), ("fastest blocks", quiet)):
        barred = {c: times[c][1] for c, r in results["cases"].items() if r["barred"] and c in times}
        if barred:
            slowest = min(barred, key=barred.get)
            console.print(
                f"Against the best peer by {what}, {len(barred)} cases: geometric mean"
                f" {geometric_mean(barred.values()):.2f}×,"
                f" lowest {barred[slowest]:.2f}× ({slowest})"
            )


def print_first(results: dict, console):
    from rich.table import Table

    names = [n for n in results["peers"] if n != "eager"]
    table = Table(title="First call: cold caches, libraries imported, capture or export included")
    table.add_column("case")
    for name in names:
        table.add_column(name, justify="right")
    ours = "hologram" in names
    bases = [name for name in ("aot_eager", "aot_decomposed") if name in names]
    titles = ["hologram, warm disk", "inside hologram: cold", "warm"]
    titles += [f"beyond {base}: {state}" for base in bases for state in ("cold", "warm")]
    for title in titles if ours else ():
        table.add_column(title, justify="right")
    for case, result in results["cases"].items():
        peers = result["peers"]
        first = {name: median_of(peers.get(name, {}).get("first")) for name in names}
        row = [seconds(first[name]) for name in names]
        if ours:
            result = peers.get("hologram", {})
            warm = median_of(result.get("warm"))
            row.append(seconds(warm))
            for stats in ("stats", "warm_stats"):
                milliseconds = result.get(stats, {}).get("compile_ms", {}).get("total")
                row.append("n/a" if milliseconds is None else f"{milliseconds:.0f} ms")
            for base in bases:
                for t in (first["hologram"], warm):
                    known = t is not None and first[base] is not None
                    row.append(f"{(t - first[base]) * 1e3:+.0f} ms" if known else "n/a")
        table.add_row(case, *row)
    console.print(table)


NAMES = {
    "eager": "eager",
    "inductor": "Inductor",
    "openvino": "OpenVINO",
    "openvino_model": "OpenVINO (model)",
    "onnxruntime": "ONNX Runtime",
    "hologram": "Hologram",
    "frozen": "Hologram, frozen",
    "before": "Hologram before",
    "frozen_before": "Hologram before, frozen",
}


def markdown(results: dict, titles: dict[str, str]) -> str:
    """The steady state as a Markdown table of the titled cases. Its last column: how many times as
    long as Hologram the best of the others takes, per round, then the median; below 100 µs of those
    that are called through PyTorch. Where limits were measured, one more: the least time over that of the fastest blocks."""
    names = [n for n in measured_peers(results) if n != "hologram"]
    shown = [*names, "hologram"]
    best = speedups(results)
    lines = [
        "| case | " + " | ".join(NAMES.get(n, n) for n in shown) + " | against the best |",
        "| --- |" + " --- |" * (len(shown) + 1),
    ]
    limited = any("limit" in result for result in results["cases"].values())
    if limited:
        lines = [lines[0] + " of the limit |", lines[1] + " --- |"]
    for case, result in results["cases"].items():
        title = titles.get(case)
        if not title:
            continue
        times = [seconds(steady(result["peers"].get(name, {}))) for name in shown]
        last = f"{best[case][1]:.2f}× ({NAMES.get(best[case][0], best[case][0])})" if case in best else "n/a"
        lines.append(f"| {title} | " + " | ".join(times) + f" | {last} |" + (f" {share(result)} |" if limited else ""))
    barred = [best[c][1] for c, r in results["cases"].items() if r["barred"] and c in best]
    if barred:
        lines += ["", f"Geometric mean of {len(barred)} cases: {geometric_mean(barred):.2f}×."]
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines += ["", f"{machine['cpu']}, {machine['cores']} cores, {results['threads']} threads; {versions}."]
    return "\n".join(lines) + "\n"


def share(result: dict) -> str:
    """Of a case's limit, and what that is."""
    limit, took = result.get("limit"), fastest(result["peers"].get("hologram", {}))
    return f"{100 * limit['seconds'] / took:.0f} % ({limit['bound']})" if limit and took else "n/a"


def slower(results: dict, allowed: float) -> list[tuple[str, str, float]]:
    """(case, peer, how many times as long) where Hologram takes longer than 1 + `allowed` times what it took before:
    both by the median of the rounds and by the fastest blocks, so that one disturbed round does not count."""
    found = []
    for case, result in results["cases"].items():
        for name, old in (("hologram", "before"), ("frozen", "frozen_before")):
            new, old = result["peers"].get(name, {}), result["peers"].get(old, {})
            times = [t for t in (ratio(new, old), fastest_ratio(new, old)) if t is not None]
            if times and min(times) > 1 + allowed:
                found.append((case, name, min(times)))
    return found


def csv_text(results: dict) -> str:
    """A line per case and peer, in seconds: the first call; of blocks of calls of a millisecond or more, over all
    rounds, the median of the rounds' medians, the fastest, and the median of the rounds' 25th, 75th and 99th percentile."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["case", "peer", "first", "median", "fastest", "p25", "p75", "p99", "failed"])
    for case, result in results["cases"].items():
        for name, r in result["peers"].items():
            rounds = r.get("rounds") or []
            shares = [median_of([x[p] for x in rounds]) for p in ("p25", "p75", "p99")]
            row = [median_of(r.get("first")), steady(r), fastest(r), *shares]
            table.writerow([case, name, *(f"{v:.6g}" if v is not None else "" for v in row), r.get("failed", "")])
    return text.getvalue()


def median_of(values) -> float | None:
    return statistics.median(values) if values else None


def print_notes(results: dict, console):
    missing = [
        (case, name, result["failed"])
        for case, r in results["cases"].items()
        for name, result in r["peers"].items()
        if "failed" in result
    ]
    for case, name, reason in missing:
        console.print(f"n/a: {case}, {name}: {reason}", markup=False)
    for case, r in results["cases"].items():
        left = r["peers"].get("hologram", {}).get("stats", {}).get("fallback_ops")
        if left:
            console.print(f"in PyTorch: {case}, hologram: {', '.join(sorted(left))}", markup=False)


def print_all(results: dict):
    from rich.console import Console

    console = Console() if Console().is_terminal else Console(width=160)
    machine = results["machine"]
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, {results['threads']} threads; "
        + ", ".join(f"{name} {version}" for name, version in machine["versions"].items()),
        highlight=False,
    )
    print_steady(results, console)
    print_first(results, console)
    print_notes(results, console)


# --- plots ----------------------------------------------------------------------------------------
def bars(
    cases: list[str],
    values: dict[str, list[float | None]],
    title: str,
    label: str,
    start: float,
    files: list[Path],
):
    """Horizontal bars from `start` on a logarithmic axis: a group per case, a bar per peer."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    height = 0.8 / max(1, len(values))
    figure, axes = pyplot.subplots(
        figsize=(9, 1.2 + 0.16 * len(cases) * (len(values) + 1)), layout="constrained"
    )
    for index, (name, row) in enumerate(values.items()):
        places = [c + index * height for c, v in enumerate(row) if v is not None]
        widths = [v - start for v in row if v is not None]
        axes.barh(places, widths, height, left=start, label=name, color=COLORS.get(name))
    axes.set_yticks([c + 0.4 - height / 2 for c in range(len(cases))], cases)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_title(title)
    axes.axvline(start, color="black", linewidth=0.8)
    axes.grid(axis="x", which="both", alpha=0.25)
    axes.set_axisbelow(True)
    axes.legend(loc="best", fontsize="small")
    for file in files:
        figure.savefig(file, dpi=120)
    pyplot.close(figure)


def plot(results: dict, folder: Path):
    """Writes steady.{svg,png} (speed-up over eager) and first_call.{svg,png} into the folder."""
    cases = list(results["cases"])
    peers = [results["cases"][c]["peers"] for c in cases]
    machine = f"{results['machine']['cpu']}, {results['threads']} threads"
    files = lambda stem: [folder / f"{stem}.{kind}" for kind in ("svg", "png")]
    steady = measured_peers(results)
    if "eager" in steady:
        values = {
            n: [ratio(p.get("eager", {}), p.get(n, {})) for p in peers]
            for n in steady
            if n != "eager"
        }
        bars(
            cases,
            values,
            f"Steady state ({machine})",
            "times as fast as eager PyTorch",
            1.0,
            files("steady"),
        )
    values = {
        n: [median_of(p.get(n, {}).get("first")) for p in peers]
        for n in results["peers"]
        if n != "eager"
    }
    if "hologram" in values:
        values["hologram, warm disk"] = [
            median_of(p.get("hologram", {}).get("warm")) for p in peers
        ]
    bars(
        cases, values, f"First call ({machine})", "seconds, cold caches", 1e-3, files("first_call")
    )
