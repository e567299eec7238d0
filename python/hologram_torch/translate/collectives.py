# hologram_torch/translate/collectives.py: operators that go on until their wait_tensor
"""A functional collective (_c10d_functional) reads its operands and writes its results until wait_tensor returns. The call
that waits has the operands of the one that began among its own, so that nothing takes or overwrites their memory before."""

import torch

from ..graph.symbols import Unsupported
from .host import HostCall

ANY, EARLY, LATE = range(3)
"""When the plan runs a host call (host_call's attribute `timing`)."""

_SPACES = ("_c10d_functional", "_c10d_functional_autograd")
_POINT_TO_POINT = ("isend", "irecv", "batch_p2p_ops")  # some of these write into their operands


class Collective(HostCall):
    """Begins a collective."""

    counted = False
    awaited = False  # in this graph; otherwise it gets operands of its own

    def prepare(self, operands, sizes):
        super().prepare(operands, sizes)
        if not self.awaited:
            operands[:] = [x.clone() if isinstance(x, torch.Tensor) else x for x in operands]


class Wait(HostCall):
    """Waits for collectives; results are its leading operands, complete."""

    counted = False
    own = False  # whether these began in this graph, so that nobody else holds them

    def foreign(self, operands):
        return () if self.own else super().foreign(operands)


def kind_of(target):
    """The HostCall class of an operator, and when it runs. Raises Unsupported for what has no wait to rely on."""
    space, _, name = getattr(target, "_name", "").partition("::")
    if space not in _SPACES:
        return HostCall, ANY
    if name in _POINT_TO_POINT:
        raise Unsupported(f"operator {target}")
    return (Wait, LATE) if name.startswith("wait_tensor") else (Collective, EARLY)


class Pending:
    """The collectives of one graph that have begun."""

    def __init__(self):
        self._begun = {}  # id of a result -> (call, its operands)

    def begin(self, call, operands, results):
        for value in results:
            self._begun[value.id] = call, list(operands)

    def refuse(self, values):
        """Raises Unsupported where one of the values may not be complete."""
        if any(getattr(v, "id", None) in self._begun for v in values):
            raise Unsupported("an operator that reads what a collective has only begun to write")

    def wait(self, call, operands) -> list:
        """What else must live until the call that waits for `operands` has run."""
        kept = []
        call.own = all(v.id in self._begun for v in operands)
        for value in operands:
            if value.id in self._begun:
                begun, held = self._begun[value.id]
                begun.awaited = True
                kept += held
        return kept
