# tests/python/test_serve.py: hologram serve: what is joined, limits, faults, the end
import asyncio
import concurrent.futures
import contextlib
import dataclasses
import importlib.util
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest
from checks import load, refuses

import hologram
from hologram.serving import Settings, application, arrays, batching

MODEL = Path(__file__).resolve().parents[2] / "examples" / "model.holo"  # relu(x @ a 2 x 2 matrix + a bias)
EXPECTED = hologram.load(MODEL)
needs_extra = pytest.mark.skipif(
    any(not importlib.util.find_spec(name) for name in ("fastapi", "uvicorn", "prometheus_client", "httpx")),
    reason="needs the extra serve",
)


def method(flat, inputs=(("rows", 2),), results=(("rows", 2),), sizes=None, padding=None):
    """Stands for an archive's method."""
    described = [[{"name": f"{kind}{i}", "dtype": "float32", "shape": s} for i, s in enumerate(shapes)]
                 for kind, shapes in (("x", inputs), ("result", results))]  # fmt: skip
    sizes = {"rows": (1, 64)} if sizes is None else sizes
    return types.SimpleNamespace(
        name="forward", inputs=described[0], results=described[1], sizes=sizes, flat=flat, has_state=False, padding=padding or {}
    )


@pytest.mark.parametrize("inputs, results, sizes, expected", [
    ([("rows", 2)], [("rows", 3)], {"rows": (1, 8)}, "rows"),
    ([("rows", 2), ("rows",)], [("rows", "length")], {"rows": (1, 8), "length": (1, 9)}, "rows"),
    ([("rows", 2), (2, "rows")], [("rows", 3)], {"rows": (1, 8)}, None),
    ([("rows", 2)], [("rows", 3), ()], {"rows": (1, 8)}, None),
    ([("rows", "rows")], [("rows", 3)], {"rows": (1, 8)}, None),
    ([("rows", 2)], [("rows", "2*rows + 1")], {"rows": (1, 8)}, None),
    ([("rows", 2)], [("2*rows", 2)], {"rows": (1, 8)}, None),
    ([(4, 2)], [(4, 2)], {}, None),
    ([], [("rows",)], {"rows": (1, 8)}, None),
])  # fmt: skip
def test_which_size_is_joined(inputs, results, sizes, expected):
    assert batching.joined_size(method(None, inputs, results, sizes)) == expected


def batched(calls, flat, cancelled=(), described=None, **settings):
    """The answers to `calls` (arrays of one input), all waiting when the first call begins, and how many requests each call had."""
    sizes = []

    async def run():
        batcher = batching.Batcher(Settings(**settings), lambda served, requests, rows, seconds: sizes.append(requests))
        served = batching.Served(method(flat, **described or {}), settings.get("max_batch", 32))
        answers = [batcher.submit(served, x if isinstance(x, list) else [x]) for x in calls]
        for number in cancelled:
            answers[number].cancel()
        await asyncio.sleep(0)
        assert batcher.waiting() == len(calls) - len(cancelled)
        batcher.start()
        results = await asyncio.gather(*answers, return_exceptions=True)
        await batcher.stop()
        return results, served

    results, served = asyncio.run(run())
    return results, sizes, served


def rows(*counts):
    return [np.full((n, 2), i + 1, np.float32) for i, n in enumerate(counts)]


def test_requests_join_and_part():
    xs = rows(1, 2, 3, 1, 9, 1)
    results, sizes, _ = batched(xs, lambda arrays: [2 * arrays[0]], max_batch=6)
    assert sizes == [3, 2, 1]  # 1 + 2 + 3 rows; what is larger than a call may be goes alone
    for x, (result,) in zip(xs, results, strict=True):
        np.testing.assert_array_equal(result, 2 * x)


def test_other_sizes_wait_for_another_call():
    xs = [np.ones((1, width), np.float32) for width in (2, 3, 2, 3)]
    results, sizes, _ = batched(xs, lambda arrays: [arrays[0] + 1])
    assert sizes == [2, 2] and [r[0].shape for r in results] == [x.shape for x in xs]


def test_a_wrong_request_is_wrong_alone():
    def flat(arrays):
        if (arrays[0] == 2).any():
            raise IndexError("index 2")
        return [arrays[0]]

    results, sizes, served = batched(rows(1, 1, 1), flat)
    assert sizes == [3] and served.most > 1 and isinstance(results[1], IndexError)
    assert results[0][0][0, 0] == 1 and results[2][0][0, 0] == 3


def test_rows_that_depend_on_each_other_are_not_joined(caplog):
    xs = rows(1, 1, 2)
    results, _, served = batched(xs, lambda arrays: [arrays[0] - arrays[0].mean(0)])
    assert served.most == 1 and "depend on each other" in caplog.text
    for result, x in zip(results, xs, strict=True):
        np.testing.assert_array_equal(result[0], x - x.mean(0))


