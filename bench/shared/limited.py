# bench/shared/limited.py: a command with a limit of processor time, which a busy machine does not use up
import math
import signal
import subprocess

ASLEEP = 20  # clock seconds for each of the limit's: what waits for ever takes no processor time


class TookTooLong(Exception):
    """The command was ended. Its text says at which limit."""


def run(command, seconds, env=None) -> subprocess.CompletedProcess:
    """Runs it with its output captured, as text. `seconds`: of processor time, of all its threads together."""
    limited = ["sh", "-c", f'ulimit -S -t {math.ceil(seconds)}; exec "$@"', "sh", *command]
    try:
        done = subprocess.run(limited, capture_output=True, text=True, timeout=ASLEEP * seconds, env=env)
    except subprocess.TimeoutExpired:
        raise TookTooLong(f"no result within {ASLEEP * seconds:.0f} s") from None
    if done.returncode == -signal.SIGXCPU:
        raise TookTooLong(f"no result within {seconds:.0f} s of processor time")
    return done
