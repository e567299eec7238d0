# hologram/serving/metrics.py: what an application counts, in Prometheus' text form
"""A registry for each application: several may live in a process."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """waiting: how many requests wait now."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter("hologram_requests", "Requests by method and status of the answer", ["method", "status"], registry=registry)
        self.seconds = Histogram(
            "hologram_request_seconds", "From a request's head to its answer", ["method"], buckets=SECONDS, registry=registry
        )
        self.call_seconds = Histogram("hologram_call_seconds", "Calls of the model", ["method"], buckets=SECONDS, registry=registry)
        self.joined = Histogram("hologram_batch_requests", "Requests of a call", ["method"], buckets=SIZES, registry=registry)
        self.rows = Histogram("hologram_batch_rows", "Rows of a call", ["method"], buckets=SIZES, registry=registry)
        self.tokens = Counter("hologram_tokens", "Tokens that were generated", registry=registry)
        Gauge("hologram_queue_length", "Requests that wait for a call", registry=registry).set_function(waiting)

    def text(self) -> bytes:
        return generate_latest(self._registry)
