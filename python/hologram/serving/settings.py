# hologram/serving/settings.py: how an application serves
"""The limits within which requests are answered."""

from __future__ import annotations

import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Settings:
    """max_batch: rows of a call that joins requests (1: none are joined). max_wait_ms: how long a request waits for others although
    a call could begin. calls: how many run beside each other, each on `threads` threads (None: as HOLOGRAM_NUM_THREADS says).
    queue: requests that may wait; more are refused with status 503. timeout: seconds until a request is given up, with 504.
    max_body: bytes of a request, with 413.
    """

    max_batch: int = 32
    max_wait_ms: float = 0.0
    calls: int = 1
    threads: Optional[int] = None
    queue: int = 256
    timeout: float = 30.0
    max_body: int = 64 << 20

    def __post_init__(self) -> None:
        for name in ("max_batch", "calls", "threads", "queue", "max_body"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name}: expected a whole number from 1 on, got {value!r}")
        if not 0 <= self.max_wait_ms < float("inf"):
            raise ValueError(f"max_wait_ms: expected milliseconds from 0 on, got {self.max_wait_ms!r}")
        if not 0 < self.timeout < float("inf"):
            raise ValueError(f"timeout: expected seconds above 0, got {self.timeout!r}")
