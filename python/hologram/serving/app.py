# hologram/serving/app.py: the ASGI application
"""POST /predict, /predict/METHOD and /generate; GET /v1/models, /health, /health/live, /metrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Optional

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect

from hologram.archive import Archive, load
from hologram.serving import arrays as files
from hologram.serving import json_values
from hologram.serving.batching import Batcher, Full, Served
from hologram.serving.generating import FIELDS, METHODS, Generator, Wanted
from hologram.serving.metrics import Metrics
from hologram.serving.settings import Settings

JSON = "application/json"
ALOUD = 1 << 16  # bytes that take the event loop no longer than a thread would take to begin
MISTAKES = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)  # what requests and wrong arrays raise
GONE = 499  # nobody reads it: for the metrics


def make(model: Any, settings: Settings) -> FastAPI:
    """As hologram.serving.application."""
    service = Service(load(model, bfloat16="float32") if isinstance(model, (str, os.PathLike)) else model, settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    app = FastAPI(title="hologram serve", lifespan=lifespan)
    app.state.service = service

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        return await service.predict(request, None)

    @app.post("/predict/{method}")
    async def predict_method(request: Request, method: str) -> Response:
        return await service.predict(request, method)

    @app.post("/generate")
    async def generate(request: Request) -> Response:
        return await service.generate(request)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"models": [service.info()]}

    @app.get("/health")
    async def health() -> Response:
        return JSONResponse({"live": True, "ready": service.ready}, 200 if service.ready else 503)

    @app.get("/health/live")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return app


class Service:
    """An archive, and what becomes of requests for its methods. ready: new ones are welcome."""

    def __init__(self, archive: Archive, settings: Settings) -> None:
        self.archive, self.settings = archive, settings
        if settings.threads is not None:
            archive._runtime.num_threads = settings.threads
        self._served = {name: Served(method, settings.max_batch) for name, method in archive.methods.items()}
        self._main = "forward" if "forward" in self._served else next(iter(self._served)) if len(self._served) == 1 else None
        self._batcher = Batcher(settings, self._called)
        generates = all(name in archive.methods for name in METHODS)
        self._generator = Generator(archive, settings, self._generated) if generates else None
        self.metrics = Metrics(lambda: self._batcher.waiting() + (self._generator.waiting() if self._generator else 0))
        self.ready = False
        self._warm = asyncio.Event()
        self._warming: Optional[asyncio.Task[None]] = None

    def start(self) -> None:
        self._batcher.start()
        if self._generator is not None:
            self._generator.start()
        self._warming = asyncio.create_task(self._first_calls())

    async def stop(self) -> None:
        self.ready = False
        if self._warming is not None:
            self._warming.cancel()
        await self._batcher.stop()
        if self._generator is not None:
            await self._generator.stop()

    async def _first_calls(self) -> None:
        """Kernels and packed weights are there when the first request comes."""
        for served in self._served.values():
            await asyncio.to_thread(_first_call, served.method)
        if self._generator is not None:
            await asyncio.to_thread(self._generator.warm)
        self._warm.set()
        self.ready = True

    def _called(self, served: Served, requests: int, rows: int, seconds: float) -> None:
        name = served.method.name
        self.metrics.joined.labels(name).observe(requests)
        self.metrics.rows.labels(name).observe(rows)
        self.metrics.call_seconds.labels(name).observe(seconds)

    def _generated(self, requests: int, tokens: int, seconds: float) -> None:
        self.metrics.joined.labels("generate").observe(requests)
        self.metrics.tokens.inc(tokens)
        self.metrics.call_seconds.labels("generate").observe(seconds)

    def info(self) -> dict[str, Any]:
        """What is served, as plain data. batch: the size along which requests are joined, and how many rows a call may have."""
        methods = {}
        for name, served in self._served.items():
            m = served.method
            batch = {"size": served.axis, "rows": served.most, "padded": sorted(served.padded)} if served.most > 1 else None
            methods[name] = {"inputs": m.inputs, "results": m.results, "sizes": m.sizes, "batch": batch}
        told = {"path": self.archive.path, "fingerprint": self.archive.fingerprint, "methods": methods}
        return told if self._generator is None else {**told, "generate": {"rows": self._generator.batch, "fields": list(FIELDS)}}

    async def predict(self, request: Request, name: Optional[str]) -> Response:
        method = name or self._main or ""
        return await self._counted(method if method in self._served else "", self._predict(request, name))  # no label of a client's making

    async def generate(self, request: Request) -> Response:
        return await self._counted("generate", self._generate(request))

    async def _counted(self, method: str, answer: Any) -> Response:
        begin, status = time.perf_counter(), 500
        try:
            response: Response = await answer
            status = response.status_code
            return response
        except HTTPException as error:
            status = error.status_code
            raise
        finally:
            self.metrics.requests.labels(method, str(status)).inc()
            self.metrics.seconds.labels(method).observe(time.perf_counter() - begin)

    async def _predict(self, request: Request, name: Optional[str]) -> Response:
        served, end = self._chosen(name), time.monotonic() + self.settings.timeout
        kind, wanted = _kinds(request, served.method)
        body = await self._timed(self._body(request), end, 408, "the request's body did not come")
        if not self._warm.is_set():
            await self._timed(self._warm.wait(), end, 504, "the model is not ready")
        if served.method.has_state:
            raise HTTPException(422, f'"{served.method.name}" keeps state between calls, which a server has none for')
        with _mistakes():
            arrays = await _aside(len(body), self._read, served.method, kind, body)
        results = await self._answer(request, served, arrays, end)
        with _mistakes():
            text = await _aside(sum(r.nbytes for r in results), _written, served.method, results, wanted)
        return Response(text, media_type=wanted)

    async def _generate(self, request: Request) -> Response:
        end = time.monotonic() + self.settings.timeout
        if self._generator is None:
            text = f"expected an archive with the methods {', '.join(METHODS)}, as hologram_torch.export_generation writes it"
            raise HTTPException(404, text)
        body = await self._timed(self._body(request), end, 408, "the request's body did not come")
        if not self._warm.is_set():
            await self._timed(self._warm.wait(), end, 504, "the model is not ready")
        with _mistakes():
            given = json.loads(body)
            if not isinstance(given, dict) or not set(given) <= set(FIELDS) or "ids" not in given:
                raise ValueError(f"expected an object with ids, and of {', '.join(FIELDS[1:])}")
            wanted = Wanted(**given)
        tokens = self._generator.tokens(wanted)
        first = await self._answered(request, anext(tokens), end)  # what is wrong is said before an answer begins
        if wanted.stream:
            return StreamingResponse(self._lines(tokens, first, end), media_type="application/x-ndjson")

        async def rest() -> list[int]:
            return [first, *[token async for token in tokens]]

        return JSONResponse({"tokens": await self._answered(request, rest(), end)})

    async def _lines(self, tokens: Any, first: int, end: float) -> AsyncIterator[str]:
        """A line for each token; no more once the time is over."""
        async with contextlib.aclosing(tokens):
            yield f'{{"token":{first}}}\n'
            async for token in tokens:
                if time.monotonic() > end:
                    return
                yield f'{{"token":{token}}}\n'

    def _chosen(self, name: Optional[str]) -> Served:
        if name is None:
            name = self._main
        if name is None or name not in self._served:
            raise HTTPException(404, f"expected one of the methods {', '.join(self._served)}, got {name or 'none: POST /predict/METHOD'}")
        return self._served[name]

    def _read(self, method: Any, kind: str, body: bytes) -> list[Any]:
        if kind == JSON:
            return json_values.read(method, body)
        return files.read(method, body, kind, self.settings.max_body)

    async def _body(self, request: Request) -> bytes:
        limit, parts = self.settings.max_body, []
        size = int(request.headers.get("content-length", "0"))  # which uvicorn has looked at
        if size <= limit:
            size = 0
            try:
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > limit:
                        break
            except ClientDisconnect:
                raise HTTPException(GONE, "the client has gone") from None
        if size > limit:
            raise HTTPException(413, f"expected a body of at most {limit} bytes, got {size}")
        return b"".join(parts)

    async def _timed(self, work: Any, end: float, status: int, text: str) -> Any:
        try:
            return await asyncio.wait_for(work, max(0.0, end - time.monotonic()))
        except asyncio.TimeoutError:
            raise HTTPException(status, f"{text} within {self.settings.timeout:g} seconds") from None

    async def _answer(self, request: Request, served: Served, arrays: list[Any], end: float) -> list[Any]:
        """The results, or what became of the request; one that nobody waits for leaves the queue."""
        try:
            answer = self._batcher.submit(served, arrays)
        except Full as error:
            raise self._full(error) from None
        return await self._answered(request, answer, end)

    async def _answered(self, request: Request, work: Any, end: float) -> Any:
        """What the work gives, unless the client goes or the time is over: it is cancelled then."""
        answer, gone = asyncio.ensure_future(work), asyncio.create_task(_gone(request))
        try:
            first: set[asyncio.Future[Any]] = {answer, gone}
            await asyncio.wait(first, timeout=max(0.0, end - time.monotonic()), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                with _mistakes():
                    return answer.result()
            if gone.done():
                raise HTTPException(GONE, "the client has gone")
            raise HTTPException(504, f"no answer within {self.settings.timeout:g} seconds")
        except Full as error:
            raise self._full(error) from None
        finally:
            gone.cancel()
            answer.cancel()

    def _full(self, error: Full) -> HTTPException:
        text = f"{error}: expected at most {self.settings.queue}"
        return HTTPException(503, text, headers={"Retry-After": str(error.seconds)})


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _aside(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """In a thread where it takes long: the event loop goes on."""
    return function(*arguments) if size < ALOUD else await asyncio.to_thread(function, *arguments)


@contextlib.contextmanager
def _mistakes() -> Iterator[None]:
    """What a request gets wrong is status 422 and the reason."""
    try:
        yield
    except MISTAKES as error:
        raise HTTPException(422, f"{type(error).__name__}: {error}") from error


def _kinds(request: Request, method: Any) -> tuple[str, str]:
    """The forms of the request's arrays and of the answer's: as asked for, else as the request's."""
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    kind = {"application/zip": files.NPZ, files.NPZ: files.NPZ, files.NPY: files.NPY}.get(kind, JSON)
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    for form in accepted:
        if form in (JSON, files.NPY, files.NPZ):
            return kind, form
    return kind, JSON if kind == JSON else files.NPY if len(method.results) == 1 else files.NPZ


def _written(method: Any, results: list[Any], wanted: str) -> bytes:
    if wanted == JSON:
        return json.dumps(json_values.written(method, results), separators=(",", ":")).encode()
    return files.written(method, results, wanted)


def _first_call(method: Any) -> None:
    """With zeros of the least sizes, where such a call is possible."""
    least = {name: size[0] for name, size in method.sizes.items()}
    with contextlib.suppress(Exception):
        if not method.has_state:
            shapes = [[least.get(n, n) for n in i["shape"]] for i in method.inputs]
            dtypes = ["uint16" if i["dtype"] == "bfloat16" else i["dtype"] for i in method.inputs]
            method.flat([np.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes)])
