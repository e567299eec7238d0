"""``hologram generate``: tokens behind a prompt, by an archive."""

from __future__ import annotations

import argparse
import time
from typing import Any

from hologram._commands.archive import FILE
from hologram._commands.common import add, show


def _generate(args: argparse.Namespace) -> int:
    import numpy as np

    from hologram.archive import load
    from hologram.generation import generate

    archive = load(args.file, backend=args.backend)
    at: list[float] = []
    begin = time.perf_counter()
    made = generate(
        archive, np.array([args.ids]), max_new_tokens=args.tokens, do_sample=args.sample, temperature=args.temperature,
        top_k=args.top_k, top_p=args.top_p, seed=args.seed, eos=args.eos, streamer=lambda step: at.append(time.perf_counter()),
    )  # fmt: skip
    data: dict[str, Any] = {"ids": made[0].tolist(), "new": len(at), "first_token_ms": round(1e3 * (at[0] - begin), 3)}
    if len(at) > 2:  # the first step of decode loads or compiles it
        data["tokens_per_second"] = round((len(at) - 2) / (at[-1] - at[1]), 2)
    show(data, args.json)
    return 0


def register(commands: Any) -> None:
    """Adds the command to the command line."""
    ids = {"metavar": "ID", "nargs": "+", "type": int, "help": "the prompt's tokens"}
    command = add(commands, "generate", _generate, "Continue a prompt by an archive of export_generation.", FILE, ("ids", ids))
    command.add_argument("--tokens", metavar="N", type=int, default=20, help="how many to add (default: 20)")
    command.add_argument("--eos", metavar="ID", type=int, nargs="+", help="tokens that end the text")
    command.add_argument("--sample", action="store_true", help="draw tokens; without it the most probable ones")
    command.add_argument("--temperature", metavar="T", type=float, default=1.0, help="logits are divided by it (default: 1)")
    command.add_argument("--top-k", metavar="K", type=int, default=0, help="draw among the K most probable (default: all)")
    command.add_argument("--top-p", metavar="P", type=float, default=1.0, help="draw among the fewest that come to P (default: 1)")
    command.add_argument("--seed", metavar="S", type=int, help="the same seed draws the same tokens")
    command.add_argument("--backend", default="auto", help="where it runs (default: auto)")
