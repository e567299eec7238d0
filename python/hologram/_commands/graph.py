"""``hologram graph``: tensor graphs in their text form."""

from __future__ import annotations

import argparse
from typing import Any

from hologram import _core
from hologram._commands.common import add, group, located, read_bytes, show

FILE = ("file", {"metavar": "FILE", "help": "text form of a graph, or - for standard input"})


def _graph(args: argparse.Namespace) -> Any:
    data = read_bytes(args.file)
    with located(data):
        return _core.parse_graph(data.decode())


def _canonical(args: argparse.Namespace) -> int:
    report = dict(_core.canonicalize(_graph(args), args.reproducible, args.fast))
    if args.json:
        show(report, True)
    else:
        print(report["text"], end="")
    return 0


def _executable(args: argparse.Namespace) -> Any:
    return _core.compile(_graph(args), _core.Runtime(args.backend), reproducible=args.reproducible, fast=args.fast)


def _compile(args: argparse.Namespace) -> int:
    executable = _executable(args)
    if args.stage == "plan":
        texts = [executable.plan()]
    elif args.stage:
        texts = executable.dump(args.stage)
    else:
        texts = []
    if args.json:
        show({"ok": True, **executable.report, "texts": texts}, True)
    elif texts:
        print("\n".join(texts), end="")
    else:
        show({k: v for k, v in executable.report.items() if k != "rules"}, False)
    return 0


def _explain(args: argparse.Namespace) -> int:
    executable = _executable(args)
    report = executable.report
    data = {
        "ops_before": report["ops_before"],
        "ops_canonical": report["ops_canonical"],
        "kernels": report["kernels"],
        "steps": report["steps"],
        "rules": report["rules"],
    }
    if args.json:
        plan = executable.describe()
        show({**data, "plan": plan}, True)
        return 0
    print(f"operations {data['ops_before']} -> {data['ops_canonical']} -> {data['kernels']} kernels in {data['steps']} steps")
    for name, count in sorted(data["rules"].items()):
        print(f"  {name:<24} fired {count} times")
    print(executable.plan(), end="")
    return 0


def register(commands: Any) -> None:
    """Adds the group to the command line."""
    actions = group(commands, "graph", "Tensor graphs in their text form.")
    modes = (
        ("--reproducible", {"action": "store_true", "help": "no rule may change the order of a sum"}),
        ("--fast", {"action": "store_true", "help": "products and casts may lose precision"}),
    )
    add(actions, "canon", _canonical, "Canonical form of a graph.", FILE, *modes)
    compile_ = add(actions, "compile", _compile, "Compile a graph: kernels, times and, if asked, their text.", FILE, *modes)
    compile_.add_argument("--stage", choices=["plan", "atlas", "llvm", "asm"], help="print this stage")
    explain = add(actions, "explain", _explain, "Operations before and after, rules, kernels and the plan.", FILE, *modes)
    for command in (compile_, explain):
        command.add_argument("--backend", default="cpu", choices=_core.Runtime.backends(), help="for which backend (default: cpu)")
