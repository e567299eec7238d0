# hologram_torch/accelerator/lazily.py: operators of device="hologram" that wait until somebody looks, and then run as one graph
"""The native queue notes calls whose results' sizes are known and has them run before anything reads or writes memory that they
would; see python/_core/device_queue.h. Here is what runs them: one by one at first, as one graph once a sequence comes again. A
graph writes what somebody holds by then, and no more."""

import threading

import torch
from hologram import _core

from .. import functions, runtimes
from ..graph.symbols import Unsupported
from . import tensors

MET = 2  # so many times a sequence runs one by one before it is compiled
_LEFT = object()  # in place of a compiled graph: one by one for good
_KINDS = frozenset((torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool))
counts = {"runs": 0, "fused": 0, "compiled": 0}
_lock = threading.RLock()
_switches = threading.Lock()
_on = False


def open_queue():
    """Tells the queue whose memory its results lie in."""
    _core.open_device_queue(tensors.runtime(), flush)


def switch(on: bool) -> bool:
    """Whether calls may wait from now on; → whether they might before."""
    global _on
    with _switches:
        before, _on = _on, on
        _core.set_device_queue(on)
    if before and not on:
        flush()
    return before


def is_on() -> bool:
    return _on


def may_wait(flat) -> bool:
    """Whether a call with such arguments may: it has none for which an error would come late, as an index out of range, or an integer
    that divides."""
    return all(t.dtype in _KINDS and tensors.is_ours(t) for t in tensors.among(flat))


def flush():
    """Runs what waits, and waits for what other threads run."""
    with _lock:
        batch = _core.take_device_queue()
        try:
            if batch is not None and batch.must_run:
                _run(batch)
        finally:
            _core.device_queue_done()


def _run(batch):
    counts["runs"] += 1
    call = batch.call
    if call is None and batch.met() > MET:
        call = _aside(lambda: functions.attempt(lambda: _compile(batch), "calls on device hologram")[0]) or _LEFT
        batch.keep(call)
    if call is None or call is _LEFT:
        _aside(lambda: _one_by_one(batch))
    else:
        counts["fused"] += 1
        call(batch.arguments())


def _aside(work):
    """work() by a thread of its own, as the state of this one says below which of PyTorch's layers somebody looks."""
    found, failed = [], []

    def run():
        _core.set_device_queue_helper(threading.get_ident())
        try:
            with torch.no_grad():
                found.append(work())
        except BaseException as error:
            failed.append(error)
        finally:
            _core.set_device_queue_helper(0)

    thread = threading.Thread(target=run, name="hologram-device")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


class _Values:
    """The values of a batch: those given; then each step's."""

    def __init__(self, batch):
        self.kinds, self.written = zip(*batch.values())
        self.steps = batch.steps()
        self.given = [i for i, kind in enumerate(self.kinds) if kind in ("given", "number")]
        self.made = [i for i, kind in enumerate(self.kinds) if kind in ("made", "view")]
        self.held = [i for i, kind in enumerate(self.kinds) if kind == "made" and self.written[i]]

    def run(self, given, step):
        """→ all values; step(call, operands) gives the results of a call."""
        values = [None] * len(self.kinds)
        for i, value in zip(self.given, given, strict=True):
            values[i] = value
        places = iter(self.made)
        for call, slots, *view in self.steps:
            operands = [values[i] for i in slots]
            for value in [_view(*operands, *view)] if call is None else step(call, operands):
                values[next(places)] = value
        return values


def _view(base, sizes, strides, offset):
    """Of a base whose elements lie one behind the other."""
    if not base.is_contiguous():
        raise Unsupported("a view of what does not lie as it did")
    order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis))
    dense = [sizes[axis] for axis in order]
    step = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != step or sizes[axis] == 0:
            return torch.as_strided(base, sizes, strides, base.storage_offset() + offset)
        step *= sizes[axis]
    if step != base.numel():
        return torch.as_strided(base, sizes, strides, base.storage_offset() + offset)
    whole = base.view(dense)
    return whole if order == list(range(len(order))) else whole.permute([order.index(axis) for axis in range(len(order))])


def _one_by_one(batch):
    values = _Values(batch)
    given = batch.arguments()
    done = values.run(given[: len(values.given)], lambda call, operands: call.call(operands))
    for i, target in zip(values.held, given[len(values.given) :], strict=True):
        tensors.on_host(target).copy_(tensors.on_host(done[i]))


def _compile(batch):
    """A callable over the arguments of the batch, or of another one of the same calls of which the same results are held."""
    values = _Values(batch)
    count = len(values.given)

    def function(*arguments):
        given, targets = arguments[:count], arguments[count:]
        work = [t.clone() if values.written[i] else t for i, t in zip(values.given, given)]
        done = values.run(work, lambda call, operands: call.flat(*operands))
        for i, target in zip(values.held, targets, strict=True):
            target.copy_(done[i])
        for i, target, value in zip(values.given, given, work):
            if values.written[i]:
                target.copy_(value)
        return ()

    examples = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in batch.arguments()]
    with runtimes.giving("hologram:0"):
        made = functions.Fixed(function, examples, "calls").call
    counts["compiled"] += 1
    return made
