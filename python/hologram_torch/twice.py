# hologram_torch/twice.py: gradients of gradients through compiled functions, which AOTAutograd has not
"""Its functions know their gradients as graphs alone. What PyTorch's message leaves open, how to get there, is said here."""

import contextlib
import functools
import threading

_now = threading.local()
MESSAGE = (
    "hologram: torch.compile has no gradients of gradients through a compiled function (AOTAutograd's rule): compile the function that "
    "takes the gradient, torch.compile(torch.func.grad(f), backend=\"hologram\"), or call f itself where create_graph=True is given"
)


@contextlib.contextmanager
def explained():
    """Inside, AOTAutograd makes functions that refuse gradients of gradients with MESSAGE."""
    _watch()
    before, _now.ours = getattr(_now, "ours", False), True
    try:
        yield
    finally:
        _now.ours = before


@functools.cache
def _watch():
    from torch._functorch._aot_autograd import runtime_wrappers

    factory = getattr(runtime_wrappers, "_AOTDispatchAutogradFunctionFactory", None)
    if factory is None:  # another version of PyTorch
        return
    plain = factory.build

    @functools.wraps(plain)
    def build(self):
        made = plain(self)
        if getattr(_now, "ours", False) and hasattr(made, "_double_backward"):
            made._double_backward = staticmethod(functools.partial(_once, made._double_backward))
        return made

    factory.build = build


def _once(plain, *args):
    """What a backward returns whose results are to have gradients."""
    results = plain(*args)
    for result in results:
        node = getattr(result, "grad_fn", None)
        if node is not None:
            node.register_prehook(_refuse)
            break
    return results


def _refuse(gradients):
    raise RuntimeError(MESSAGE)
