# hologram/serving/batching.py: requests that wait become one call
"""Requests are joined along the first axis where that is one open size of every input and result, and where it gives the very
answers that calls of their own give. That is looked at, not taken for granted (a sequence's first axis is open too): the first
CHECKED joined calls of a method and every EVERY-th one are computed one by one as well, those answers are the ones that count, and
where they are others nothing is joined from then on. Requests of other sizes wait for another call, unless the archive says with
what inputs may be padded along them (export's `padding`): then sizes between the same powers of two are joined, and results are cut
to each request's own; such answers may differ by rounding, and where they differ by more nothing is padded from then on.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import logging
import re
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Optional, Union

import numpy as np

from hologram.serving.json_values import array
from hologram.serving.settings import Settings

CHECKED, EVERY = 8, 1000
CLOSE = 1e-4  # of a result's largest element: what rounding may do
Answer = Union[list[Any], Exception]
_log = logging.getLogger(__name__)


class Full(Exception):
    """As many requests wait as may. seconds: when to try again."""

    def __init__(self, seconds: int) -> None:
        super().__init__("too many requests wait")
        self.seconds = seconds


class Served:
    """A method, and whether its requests may be joined."""

    def __init__(self, method: Any, max_batch: int = 1) -> None:
        self.method = method
        self.axis = joined_size(method)
        self.most = min(max_batch, method.sizes[self.axis][1]) if self.axis else 1
        self.padded = padded_sizes(method) - {self.axis}
        pads = method.padding if self.padded else {}
        self._pads = {i["name"]: array(i["name"], pads[i["name"]], i["dtype"]) for i in method.inputs if i["name"] in pads}
        self._calls = {False: 0, True: 0}  # that were joined, without and with padding

    def kind(self, arrays: list[Any]) -> Optional[tuple[Any, ...]]:
        """Requests with equal kinds may be joined; None: this one may not, or is wrong."""
        if self.most < 2 or len({a.shape[:1] for a in arrays}) != 1 or not arrays[0].ndim or not 0 < len(arrays[0]) < self.most:
            return None
        shapes = [i["shape"] for i in self.method.inputs]
        if any(len(shape) != a.ndim for shape, a in zip(shapes, arrays)):
            return None
        found = {(e, n) for shape, a in zip(shapes, arrays) for e, n in zip(shape, a.shape) if e in self.padded}
        if len(found) != len(dict(found)):
            return None  # inputs that do not agree: padding would hide it
        sizes = ([n.bit_length() if e in self.padded else -n for e, n in zip(shape[1:], a.shape[1:])] for shape, a in zip(shapes, arrays))
        return (self, *((a.dtype, *size) for a, size in zip(arrays, sizes)))

    def run(self, requests: list[list[Any]]) -> list[Answer]:
        """What a call of its own gives each."""
        if len(requests) == 1:
            return [self._alone(requests[0])]
        own = [self._sizes(arrays) for arrays in requests]
        whole = {name: max(sizes[name] for sizes in own) for name in own[0]}
        pads = any(sizes != whole for sizes in own)
        try:
            given = [self._filled(arrays, whole) for arrays in requests] if pads else requests
            results = self.method.flat([np.concatenate(parts) for parts in zip(*given)])
        except Exception:  # of one of them: each gets its own
            return [self._alone(arrays) for arrays in requests]
        ends = np.cumsum([len(arrays[0]) for arrays in requests])[:-1]
        parted = zip(*(np.split(r, ends) for r in results))
        answers: list[Answer] = [self._cut(parts, sizes) if pads else list(parts) for parts, sizes in zip(parted, own)]
        self._calls[pads] += 1
        checks = self._calls[pads] <= CHECKED or self._calls[pads] % EVERY == 0
        return self._checked(requests, answers, pads) if checks else answers

    def _sizes(self, arrays: list[Any]) -> dict[str, int]:
        """What a request's padded sizes are."""
        axes = zip(self.method.inputs, arrays)
        return {e: n for i, a in axes for e, n in zip(i["shape"], a.shape) if e in self.padded}

    def _filled(self, arrays: list[Any], whole: dict[str, int]) -> list[Any]:
        filled = []
        for i, a in zip(self.method.inputs, arrays):
            widths = [(0, whole.get(e, n) - n) for e, n in zip(i["shape"], a.shape)]
            filled.append(np.pad(a, widths, constant_values=self._pads[i["name"]]) if any(w for _, w in widths) else a)
        return filled

    def _cut(self, parts: Any, sizes: dict[str, int]) -> list[Any]:
        shapes = (r["shape"] for r in self.method.results)
        return [part[tuple(slice(sizes.get(e)) for e in shape)] for shape, part in zip(shapes, parts)]

    def _alone(self, arrays: list[Any]) -> Answer:
        try:
            return list(self.method.flat(arrays))
        except Exception as error:
            return error

    def _checked(self, requests: list[list[Any]], joined: list[Answer], pads: bool) -> list[Answer]:
        alone = [self._alone(arrays) for arrays in requests]
        if not all(_same(a, b, CLOSE if pads else 0.0) for a, b in zip(alone, joined)):
            if pads:
                self.padded = set()
                _log.warning("%s: results depend on what inputs are padded with: nothing is padded any more", self.method.name)
            else:
                self.most = 1
                _log.warning("%s: rows of one call depend on each other: requests are no longer joined", self.method.name)
        return alone