TOKENS = {"inputs": [("rows", "length"), ("rows", "length")], "results": [("rows", "length"), ("rows",)],
          "sizes": {"rows": (1, 64), "length": (1, 64)}, "padding": {"x0": 0, "x1": 0}}  # fmt: skip


@pytest.mark.parametrize("change, expected", [
    ({}, {"length"}),
    ({"padding": {"x0": 0}}, set()),
    ({"padding": {}}, set()),
    ({"results": [("rows", "2*length")]}, set()),
    ({"inputs": [("rows", "length"), ("rows", "width")], "sizes": {"rows": (1, 9), "length": (1, 9), "width": (1, 9)},
      "padding": {"x1": 1}}, {"width"}),
])  # fmt: skip
def test_which_sizes_are_padded(change, expected):
    assert batching.padded_sizes(method(None, **TOKENS | change)) - {"rows"} == expected


def test_other_sizes_join_where_the_archive_says_how_to_pad(caplog):
    def means(given):  # of the tokens that the mask keeps
        x, mask = given
        seen.append(x.shape)
        return [x + 1, (x * mask).sum(1) / mask.sum(1)]

    seen, lengths = [], (5, 7, 4, 2, 9)
    xs = [[np.full((1, n), n, np.float32), np.ones((1, n), np.float32)] for n in lengths]
    results, sizes, served = batched(xs, means, described=TOKENS)
    assert sizes == [3, 1, 1] and seen[0] == (3, 7)  # 4 to 7, 2 to 3, 8 to 15
    for (x, _), (shifted, mean) in zip(xs, results, strict=True):
        np.testing.assert_array_equal(shifted, x + 1)
        np.testing.assert_allclose(mean, x[:, 0])
    wrong = [np.ones((1, 6), np.float32), np.ones((1, 5), np.float32)]
    assert served.kind(xs[0]) is not None and served.kind(wrong) is None, "padding would hide it"
    results, _, served = batched(xs, lambda given: [given[0], given[0].mean(1)], described=TOKENS)
    assert served.padded == set() and served.most > 1 and "depend on what inputs are padded with" in caplog.text
    for (x, _), (_, mean) in zip(xs, results, strict=True):
        np.testing.assert_array_equal(mean, x.mean(1))


def test_cancelled_requests_leave_the_batch():
    seen = []
    results, sizes, _ = batched(rows(1, 1, 1), lambda arrays: [seen.append(arrays[0][:, 0].tolist()) or arrays[0]], cancelled=(1,))
    assert sizes == [2] and isinstance(results[1], asyncio.CancelledError) and seen[0] == [1, 3]


def test_waiting_for_others():
    """A lone request waits max_wait_ms, a full batch does not."""
    for count, least, most in ((1, 0.05, 10), (4, 0, 10)):
        begin = time.monotonic()
        batched(rows(*[1] * count), lambda arrays: [arrays[0]], max_batch=4, max_wait_ms=60 if count == 1 else 60_000)
        assert least <= time.monotonic() - begin <= most


@pytest.mark.parametrize("settings, words", [
    ({"max_batch": 0}, "max_batch: expected a whole number from 1 on, got 0"),
    ({"queue": 2.5}, "queue: expected a whole number"),
    ({"timeout": 0}, "timeout: expected seconds above 0, got 0"),
    ({"max_wait_ms": -1}, "max_wait_ms: expected milliseconds from 0 on, got -1"),
])  # fmt: skip
def test_settings(settings, words):
    refuses(ValueError, words, lambda: application(MODEL, **settings))


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "hologram.serving.app", raising=False)
    refuses(ImportError, r"package fastapi, .*hologram-compute\[serve\]", lambda: application(MODEL))


def saved(save, *args, **named):
    stream = io.BytesIO()
    save(stream, *args, **named)
    return stream.getvalue()


def test_files_of_numpy_that_are_wrong():
    two = method(None, [("rows", 2), ("rows",)], [("rows",)])
    x = np.float32([[1, 2]])
    for m, body, kind, words in [
        (method(None), b"no file", arrays.NPY, "x0: expected a .npy file"),
        (method(None), saved(np.save, x)[:-1], arrays.NPY, "x0: expected 8 bytes for float32\\[1, 2\\], got 7"),
        (method(None), saved(np.save, np.array([None])), arrays.NPY, "x0: expected numbers, got an array of object"),
        (two, saved(np.save, x), arrays.NPY, "expected a .npz file with x0, x1, got a .npy file"),
        (two, saved(np.savez, x0=x), arrays.NPZ, "expected a .npz file with x0, x1, got x0"),
        (two, saved(np.savez, x0=x, x1=x)[:-30], arrays.NPZ, "expected a .npz file with x0, x1: "),
        (two, saved(np.savez_compressed, x0=x, x1=np.zeros(10**5)), arrays.NPZ, "expected at most 5000 bytes in the .npz file, got 8"),
    ]:  # fmt: skip
        refuses(ValueError, words, lambda: arrays.read(m, body, kind, 5000))
    x = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))
    np.testing.assert_array_equal(arrays.read(method(None), saved(np.save, x), arrays.NPY, 5000)[0], x)


