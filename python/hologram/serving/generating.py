# hologram/serving/generating.py: requests for tokens that wait become rows of one batch
"""An archive of `hologram_torch.export_generation` has a cache for so many rows. Requests that wait when a batch begins take a row each,
prompts filled up on the left; a row ends at its last token or when nobody waits for it, and the batch when none is left."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Optional

import numpy as np

from hologram import generation
from hologram.serving.batching import Full
from hologram.serving.settings import Settings

METHODS = ("prefill", "decode", "sample")
FIELDS = ("ids", "max_new_tokens", "do_sample", "temperature", "top_k", "top_p", "seed", "eos", "stream")


@dataclasses.dataclass(eq=False)
class Wanted:
    """One row: what a request asks for. Raises TypeError, ValueError for what no request may ask."""

    ids: Any
    max_new_tokens: int = 20
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: Optional[int] = None
    eos: Any = ()
    stream: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("max_new_tokens", int), ("top_k", int), ("do_sample", bool), ("stream", bool)):
            if type(getattr(self, name)) is not kind:
                raise TypeError(f"{name}: expected {kind.__name__}, got {getattr(self, name)!r}")
        if self.seed is not None and (type(self.seed) is not int or self.seed < 0):
            raise TypeError(f"seed: expected a whole number from 0 on, got {self.seed!r}")
        if not (isinstance(self.ids, list) and self.ids and all(type(n) is int and abs(n) < 1 << 63 for n in self.ids)):
            raise TypeError(f"ids: expected a list of tokens, got {str(self.ids)[:80]}")
        for name in ("temperature", "top_p"):
            if type(getattr(self, name)) not in (int, float):
                raise TypeError(f"{name}: expected a number, got {getattr(self, name)!r}")
            setattr(self, name, float(getattr(self, name)))
        self.ends = set(generation._integers("eos", [] if self.eos is None else self.eos))

    @property
    def how(self) -> tuple[Any, ...]:
        """Rows of a batch are chosen alike."""
        return (self.temperature, self.top_k, self.top_p) if self.do_sample else ()


class _Job:
    def __init__(self, wanted: Wanted, loop: asyncio.AbstractEventLoop) -> None:
        self.wanted, self.loop = wanted, loop
        self.made: asyncio.Queue[Any] = asyncio.Queue()  # tokens, then None or an exception
        self.gone = False
        self.random = np.random.default_rng(wanted.seed)

    def tell(self, value: Any) -> None:
        if not self.gone:
            self.loop.call_soon_threadsafe(self.made.put_nowait, value)


class Generator:
    """told(requests, tokens, seconds) hears of each batch."""

    def __init__(self, archive: Any, settings: Settings, told: Callable[[int, int, float], None]) -> None:
        self._steps: Any = generation._OfArchive(archive.session())
        self._settings, self._told = settings, told
        self._waiting: deque[_Job] = deque()
        self._more = asyncio.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "hologram-generate")
        self._task: Optional[asyncio.Task[None]] = None
        self.batch = self._steps.batch

    def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Ends once the batch that runs has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._pool.shutdown)

    def waiting(self) -> int:
        return len(self._waiting)

    def warm(self) -> None:
        ids = np.zeros((self.batch, 2), np.int64)
        self._steps.prefill(ids, np.zeros(self.batch, np.int64))
        self._steps.decode(ids[:, :1])

    async def tokens(self, wanted: Wanted) -> AsyncIterator[int]:
        """A request's tokens as they are made. Who stops asking leaves the batch. Raises Full, and what is wrong with the request."""
        w = wanted
        generation._check(_Alone(self._steps), np.zeros((1, len(w.ids))), w.max_new_tokens, w.temperature, w.top_k, w.top_p)
        if len(self._waiting) >= self._settings.queue:
            raise Full(1)
        job = _Job(wanted, asyncio.get_running_loop())
        self._waiting.append(job)
        self._more.set()
        try:
            while (token := await job.made.get()) is not None:
                if isinstance(token, Exception):
                    raise token
                yield token
        finally:
            job.gone = True
            if job in self._waiting:
                self._waiting.remove(job)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            jobs = self._mates()
            running = loop.run_in_executor(self._pool, self._run, jobs)
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                await running
                raise

    def _mates(self) -> list[_Job]:
        """The request that has waited longest and those that are chosen alike and fit into the cache with it, out of the queue."""
        jobs: list[_Job] = []
        for job in self._waiting:
            longest = max(len(j.wanted.ids) for j in [*jobs, job])
            count = max(j.wanted.max_new_tokens for j in [*jobs, job])
            if not jobs or job.wanted.how == jobs[0].wanted.how and max(longest, 2) + count - 1 <= self._steps.length:
                jobs.append(job)
            if len(jobs) == self.batch:
                break
        for job in jobs:
            self._waiting.remove(job)
        return jobs

    def _run(self, jobs: list[_Job]) -> None:
        begin = time.monotonic()
        rows = [jobs[i] if i < len(jobs) else jobs[0] for i in range(self.batch)]
        try:
            step = self._begun(rows)
        except Exception as error:  # of one of them: each gets a batch of its own
            for job in jobs if len(jobs) > 1 else ():
                self._run([job])
            if len(jobs) == 1:
                jobs[0].tell(error)
            return
        left = dict(enumerate(jobs))
        try:
            made = self._go_on(step, rows, left)
        except Exception as error:
            for job in left.values():
                job.tell(error)
            return
        self._told(len(jobs), made, time.monotonic() - begin)

    def _begun(self, rows: list[_Job]) -> Any:
        longest = max(len(job.wanted.ids) for job in rows)
        starts = np.array([longest - len(job.wanted.ids) for job in rows], np.int64)
        ids = np.array([[job.wanted.ids[0]] * start + job.wanted.ids for job, start in zip(rows, starts)], np.int64)
        return self._steps.prefill(ids, starts)

    def _go_on(self, step: Any, rows: list[_Job], left: dict[int, _Job]) -> int:
        """Steps until no row is left; how many tokens that made."""
        made = number = 0
        while True:
            tokens = self._chosen(step, rows)
            number += 1
            for row, job in list(left.items()):
                token = int(tokens[row, 0])
                job.tell(token)
                made += 1
                if number == job.wanted.max_new_tokens or token in job.wanted.ends:
                    job.tell(None)
                    del left[row]
                elif job.gone:
                    del left[row]
            if not left:
                return made
            step = self._steps.decode(tokens)

    def _chosen(self, step: Any, rows: list[_Job]) -> Any:
        wanted = rows[0].wanted
        if not wanted.do_sample:
            return step[1]
        numbers = {id(job): job.random.random(1, np.float32)[0] for job in dict.fromkeys(rows)}
        uniform = np.array([numbers[id(job)] for job in rows], np.float32)
        return self._steps.sample(step[0], *generation._choices(wanted.temperature, wanted.top_k, wanted.top_p), uniform)


class _Alone:
    """A cache for one row, for checks."""

    batch = 1

    def __init__(self, steps: Any) -> None:
        self.length = steps.length
