# examples/training/beside.py: what the tutorials share: the same training by Hologram and in eager, in turns, as a table and a picture
"""A tutorial's `train(count, **how)` yields the loss of each step. It is run twice at once, ten steps by Hologram and ten in eager, where
`how` is `disable=True`: torch.compile then gives back what it was given. Both draw the same random numbers."""

import argparse
import statistics
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

TURN = 10  # steps
WARM = 3  # steps that are not measured: the first ones compile
REPRODUCIBLE = {"options": {"reproducible": True}}
COLOURS = {  # paper, ink, eager, Hologram
    "light": ("#ffffff", "#1f2328", "#b6bec7", "#0550ae"),
    "dark": ("#0d1117", "#e6edf3", "#5b6570", "#79c0ff"),
}


class Side:
    """One of the two runs: its losses, the seconds of each step, and where its random numbers are."""

    def __init__(self, name, steps):
        self.name, self.steps, self.losses, self.seconds = name, steps, [], []
        self.random, self.result = _random(), None

    def turn(self):
        """Some more steps; false behind the last."""
        if self.random is not None:
            sys.modules["torch"].set_rng_state(self.random)
        for _ in range(TURN):
            start = time.perf_counter()
            try:
                loss = next(self.steps).item()
            except StopIteration as end:
                self.result = end.value
                return False
            self.seconds.append(time.perf_counter() - start)
            self.losses.append(loss)
        self.random = _random()
        return True

    def milliseconds(self):
        return 1e3 * statistics.median(self.seconds[WARM:] or self.seconds)


def _random():
    return sys.modules["torch"].get_rng_state() if "torch" in sys.modules else None


def options(text, unit, count, short, checks=True):
    """What every tutorial understands; `count` of the unit, `short` of them with --short; `checks`: whether there is --check."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument(f"--{unit}", dest="count", type=int, default=count, help=f"how many (by default {count})")
    parser.add_argument("--short", dest="count", action="store_const", const=short, help=f"{short} {unit}, as the tests run it")
    parser.set_defaults(check=False)
    if checks:
        parser.add_argument("--check", action="store_true", help="run by two threads, again, and by one: the same bits? (reproducible)")
    parser.add_argument("--pictures", type=Path, default=Path(), help="the folder of the loss curves (by default this one)")
    parser.add_argument("--no-pictures", dest="pictures", action="store_const", const=None)
    return parser.parse_args()


def run(train, chosen, each=1, within=1e-3, show=True, peer="eager"):
    """`train`, or {name: train} for several in a row: both sides of each, a table, pictures; → [(ours, eager)].

    `each`: steps of one of what is counted; `within`: how far losses may be apart, relative to the larger of loss and 1."""
    trains = train if isinstance(train, dict) else {"": train}
    if chosen.check:
        return check(trains, chosen)
    pairs = [sides(name, function, chosen.count, chosen.count * each, show, peer) for name, function in trains.items()]
    if show:
        Console().print(table(pairs))
        print(f"operators left to PyTorch: {left() or 'none'}")
        if chosen.pictures is not None:
            pictures(pairs, chosen.pictures)
    for ours, eager in pairs:
        assert len(ours.losses) == len(eager.losses) == chosen.count * each
        if not apart(ours, eager) <= within:
            sys.exit(f"{ours.name}: losses are {apart(ours, eager):.1e} from eager's, more than {within:.0e}")
    return pairs


def sides(name, train, count, steps, show, peer):
    ours = Side(f"Hologram {name}".strip(), train(count))
    eager = Side(f"{peer} {name}".strip(), train(count, disable=True))
    words = (TextColumn("{task.description}"), TextColumn("{task.fields[loss]}"))
    columns = (words[0], BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), words[1])
    with Progress(*columns, disable=not show, console=Console(stderr=True)) as progress:
        tasks = {side: progress.add_task(side.name, total=steps, loss="") for side in (ours, eager)}
        running = [ours, eager]
        while running:
            for side in list(running):
                if not side.turn():
                    running.remove(side)
                progress.update(tasks[side], completed=len(side.losses), loss=f"loss {side.losses[-1]:.3f}")
    return ours, eager


def left():
    """Operators of compiled graphs that PyTorch ran."""
    return sys.modules["hologram_torch"].stats()["fallback_ops"] if "hologram_torch" in sys.modules else {}


def apart(ours, eager):
    """The largest difference of two losses of a step, relative to the larger of loss and 1."""
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(ours.losses, eager.losses))


def table(pairs):
    found = Table("", "first loss", "last loss", "first step, s", "ms a step", "speed", "apart")
    for ours, eager in pairs:
        ratio = f"{eager.milliseconds() / ours.milliseconds():.2f}"
        for side, more in ((ours, (ratio, f"{apart(ours, eager):.1e}")), (eager, ("", ""))):
            losses = (f"{loss:.4f}" for loss in (side.losses[0], side.losses[-1]))
            found.add_row(side.name, *losses, f"{side.seconds[0]:.2f}", f"{side.milliseconds():.3f}", *more)
    return found


def pictures(pairs, folder):
    """loss-light.svg and so on: the curves above, how far they are apart below."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "loss", "font.size": 9}
    folder.mkdir(parents=True, exist_ok=True)
    for style, (paper, ink, grey, blue) in COLOURS.items():
        figure = Figure((6.4 * len(pairs) if len(pairs) < 3 else 13, 3.6), facecolor=paper, layout="constrained")
        axes = figure.subplots(2, len(pairs), squeeze=False, sharex=True, gridspec_kw={"height_ratios": (3, 1)})
        for (ours, eager), (above, below) in zip(pairs, axes.T):
            above.plot(eager.losses, color=grey, linewidth=4, label=eager.name)
            above.plot(ours.losses, color=blue, linewidth=1.2, label=ours.name)
            above.legend(frameon=False, labelcolor=ink)
            above.set_ylabel("loss", color=ink)
            below.semilogy([max(abs(a - b), 1e-9) for a, b in zip(ours.losses, eager.losses)], color=blue, linewidth=0.7)
            below.set_ylabel("apart", color=ink)
            below.set_xlabel("step", color=ink)
            for part in (above, below):
                part.set_facecolor(paper)
                part.tick_params(colors=ink, which="both")
                part.spines[:].set_color(grey)
                part.spines[["top", "right"]].set_visible(False)
        for kind in ("svg", "png"):
            figure.savefig(folder / f"loss-{style}.{kind}", dpi=144, metadata={"Date": None} if kind == "svg" else None)


def check(trains, chosen):
    """Losses of runs in `reproducible`: bit for bit the same, whatever the number of threads."""
    for name, train in trains.items():
        curves = []
        for threads in (2, 2, 1):
            sys.modules["torch"].set_num_threads(threads)
            curves.append([loss.item() for loss in train(chosen.count, **REPRODUCIBLE)])
            print(f"{name or 'reproducible'}: {len(curves[-1])} losses by {threads} threads, the last {curves[-1][-1]!r}")
        if not curves[0] == curves[1] == curves[2]:
            sys.exit("their bits differ")
    print("the same bits")
    return []
