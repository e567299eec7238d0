# hologram/page/__init__.py: one self-contained page about compiled graphs: where their time goes
"""The page is template.html with the data as JSON in it; it needs no network and no other file."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any, Optional

from hologram.limits import Limits
from hologram.page.plan import Plan, data

__all__ = ["Plan", "render"]


def render(
    title: str, plans: Sequence[Plan], limits: Optional[Limits] = None, text: str = "", left: Optional[dict[str, int]] = None
) -> str:
    """The page's text. limits: of this machine, where times are to be held against them; text: shown as it is; left: calls of
    operators that PyTorch ran, by name."""
    content = {
        "title": title,
        "plans": [data(plan, limits) for plan in plans],
        "limits": limits and _limits(limits),
        "text": text,
        "left": dict(sorted((left or {}).items())),
    }
    template = resources.files(__name__).joinpath("template.html").read_text(encoding="utf-8")
    head, tail = (part.replace("@@TITLE@@", html.escape(title)) for part in template.split("@@DATA@@"))
    return head + _script(content) + tail


def _limits(limits: Limits) -> dict[str, Any]:
    return {
        "processor": limits.processor,
        "threads": limits.threads,
        "operations": limits.operations,
        "levels": [{"name": v.name, "bytes": v.bytes, "most": v.most} for v in limits.levels],
        "rows": limits.rows(),
    }


def _script(content: Any) -> str:
    """JSON that no HTML parser takes for markup."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")