def joined_size(method: Any) -> Optional[str]:
    """The open size that is the first axis of every input and result, and no part of another one."""
    shapes = [described["shape"] for described in [*method.inputs, *method.results]]
    first = {shape[0] if shape else None for shape in shapes}
    if not method.inputs or len(first) != 1 or (name := first.pop()) not in method.sizes:
        return None
    rest = (str(n) for shape in shapes for n in shape[1:])
    return name if not any(name in re.findall(r"\w+", text) for text in rest) else None


def padded_sizes(method: Any) -> set[str]:
    """The open sizes along which each input that has them may be padded, and results be cut."""
    found = set(method.sizes) if method.padding else set()
    for described in [*method.inputs, *method.results]:
        fixed = any(described is i for i in method.inputs) and described["name"] not in method.padding
        for entry in map(str, described["shape"]):
            found -= {name for name in re.findall(r"\w+", entry) if fixed or name != entry}
    return found


def _same(alone: Answer, joined: Answer, tolerance: float) -> bool:
    if isinstance(alone, Exception) or isinstance(joined, Exception):
        return False
    return all(_close(a, b, tolerance) for a, b in zip(alone, joined))


def _close(a: Any, b: Any, tolerance: float) -> bool:
    if a.dtype.kind not in "fc":
        return np.array_equal(a, b)
    if not tolerance or a.shape != b.shape:
        return np.array_equal(a, b, equal_nan=True)
    return np.allclose(a, b, rtol=0, atol=tolerance * np.max(np.abs(a), initial=0, where=np.isfinite(a)), equal_nan=True)


@dataclasses.dataclass(eq=False)
class _Job:
    served: Served
    arrays: list[Any]
    kind: Optional[tuple[Any, ...]]
    rows: int
    arrived: float
    answer: asyncio.Future[list[Any]]


class Batcher:
    """The requests that wait, and the calls that answer them. told(served, jobs, rows, seconds) hears of each call."""

    def __init__(self, settings: Settings, told: Callable[[Served, int, int, float], None]) -> None:
        self._settings, self._told = settings, told
        self._waiting: deque[_Job] = deque()
        self._more = asyncio.Event()
        self._gathering = asyncio.Lock()
        self._pool = concurrent.futures.ThreadPoolExecutor(settings.calls, "hologram-call")
        self._tasks: list[asyncio.Task[None]] = []
        self._second = 0.0  # seconds between answers, smoothed

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._settings.calls)]

    async def stop(self) -> None:
        """Ends once calls that run have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.shutdown()

    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, served: Served, arrays: list[Any]) -> asyncio.Future[list[Any]]:
        """The results to come. Cancelling takes the request out of the queue, or drops its results. Raises Full."""
        if len(self._waiting) >= self._settings.queue:
            raise Full(max(1, round(self._second * len(self._waiting))))
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        rows = len(arrays[0]) if served.axis and arrays[0].ndim else 1
        job = _Job(served, arrays, served.kind(arrays), rows, time.monotonic(), answer)
        self._waiting.append(job)
        answer.add_done_callback(lambda _: self._forget(job))
        self._more.set()
        return answer

    def _forget(self, job: _Job) -> None:
        if job.answer.cancelled() and job in self._waiting:
            self._waiting.remove(job)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            async with self._gathering:
                jobs = await self._next()
            served, begin = jobs[0].served, time.monotonic()
            try:
                answers = await loop.run_in_executor(self._pool, served.run, [job.arrays for job in jobs])
            except asyncio.CancelledError:
                for job in jobs:
                    job.answer.cancel()
                raise
            took = time.monotonic() - begin
            self._second += 0.1 * (took / len(jobs) / self._settings.calls - self._second)
            self._told(served, len(jobs), sum(job.rows for job in jobs), took)
            for job, answer in zip(jobs, answers):
                if job.answer.done():
                    continue  # nobody waits for it any more
                if isinstance(answer, Exception):
                    job.answer.set_exception(answer)
                else:
                    job.answer.set_result(answer)

    async def _next(self) -> list[_Job]:
        """The request that has waited longest, and those that join it."""
        while not self._waiting:
            self._more.clear()
            await self._more.wait()
        while True:
            first = self._waiting[0]
            jobs, whole = self._mates(first)
            left = first.arrived + self._settings.max_wait_ms / 1e3 - time.monotonic()
            if whole or left <= 0:
                break
            self._more.clear()
            try:
                await asyncio.wait_for(self._more.wait(), left)
            except asyncio.TimeoutError:
                pass
            if not self._waiting:
                return await self._next()
        for job in jobs:
            self._waiting.remove(job)
        return jobs

    def _mates(self, first: _Job) -> tuple[list[_Job], bool]:
        """Requests of one call, and whether no other could join them."""
        if first.kind is None or first.served.most < 2:
            return [first], True
        jobs: list[_Job] = []
        rows = 0
        for job in self._waiting:
            if job.kind == first.kind:
                if rows + job.rows > first.served.most:
                    return jobs, True
                jobs.append(job)
                rows += job.rows
        return jobs, rows >= first.served.most
