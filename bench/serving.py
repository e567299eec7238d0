#!/usr/bin/env python3
# bench/serving.py: latency against load of an archive behind HTTP (examples/serving/fastapi_app.py)
"""    python bench/serving.py [CASE] [--workers 1,2] [--clients 1,2,4,8,16] [--requests 200]

Clients on the loopback interface each send a request when the last one was answered. Per number of workers (processes, one
thread each) and of clients: the median and the 99th percentile of what a client waited, requests per second, and the private
memory (USS) of each process. The first answers are compared with the archive's own."""

import argparse
import concurrent.futures
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
EXPORT = """
import sys; sys.path.insert(0, sys.argv[1])
import cases, hologram_torch, numpy as np
module, inputs = cases.find(sys.argv[2]).build()
hologram_torch.export(module, tuple(inputs), sys.argv[3] + "/model.holo")
np.savez(sys.argv[3] + "/inputs.npz", *[t.numpy() for t in inputs])
"""


def private_mib(process: int) -> float:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def children(process: int) -> list:
    return [int(p) for task in Path(f"/proc/{process}/task").iterdir() for p in (task / "children").read_text().split()]


def served(folder, workers):
    """→ (process, address) of a server that answers."""
    import httpx

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    environment = os.environ | {"MODEL": f"{folder}/model.holo", "HOLOGRAM_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--port", str(port), "--workers", str(workers), "--log-level", "error"]
    server = subprocess.Popen(command, cwd=ROOT / "examples" / "serving", env=environment)
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/docs")
            return server, f"http://127.0.0.1:{port}"
        except httpx.TransportError:
            if server.poll() is not None:
                raise SystemExit("the server ended") from None
            time.sleep(0.1)


def measure(address, body, clients, requests):
    """→ seconds of each request, seconds of all."""
    import httpx

    def client(_):
        took = []
        with httpx.Client(base_url=address, timeout=120) as http:
            for _ in range(max(1, requests // clients)):
                start = time.perf_counter()
                http.post("/predict", json=body).raise_for_status()
                took.append(time.perf_counter() - start)
        return took

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as threads:
        took = [t for times in threads.map(client, range(clients)) for t in times]
    return took, time.perf_counter() - start


def main():
    import httpx

    import hologram

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", default="minilm-1x16")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--clients", default="1,2,4,8,16")
    parser.add_argument("--requests", type=int, default=200)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", EXPORT, str(ROOT / "bench"), asked.case, folder], check=True, capture_output=True)
        arrays = list(np.load(f"{folder}/inputs.npz").values())
        method = hologram.load(f"{folder}/model.holo").methods["forward"]
        body = {i["name"]: a.tolist() for i, a in zip(method.inputs, arrays, strict=True)}
        expected = method.flat(arrays)
        alone = []
        for _ in range(30):
            start = time.perf_counter()
            method.flat(arrays)
            alone.append(time.perf_counter() - start)
        print(f"{asked.case}: a call without HTTP {1e3 * statistics.median(alone):.2f} ms; load average {os.getloadavg()[0]:.1f}")
        print("workers clients   p50 ms   p99 ms  requests/s  private MiB a worker")
        for workers in map(int, asked.workers.split(",")):
            server, address = served(folder, workers)
            try:
                answer = httpx.post(f"{address}/predict", json=body, timeout=120).json()
                for r, e in zip(method.results, expected, strict=True):
                    np.testing.assert_array_equal(np.asarray(answer[r["name"]], e.dtype), e)
                for clients in map(int, asked.clients.split(",")):
                    took, whole = measure(address, body, clients, asked.requests)
                    took.sort()
                    memory = [private_mib(p) for p in (children(server.pid) if workers > 1 else [server.pid])]
                    print(f"{workers:7} {clients:7} {1e3 * statistics.median(took):8.1f} {1e3 * took[int(0.99 * (len(took) - 1))]:8.1f} "
                          f"{len(took) / whole:11.0f}  {', '.join(f'{m:.0f}' for m in sorted(memory))}", flush=True)  # fmt: skip
            finally:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    main()
