# hologram_torch/explain/picture.py: a plan as an SVG picture: kernels from top to bottom, buffers between them
import html

from .table import size_text

_COLOURS = {"product": "#cfe3ff", "attention": "#ffe0b8", "loop": "#d9f2d9", "host": "#f6cccc"}
_BOX = (290, 46)
_GAP = (26, 44)


def _kind(step: dict) -> str:
    if step["kind"] == "host":
        return "host"
    name = step["name"]
    return "product" if "dot_general" in name else "attention" if name.startswith("attention") else "loop"


def _layers(steps: list) -> list:
    """Steps by depth: each stands below everything it reads from."""
    depth = {}
    for i, step in steps:
        depth[i] = 1 + max((depth[d] for d in step["after"] if d in depth), default=-1)
    layers = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for i, step in steps:
        layers[depth[i]].append((i, step))
    return layers


def _order(layers: list) -> None:
    """Orders each layer by the mean place of what its steps read, so that few lines cross."""
    place = {}
    for layer in layers:
        layer.sort(key=lambda s: sum(place.get(d, 0) for d in s[1]["after"]) / max(1, len(s[1]["after"])))
        for x, (i, _) in enumerate(layer):
            place[i] = x - len(layer) / 2


def _label(text: str, limit: int) -> str:
    return html.escape(text if len(text) <= limit else text[: limit - 1] + "…")


def draw(plan: dict) -> str:
    """SVG text. Steps that run once (packing of weights) are left out."""
    steps = [(i, s) for i, s in enumerate(plan["steps"]) if not s["cached"]]
    layers = _layers(steps)
    _order(layers)
    (w, h), (gx, gy) = _BOX, _GAP
    width = max(max((len(layer) for layer in layers), default=1) * (w + gx) + gx, len(_COLOURS) * 90 + 2 * gx)
    height = len(layers) * (h + gy) + gy + 24
    at = {}
    for y, layer in enumerate(layers):
        left = (width - len(layer) * (w + gx) + gx) / 2
        for x, (i, _) in enumerate(layer):
            at[i] = (left + x * (w + gx), 24 + gy / 2 + y * (h + gy))
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {height}' width='{width:.0f}' "
        f"height='{height}' font-family='system-ui,sans-serif' font-size='11'>",
        f"<rect width='{width:.0f}' height='{height}' fill='white'/>",
    ]
    for k, (kind, colour) in enumerate(_COLOURS.items()):
        out.append(f"<rect x='{gx + k * 90}' y='6' width='12' height='12' fill='{colour}' stroke='#555'/>")
        out.append(f"<text x='{gx + k * 90 + 17}' y='16'>{kind}</text>")
    for i, step in steps:
        x, y = at[i]
        for d in step["after"]:
            if d not in at:
                continue
            x0, y0 = at[d][0] + w / 2, at[d][1] + h
            x1, middle = x + w / 2, (y0 + y) / 2
            out.append(f"<path d='M{x0:.1f} {y0:.1f} C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y:.1f}' "
                       "fill='none' stroke='#8a8f98'/>")
    for i, step in steps:
        x, y = at[i]
        detail = "runs in PyTorch" if step["kind"] == "host" else (
            f"{size_text(step['flop'], 'FLOP')}, {size_text(step['bytes'], 'B')}")
        out.append(f"<g><title>{html.escape(step['name'])}</title>"
                   f"<rect x='{x:.1f}' y='{y:.1f}' width='{w}' height='{h}' rx='6' fill='{_COLOURS[_kind(step)]}' stroke='#555'/>"
                   f"<text x='{x + 10:.1f}' y='{y + 19:.1f}' font-weight='600'>{i}  {_label(step['name'], 34)}</text>"
                   f"<text x='{x + 10:.1f}' y='{y + 35:.1f}' fill='#444'>{_label(detail, 38)}</text></g>")
    out.append("</svg>")
    return "".join(out)