@contextlib.contextmanager
def serving(flat=None, **settings):
    """An HTTP client of an application in this process; flat stands for the model."""
    import httpx
    import uvicorn

    app = application(MODEL, **settings)
    served = app.state.service._served["forward"]
    if flat is not None:
        served.method = method(flat)
        served.method.inputs[0]["name"] = "input"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
                while client.get("/health").status_code != 200:
                    time.sleep(0.01)
                client.service = app.state.service
                yield client
        finally:
            server.should_exit = True
            thread.join()


def until(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def sample(client, name):
    """The value of a line of /metrics."""
    lines = [line for line in client.get("/metrics").text.splitlines() if line.startswith(name)]
    assert len(lines) <= 1, lines
    return float(lines[0].split()[-1]) if lines else 0.0


ONE = {"input": [[1, 2]]}


@needs_extra
def test_limits():
    gate, calls = threading.Event(), []
    gate.set()

    def flat(given):
        calls.append(len(given[0]))
        assert gate.wait(30)
        return given

    with serving(flat, queue=2, max_body=1000) as client, concurrent.futures.ThreadPoolExecutor(8) as threads:
        gate.clear()
        calls.clear()
        running = threads.submit(client.post, "/predict", json=ONE)
        until(lambda: calls)
        waiting = threads.submit(client.post, "/predict", json=ONE)
        until(lambda: sample(client, "hologram_queue_length") == 1)
        gone = socket.create_connection((client.base_url.host, client.base_url.port))
        body = json.dumps(ONE).encode()
        gone.sendall(b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        until(lambda: sample(client, "hologram_queue_length") == 2)
        refused = client.post("/predict", json=ONE)
        assert refused.status_code == 503 and int(refused.headers["retry-after"]) >= 1 and "at most 2" in refused.text
        gone.close()  # its request leaves the queue
        until(lambda: sample(client, "hologram_queue_length") == 1)
        patient, client.service.settings = client.service.settings, dataclasses.replace(client.service.settings, timeout=0.3)
        assert client.post("/predict", json=ONE).status_code == 504  # in the queue
        until(lambda: sample(client, "hologram_queue_length") == 1)
        gate.set()
        assert waiting.result().status_code == running.result().status_code == 200
        gate.clear()
        assert client.post("/predict", json=ONE).status_code == 504  # in the model
        gate.set()
        client.service.settings = patient
        assert client.post("/predict", json=ONE).json() == {"result0": [[1.0, 2.0]]} and calls == [1] * 4
        assert sample(client, "hologram_queue_length") == 0
        large = client.post("/predict", json={"input": [[1, 2]] * 500})
        assert large.status_code == 413 and "at most 1000 bytes" in large.text
        streamed = client.post("/predict", content=(b"x" * 400 for _ in range(5)))
        assert streamed.status_code == 413
        for status, count in ((200, 3), (413, 2), (499, 1), (503, 1), (504, 2)):
            assert sample(client, f'hologram_requests_total{{method="forward",status="{status}"}}') == count


@needs_extra
def test_faults_of_the_model_are_no_mistakes_of_the_client():
    def flat(given):
        raise RuntimeError("broken") if given[0][0, 0] else ZeroDivisionError("an integer was divided by zero")

    with serving(flat) as client:
        assert client.post("/predict", json=ONE).status_code == 500
        answer = client.post("/predict", json={"input": [[0, 0]]})
        assert answer.status_code == 422 and "divided by zero" in answer.json()["detail"]
        assert client.get("/health").json() == {"live": True, "ready": True}
        with socket.create_connection((client.base_url.host, client.base_url.port)) as half:
            half.sendall(b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        until(lambda: sample(client, 'hologram_requests_total{method="forward",status="499"}') == 1)
        client.service._served["forward"].method.has_state = True
        answer = client.post("/predict", json=ONE)
        assert answer.status_code == 422 and "keeps state between calls" in answer.json()["detail"]


class Command:
    """`hologram serve` as a process of its own."""

    def __init__(self, port=0, *words):
        command = [sys.executable, "-m", "hologram", "serve", str(MODEL), "--port", str(port), "--json", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"HOLOGRAM_NUM_THREADS": "1"})
        self.address = json.loads(self.process.stdout.readline())["address"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.process.stdout.close()
        assert code == 0


WRONG = {
    '{"input": [[1, 2, 3]]}': "expected [rows, 2]",
    "{}": "expected an object with input, got an empty one",
    '{"input": [[1, 2]], "other": 1}': "expected an object with input, got input, other",
    "[[1, 2]]": "expected an object with input, got list",
    "": "Expecting value",
    '{"input": [[1, 2}': "Expecting ',' delimiter",
    '{"input": [[NaN, 2]]}': "NaN is no value of JSON",
    '{"input": [[1, -Infinity]]}': "-Infinity is no value of JSON",
    '{"input": [[1e400, 2]]}': "cannot hold",
    '{"input": [[1e39, 2]]}': "a value that float32 cannot hold",
    '{"input": [[1' + 400 * "0" + ", 2]]}": "huge numbers",
    '{"input": [[1' + 5000 * "0" + ", 2]]}": "Exceeds the limit",
    '{"input": [[1, 2], [3]]}': "different lengths",
    '{"input": [["1", "2"]]}': "input: expected numbers (float32) in nested lists, got '1': strings, null, objects",
    '{"input": [[1, null]]}': "got None: strings, null, objects",
    '{"input": {"rows": [1, 2]}}': "got {'rows': [1, 2]}: strings, null, objects",
    '{"input": ' + 70 * "[" + "1" + 70 * "]" + "}": "nested too deeply",
    "[" * 100000: "nests too deeply",
    '{"input": 1}': "expected",
    '{"input": [[3e38, 3e38]]}': "result0: JSON cannot hold its NaN or infinite values",
}



@needs_extra
def test_the_command():
    import httpx

    xs = [np.random.default_rng(n).normal(size=(1 + n % 7, 2)).astype(np.float32) for n in range(150)]
    with Command(0, "--max-wait-ms", "5", "--max-batch", "16", "--threads", "1") as command:
        with httpx.Client(base_url=command.address, timeout=60) as client, concurrent.futures.ThreadPoolExecutor(16) as threads:
            for text, words in WRONG.items():
                answer = client.post("/predict", content=text)
                assert answer.status_code == 422 and words in answer.json()["detail"], (text, answer.text)
            answers = list(threads.map(lambda x: client.post("/predict/forward", json={"input": x.tolist()}), xs))
            for x, answer in zip(xs, answers, strict=True):
                np.testing.assert_array_equal(np.float32(answer.json()["result0"]), EXPECTED(x))
            for save, kind in ((lambda f, x: np.save(f, x), "application/x-npy"), (lambda f, x: np.savez(f, input=x), "application/zip")):
                answer = client.post("/predict", content=saved(save, xs[5]), headers={"content-type": kind})
                np.testing.assert_array_equal(np.load(io.BytesIO(answer.content)), EXPECTED(xs[5]))
            answer = client.post("/predict", json={"input": [[3e38, 3e38]]}, headers={"accept": "application/x-npz"})
            np.testing.assert_array_equal(np.load(io.BytesIO(answer.content))["result0"], np.float32([[0, np.inf]]))
            assert client.post("/predict/backward", json=ONE).status_code == 404
            (model,) = client.get("/v1/models").json()["models"]
            assert model["fingerprint"] == EXPECTED.fingerprint
            assert model["methods"]["forward"]["batch"] == {"size": "rows", "rows": 16, "padded": []}
            assert model["methods"]["forward"]["inputs"] == [{"name": "input", "dtype": "float32", "shape": ["rows", 2]}]
            assert sample(client, 'hologram_requests_total{method="forward",status="200"}') == 153
            assert sample(client, 'hologram_batch_requests_count{method="forward"}') < 130  # some were joined
            assert sample(client, 'hologram_request_seconds_bucket{le="+Inf",method="forward"}') == 153 + len(WRONG)


@needs_extra
def test_a_restart_loses_nothing():
    """bench/serving.py's clients ask again when a connection fails; they get every answer, and the right one."""
    found = load(MODEL.parents[1] / "bench" / "serving.py").soak(500, clients=8)
    assert found.pop("asked again") > 0
    assert found == {"requests": 500, "answered": 500, "wrong": 0, "restarts": 1}


@needs_extra
def test_what_was_sent_before_the_end_is_answered():
    """--drain: /health says no, and requests are still answered; a second signal does not wait."""
    import httpx

    with Command(0, "--drain", "60") as command, httpx.Client(base_url=command.address, timeout=60) as client:
        assert client.get("/health").status_code == 200
        command.process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/health").status_code == 503)
        assert client.post("/predict", json=ONE).status_code == 200
