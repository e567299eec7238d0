#!/usr/bin/env python3
# bench/serving.py: hologram serve under load, beside ONNX Runtime behind the same application; and over a restart
"""    python bench/serving.py [CASE] [--servers hologram,alone,onnxruntime] [--clients 1,4,16] [--seconds 3] [--rounds 3]
    python bench/serving.py --soak 100000

The first form: clients on the loopback interface each send a request of one row (a .npz file) when the last one was answered;
`peak` is the most requests per second of any number of clients. Then requests come at 80 % of that rate, whether or not the ones
before were answered, and what is told is the median and the 99th percentile of the time from when a request was due. `alone` is
hologram serve --max-batch 1, `onnxruntime` the same application around an ONNX Runtime session, one call at a time. Servers are
measured in turns; answers are compared with the archive's own first. The case `wide` is an MLP whose 100 MB of weights are read by
each call, whatever its rows.

The second form: so many requests for examples/model.holo by 16 clients, half way a SIGTERM, and a new server on the same port. A
client asks again when a connection fails. Every answer is compared."""

import argparse
import concurrent.futures
import contextlib
import http.client
import io
import itertools
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
EXPORT = """
import sys; sys.path.insert(0, sys.argv[1])
import cases, hologram_torch, models, numpy as np, torch
if sys.argv[2] == "wide":
    module, inputs = models.make(lambda: models.MLP(1024, 4096, 4096, 1024)), (models.normal(1, 1024),)
else:
    module, inputs = cases.find(sys.argv[2]).build()
np.savez(sys.argv[3] + "/inputs.npz", *[t[:1].numpy() for t in inputs])
inputs = tuple(torch.cat([t[:1]] * 2) for t in inputs)
shapes = tuple({0: torch.export.Dim("rows", min=1, max=64)} for _ in inputs)
hologram_torch.export(module, inputs, sys.argv[3] + "/model.holo", dynamic_shapes=shapes)
if sys.argv[4] == "onnx":
    torch.onnx.export(module, inputs, dynamo=True, dynamic_shapes=shapes, verbose=False).save(sys.argv[3] + "/model.onnx")
"""
HEADERS = {"content-type": "application/x-npz", "accept": "application/x-npz"}


def low_port():
    """A free port that no connection gets for itself while its server is away (a client would reach itself)."""
    least = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(10000, least), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise SystemExit("no free port")


class Server:
    """A process that serves, and its address."""

    def __init__(self, *command):
        environment = {"HOLOGRAM_NUM_THREADS": str(os.cpu_count())} | dict(os.environ)
        self.process = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True, env=environment)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{command}: ended with {self.process.wait()}")
        self.port = int(json.loads(line)["address"].rpartition(":")[2])

    def stop(self):
        """SIGTERM; → the status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self.process.stdout.close()
        return status


class Client:
    """A connection that is kept, and made again when it fails. again: how often that was."""

    def __init__(self, port):
        self.port, self.again = port, 0
        self._connection = None

    def ask(self, body, headers=HEADERS, patience=60):
        """→ (status, body of the answer)"""
        end = time.monotonic() + patience
        while True:
            try:
                if self._connection is None:
                    self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                self._connection.request("POST", "/predict", body, headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                self.close()
                self.again += 1
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def close(self):
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def by_clients(port, count, work):
    """work(client) by so many clients at once; → the results."""

    def one(_):
        client = Client(port)
        try:
            return work(client)
        finally:
            client.close()

    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))


def closed(port, body, clients, seconds):
    """Requests per second."""
    begin = time.perf_counter()

    def work(client):
        count = 0
        while time.perf_counter() - begin < seconds:
            assert client.ask(body)[0] == 200
            count += 1
        return count

    return sum(by_clients(port, clients, work)) / (time.perf_counter() - begin)


def paced(port, body, rate, seconds, clients=64):
    """Seconds from when each request was due to its answer."""
    due, lock = itertools.count(), threading.Lock()
    begin = time.perf_counter() + 0.05

    def work(client):
        took = []
        while True:
            with lock:
                at = begin + next(due) / rate
            if at > begin + seconds:
                return took
            time.sleep(max(0.0, at - time.perf_counter()))
            assert client.ask(body)[0] == 200
            took.append(time.perf_counter() - at)

    return sorted(t for times in by_clients(port, clients, work) for t in times)


def soak(requests, clients=16, restarts=1):
    """Asks while servers end and begin on one port; → what became of the requests."""
    import hologram

    model = ROOT / "examples" / "model.holo"
    words = ("-m", "hologram", "serve", model, "--json", "--threads", "1", "--port")
    expected, numbers, lock = hologram.load(model), itertools.count(), threading.Lock()
    found = {"requests": requests, "answered": 0, "wrong": 0, "asked again": 0, "restarts": 0}
    server = Server(*words, low_port())

    def work(client):
        answered = wrong = 0
        while True:
            with lock:
                number = next(numbers)
                found["begun"] = number
            if number >= requests:
                return answered, wrong, client.again
            x = np.float32([[number % 1000, -number], [1, number]])
            stream = io.BytesIO()
            np.savez(stream, input=x)
            status, body = client.ask(stream.getvalue())
            if status == 200:
                answered += 1
                wrong += not np.array_equal(np.load(io.BytesIO(body))["result0"], expected(x))

    try:
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            clients = thread.submit(by_clients, server.port, clients, work)
            for n in range(restarts):
                while found.get("begun", 0) < requests * (n + 1) // (restarts + 1) and not clients.done():
                    time.sleep(0.005)
                found["restarts"] += server.stop() == 0
                server = Server(*words, server.port)
            for answered, wrong, again in clients.result():
                found["answered"] += answered
                found["wrong"] += wrong
                found["asked again"] += again
    finally:
        server.stop()
    del found["begun"]
    return found


class OnnxMethod:
    """A session of ONNX Runtime with the interface of an archive's method."""

    name, sizes, padding, has_state = "forward", {}, {}, False

    def __init__(self, path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("HOLOGRAM_NUM_THREADS", os.cpu_count()))
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs, self.results = ([{"name": a.name, "dtype": a.type, "shape": a.shape} for a in arrays]
                                     for arrays in (self._session.get_inputs(), self._session.get_outputs()))  # fmt: skip

    def flat(self, arrays):
        return self._session.run(None, {i["name"]: a for i, a in zip(self.inputs, arrays)})


