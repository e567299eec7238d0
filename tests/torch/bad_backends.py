# tests/torch/bad_backends.py: a backend that is wrong in known ways, to try the checks on
import os
import time

import torch
from torch._dynamo.backends.common import aot_autograd


def faulty_compiler(graph, example_inputs):
    """Eager execution, except: sin ends the process, cos never returns, exp is wrong, tan
    raises."""
    called = {getattr(node.target, "_opname", "") for node in graph.graph.nodes}
    if "sin" in called:
        os.abort()
    if "cos" in called:
        time.sleep(600)
    if "tan" in called:
        raise RuntimeError("tan is not supported")
    if "exp" in called:
        return lambda *args: [t * 1.01 if isinstance(t, torch.Tensor) else t for t in graph(*args)]
    return graph.forward


faulty = aot_autograd(fw_compiler=faulty_compiler)


def narrow_minded_compiler(graph, example_inputs):
    """Eager execution, except that exp is wrong for sizes other than those of the capture."""
    called = {getattr(node.target, "_opname", "") for node in graph.graph.nodes}
    hint = lambda n: n.node.hint if isinstance(n, torch.SymInt) else n
    captured = [[hint(n) for n in t.shape] for t in example_inputs if isinstance(t, torch.Tensor)]

    def run(*args):
        sizes = [list(t.shape) for t in args if isinstance(t, torch.Tensor)]
        wrong = "exp" in called and captured != sizes
        return [t * 1.01 if wrong else t for t in graph(*args)]

    return run


narrow_minded = aot_autograd(fw_compiler=narrow_minded_compiler)
