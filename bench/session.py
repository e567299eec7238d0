# bench/session.py: worker processes with cold caches, stopped while another one is timed
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import peers

WORKER = Path(__file__).with_name("worker.py")
FIRST_LIMIT = 600.0  # seconds for imports, compilation and the first call
REQUEST_LIMIT = 120.0


class Failed(Exception):
    """A worker that has no answer; the message says why."""


class Session:
    """One (case, peer) in a process of its own. `home` holds its caches; a new folder is a cold
    start.

    Between requests the process and its threads are stopped, so that a peer whose threads wait by
    spinning does not slow the one that is being timed. `before`: the checkout, built, whose Hologram the
    peers in peers.BEFORE are."""

    def __init__(self, case: str, peer: str, threads: int, home: str, before: Path | None = None):
        self.case, self.peer = case, peer
        if peer in peers.BEFORE and before is None:
            raise ValueError(f"the peer {peer!r} needs the folder of a built checkout")
        modules = [str(before / "python")] if peer in peers.BEFORE else []
        self.log = open(Path(home) / "worker.log", "w")
        caches = (
            "HOLOGRAM_CACHE_DIR",
            "TORCHINDUCTOR_CACHE_DIR",
            "TRITON_CACHE_DIR",
            "XDG_CACHE_HOME",
            "TMPDIR",
        )
        folders = {name: str(Path(home) / name.lower()) for name in caches}
        for folder in folders.values():
            os.makedirs(folder, mode=0o700, exist_ok=True)
        counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "HOLOGRAM_NUM_THREADS")
        environment = {
            **os.environ, **folders, **dict.fromkeys(counts, str(threads)),
            "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1",
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), case, peer, str(threads), *modules],
            cwd=home,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
        )
        self.answers = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        try:
            self.first = self.answer(FIRST_LIMIT)
            if "failed" in self.first:
                raise Failed(self.first["failed"])
        except Failed:
            self.close()
            raise
        self.signal(signal.SIGSTOP)

    def read(self):
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.answers.put(json.loads(line))
        self.answers.put(None)

    def answer(self, limit: float) -> dict:
        try:
            message = self.answers.get(timeout=limit)
        except queue.Empty:
            raise Failed(f"no answer within {limit:g} s") from None
        if message is None:
            raise Failed(f"the process ended with status {self.process.wait()}")
        return message

    def ask(self, seconds: float, **request) -> dict:
        """Runs the process for one request: see worker.py."""
        self.signal(signal.SIGCONT)
        try:
            self.process.stdin.write(json.dumps({"seconds": seconds, **request}) + "\n")
            self.process.stdin.flush()
            return self.answer(seconds + REQUEST_LIMIT)
        except BrokenPipeError:
            raise Failed("the process ended") from None
        finally:
            self.signal(signal.SIGSTOP)

    def signal(self, number: int):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def close(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


@contextlib.contextmanager
def home():
    """A new folder for the caches of one peer."""
    with tempfile.TemporaryDirectory(
        prefix="hologram-bench-", ignore_cleanup_errors=True
    ) as folder:
        yield folder