def peer(path):
    """The application of hologram serve around an ONNX Runtime session."""
    import types

    import uvicorn

    from hologram.serving import application

    app = application(types.SimpleNamespace(path=path, fingerprint="", methods={"forward": OnnxMethod(path)}), max_batch=1)
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(json.dumps({"address": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listener])


def body_for(names, arrays):
    stream = io.BytesIO()
    np.savez(stream, **dict(zip(names, arrays, strict=True)))
    return stream.getvalue()


def compare(asked):
    """Prints a table; → server → (peak, p50, p99) of each round."""
    import hologram

    found = {name: [] for name in asked.servers.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        export = [sys.executable, "-c", EXPORT, ROOT / "bench", asked.case, folder, "onnx" if "onnxruntime" in found else ""]
        subprocess.run(list(map(str, export)), check=True, stdout=subprocess.DEVNULL)
        arrays = list(np.load(f"{folder}/inputs.npz").values())
        method = hologram.load(f"{folder}/model.holo").methods["forward"]
        expected = method.flat(arrays)
        serve = ("-m", "hologram", "serve", f"{folder}/model.holo", "--json", "--port", 0)
        commands = {"hologram": serve, "alone": (*serve, "--max-batch", 1), "onnxruntime": (__file__, "--peer", f"{folder}/model.onnx")}
        servers, bodies = {name: Server(*commands[name]) for name in found}, {}
        try:
            for name, server in servers.items():
                names = [i["name"] for i in (OnnxMethod(f"{folder}/model.onnx") if name == "onnxruntime" else method).inputs]
                bodies[name] = body_for(names, arrays)
                status, answer = Client(server.port).ask(bodies[name])
                assert status == 200, answer
                for e, r in zip(expected, np.load(io.BytesIO(answer)).values(), strict=True):
                    np.testing.assert_allclose(r, e, rtol=1e-3, atol=1e-3 if name == "onnxruntime" else 0)
            for _ in range(asked.rounds):
                for name, server in servers.items():
                    peak = max(closed(server.port, bodies[name], int(n), asked.seconds) for n in asked.clients.split(","))
                    took = paced(server.port, bodies[name], 0.8 * peak, asked.seconds)
                    found[name].append((peak, 1e3 * took[len(took) // 2], 1e3 * took[int(0.99 * (len(took) - 1))]))
        finally:
            for server in servers.values():
                server.stop()
    print(f"{asked.case}: medians of {asked.rounds} rounds; load average {os.getloadavg()[0]:.1f}")
    print(f"{'server':12} {'peak/s':>8} {'p50 ms':>8} {'p99 ms':>8}   at 80 % of the peak")
    for name, rounds in found.items():
        print(f"{name:12} " + " ".join(f"{statistics.median(column):8.1f}" for column in zip(*rounds)))
    return found


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", default="minilm-1x16")
    parser.add_argument("--servers", default="hologram,alone,onnxruntime")
    parser.add_argument("--clients", default="1,4,16")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=int, metavar="REQUESTS")
    parser.add_argument("--peer", metavar="MODEL", help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.peer:
        peer(asked.peer)
    elif asked.soak:
        begin = time.perf_counter()
        found = soak(asked.soak)
        print(json.dumps(found | {"seconds": round(time.perf_counter() - begin, 1)}))
        return 0 if found["answered"] == asked.soak and not found["wrong"] else 1
    else:
        compare(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
