# tests/python/test_serving.py: the programs of examples/serving answer requests
import asyncio
import concurrent.futures
import importlib.util
import os
import socket
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest
from hologram.serving import json_values

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODEL = EXAMPLES / "model.holo"  # relu(x @ [[-1, 1], [-1, 1]]) @ a random matrix + a bias


def expected(x):
    import hologram

    return hologram.load(MODEL)(np.asarray(x, np.float32))


def load(path, name="app"):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / "serving" / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def serve(tmp_path):
    """Starts a command with a port of the loopback interface; → its address once it answers."""
    processes = []

    def start(command, path="/docs"):
        import httpx

        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        log = open(tmp_path / "log", "w")
        environment = os.environ | {"MODEL": str(MODEL), "HOLOGRAM_NUM_THREADS": "1"}
        command = [sys.executable, *(part.replace("PORT", str(port)) for part in command)]
        processes.append(subprocess.Popen(command, cwd=EXAMPLES / "serving", env=environment, stdout=log, stderr=log))
        end = time.monotonic() + 120
        while time.monotonic() < end and processes[-1].poll() is None:
            try:
                httpx.get(f"http://127.0.0.1:{port}{path}")
                return f"http://127.0.0.1:{port}"
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError((tmp_path / "log").read_text()[-3000:])

    yield start
    for process in processes:
        process.terminate()
        process.wait(30)


def ask_many(address, requests=200):
    """Requests of several sizes, 16 at a time: each answer is that of its own request."""
    import httpx

    xs = [np.random.default_rng(n).normal(size=(1 + n % 7, 2)).astype(np.float32) for n in range(requests)]
    with httpx.Client(base_url=address, timeout=60) as client, concurrent.futures.ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda x: client.post("/predict", json={"input": x.tolist()}), xs))
    assert {a.status_code for a in answers} == {200}
    for x, answer in zip(xs, answers, strict=True):
        np.testing.assert_array_equal(np.asarray(answer.json()["result0"], np.float32), expected(x))


def test_values_that_json_or_a_dtype_cannot_hold():
    for dtype, good, wrong in [
        ("int64", [0, -(2**63), 2**63 - 1, 1.0], [1.5, 2**63, 1e300]),
        ("uint8", [0, 255], [-1, 256, 0.5]),
        ("bool", [True, False], [2, 0.5]),
        ("float32", [1e38, -0.0, 2**63], [4e38, 10**400, "1", None]),
        ("float64", [1e308, 1e-320], [float("inf"), float("nan")]),
    ]:
        for value in good:
            assert json_values.array("x", [value], dtype).dtype == dtype
        for value in wrong:
            with pytest.raises(ValueError, match="x: expected .*" + dtype):
                json_values.array("x", [value], dtype)
    assert json_values.array("x", [[], []], "float32").shape == (2, 0)
    bits = json_values.array("x", [1.0, 1.00390625, 1.01171875, -0.0], "bfloat16")  # ties go to even
    assert bits.tolist() == [0x3F80, 0x3F80, 0x3F82, 0x8000]


def test_fastapi_example(serve):
    pytest.importorskip("fastapi")
    pytest.importorskip("prometheus_client")
    httpx = pytest.importorskip("httpx")
    address = serve(["-m", "uvicorn", "fastapi_app:app", "--port", "PORT", "--workers", "2"], "/health/live")
    ask_many(address, 64)
    assert httpx.get(address).json() == {"model": "model.holo"}


def test_litserve_under_load(serve):
    pytest.importorskip("litserve")
    pytest.importorskip("httpx")
    start = "import litserve_app as a; a.litserve.LitServer(a.Api(max_batch_size=8, batch_timeout=0.002), "
    start += "accelerator='cpu', workers_per_device=2).run(port=PORT, host='127.0.0.1', generate_client_file=False)"
    ask_many(serve(["-c", start], "/health"))


class Tensor:
    """As in triton_python_backend_utils."""

    def __init__(self, name, array):
        self._name, self._array = name, array

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array


@pytest.fixture
def triton(monkeypatch):
    """Stands for the module that Triton gives a Python backend."""
    utils = types.ModuleType("triton_python_backend_utils")
    utils.Tensor = Tensor
    utils.TritonError = lambda message: message
    utils.InferenceResponse = lambda output_tensors, error=None: types.SimpleNamespace(tensors=output_tensors, error=error)
    utils.get_input_tensor_by_name = lambda request, name: next((t for t in request if t.name() == name), None)
    monkeypatch.setitem(sys.modules, utils.__name__, utils)


def test_triton_model(triton, tmp_path):
    (tmp_path / "1").mkdir()
    os.symlink(MODEL, tmp_path / "1" / "model.holo")
    model = load("triton/1/model.py").TritonPythonModel()
    model.initialize({"model_repository": str(tmp_path), "model_version": "1"})
    x = np.float32([[1, 2], [3, 4], [5, 6]])
    good, wrong, missing = model.execute([[Tensor("input", x)], [Tensor("input", x[:, :1])], []])
    assert [t.name() for t in good.tensors] == ["result0"] and good.error is None
    np.testing.assert_array_equal(good.tensors[0].as_numpy(), expected(x))
    assert "expected [rows, 2]" in wrong.error and missing.error
    assert 'name: "input"' in (EXAMPLES / "serving" / "triton" / "config.pbtxt").read_text()


def test_ray_deployment(monkeypatch):
    """Without Ray: what its decorators leave of the class."""
    ray, serve = types.ModuleType("ray"), types.ModuleType("ray.serve")

    def deployment(**_):
        return lambda cls: setattr(cls, "bind", classmethod(lambda c, *args: c(*args))) or cls

    serve.deployment, ray.serve = deployment, serve
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.serve", serve)
    monkeypatch.setenv("MODEL", str(MODEL))
    x = np.float32([[1, 2], [3, 4]])
    app = load("ray_app.py").app
    answer = app.predict({"input": x.tolist()})
    np.testing.assert_array_equal(np.asarray(answer["result0"], np.float32), expected(x))

    async def text():
        return b'{"input": [[NaN, 2]]}'

    refused = asyncio.run(app(types.SimpleNamespace(body=text)))
    assert refused.status_code == 422 and b"NaN is no value of JSON" in refused.body


def test_each_example_is_short():
    for path in (EXAMPLES / "serving").rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 40, path
