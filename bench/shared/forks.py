# bench/shared/forks.py: processes that begin with PyTorch imported
"""They fork from one process that has imported what takes seconds and nothing of ours: each costs milliseconds."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload([
    "torch",
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch._inductor.pattern_matcher",  # AOTAutograd's, for gradients
    "torch.testing._internal.common_methods_invocations",
])  # fmt: skip


def run(program: str, *arguments, cwd=None, env=None, timeout=300.0) -> subprocess.CompletedProcess:
    """What `subprocess.run([sys.executable, "-c", program, *arguments], …, capture_output=True, text=True)` does; its end alone is
    no interpreter's."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        words = [os.fspath(a) for a in arguments]
        process = FORKING.Process(
            target=_main, args=(program, words, os.fspath(cwd or os.getcwd()), dict(os.environ if env is None else env), paths)
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(program, timeout)
        said = [Path(path).read_text() if os.path.exists(path) else "" for path in paths]
        return subprocess.CompletedProcess([program, *words], process.exitcode, *said)


def _main(program, arguments, cwd, env, paths):
    for number, path in enumerate(paths, 1):
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["-c", *arguments]
    sys.path[:0] = ["", *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    exec(compile(program, "<string>", "exec"), vars(sys.modules["__main__"]))
