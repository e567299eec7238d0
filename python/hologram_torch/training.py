# hologram_torch/training.py: forward, backward and an optimizer's step as one compiled graph
import inspect

import numpy as np
import torch

from .backend import hologram


def training_step(loss, optimizer, *, accumulate=1, **options):
    """A function of one batch that runs `loss(*batch)`, its gradients and `optimizer.step()` as one graph and returns the loss, detached.

    loss: gives a scalar tensor that every parameter of the optimizer takes part in. accumulate: update in every so many calls; those
    before it add their gradients. options: as torch.compile's (dynamic, mode, options).

    Gradients stay in `.grad` until the next call, in the same memory, which the first call of a round overwrites, so `zero_grad()` is
    not needed and does no harm. Until that call writes them it keeps intermediates there; one that fails leaves what it had. Where an
    optimizer has step hooks, or PyTorch cannot trace gradients (before 2.11), loss, backward pass and step are graphs of their own.
    Other than with `optimizer.step()`, a closure is not possible.
    """
    if accumulate < 1:
        raise ValueError(f"training_step: accumulate must be at least 1, got {accumulate}")
    return _Step(loss, optimizer, accumulate, options)


class _Step:
    def __init__(self, loss, optimizer, accumulate, options):
        self.loss, self.optimizer, self.accumulate = loss, optimizer, accumulate
        self._taken = 0  # calls of this round
        self._parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        self._gradients = None
        options = {"backend": "hologram", **options}
        if _traceable(optimizer):
            if options["backend"] == "hologram":
                options["backend"] = _whole
            update = inspect.unwrap(type(optimizer).step)  # without what breaks graphs around it
            self._calls = {
                (first, last): torch.compile(self._whole(first, update if last else None), fullgraph=True, **options)
                for first in (False, True)
                for last in (False, True)
            }
        else:
            self._calls = None
            self._loss, self._update = (torch.compile(f, **options) for f in (loss, optimizer.step))

    def __call__(self, *batch):
        first, self._taken = self._taken == 0, self._taken + 1
        last = self._taken == self.accumulate
        self._taken = 0 if last else self._taken
        return self._one(batch, first, last) if self._calls else self._several(batch, first, last)

    def _one(self, batch, first, last):
        if self._gradients is None:
            self._gradients = _side_by_side(self._parameters)
        for p, gradient in zip(self._parameters, self._gradients):
            if p.grad is not gradient:  # set to None, say
                p.grad = gradient
        if last:
            self.optimizer._opt_called = True  # which schedules look at
        config = torch._dynamo.config
        before, config.trace_autograd_ops = config.trace_autograd_ops, True  # calls may compile
        try:
            return self._calls[first, last](*batch)
        finally:
            config.trace_autograd_ops = before

    def _whole(self, first, update):
        loss, optimizer, parameters = self.loss, self.optimizer, self._parameters

        def step(*batch):
            value = loss(*batch)
            found = torch.autograd.grad(value, parameters)
            with torch.no_grad():
                for p, gradient in zip(parameters, found):
                    p.grad.copy_(gradient) if first else p.grad.add_(gradient)
                if update is not None:
                    update(optimizer)
            return value.detach()

        return step

    def _several(self, batch, first, last):
        if first:
            self.optimizer.zero_grad()
        value = self._loss(*batch)
        value.backward()
        if last:
            self._update()
        return value.detach()


def _whole(gm, example_inputs, *, options=None, **how):
    """The backend, told that its graph is a whole step."""
    return hologram(gm, example_inputs, options={"recompute": True, **(options or {})}, **how)


_whole._dynamo_backend_init = hologram._dynamo_backend_init


def _side_by_side(parameters) -> list:
    """The parameters' gradients; those that are None yet are made of one block of memory, where a call may keep what is larger than
    any one of them until it writes them."""
    found = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
    new = [i for i, p in enumerate(parameters) if p.grad is None and found[i].numel() and _plain(found[i])]
    sizes = {i: found[i].numel() * found[i].element_size() for i in new}
    block = np.zeros(sum(-(-size // _LINE) * _LINE for size in sizes.values()) + _LINE, np.uint8)
    at = -block.ctypes.data % _LINE
    for i in sorted(new, key=lambda i: sizes[i] % _LINE != 0):  # without a gap first
        whole = torch.frombuffer(block, dtype=found[i].dtype, count=found[i].numel(), offset=at)
        found[i] = found[i].new_empty(0).set_(whole.untyped_storage(), 0, found[i].shape, found[i].stride())
        at += -(-sizes[i] // _LINE) * _LINE
    return found


def _plain(tensor) -> bool:
    return type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout == torch.strided


_LINE = 64  # bytes to whose multiples intermediates are aligned


def _traceable(optimizer) -> bool:
    hooks = any(getattr(optimizer, f"_optimizer_step_{when}_hooks", None) for when in ("pre", "post"))
    return not hooks and hasattr(torch._dynamo.config, "trace_autograd_ops")
