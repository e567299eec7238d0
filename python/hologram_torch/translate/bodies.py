# hologram_torch/translate/bodies.py: graphs that operators of PyTorch run, as conditionals and loops do
import torch

from ..graph.symbols import Unsupported


def spread(module):
    """Tracing saw what a loop begins with, which may repeat one place of memory (an expanded gradient); later steps give tensors
    that do not. Has the graph take tensors without such strides."""
    inputs = [node.meta.get("val") for node in module.graph.find_nodes(op="placeholder")]
    if not any(map(_repeats, inputs)):
        return
    if any(node.meta.get("unbacked_bindings") for node in module.graph.nodes):
        raise Unsupported("a body whose argument repeats one place and whose sizes are data")
    fake = next(val.fake_mode for val in inputs if _repeats(val))
    with fake:
        _Again(module).run(*(torch.empty(v.shape, dtype=v.dtype, device=v.device) if _repeats(v) else v for v in inputs))


def _repeats(val) -> bool:
    return isinstance(val, torch.Tensor) and val.layout is torch.strided and any(
        type(stride) is int and stride == 0 and not (type(n) is int and n <= 1) for stride, n in zip(val.stride(), val.shape)
    )  # fmt: skip


class _Again(torch.fx.Interpreter):
    """Notes what each node gives."""

    def run_node(self, node):
        value = super().run_node(node)
        if "val" in node.meta:
            node.meta["val"] = value
        return value
