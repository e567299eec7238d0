# bench/turns.py: times of several calls in one process, taken in turns
"""Peers in one process share its cores: their threads go on spinning behind a call (PyTorch's for 4.5 ms of processor time,
OpenBLAS's for 60), and a thread of the next one on the same core then gets half of it. So before each slice that counts all
threads come to rest, and then the peer runs for some time without a clock.
"""

import time

import numpy as np

# A process at rest uses less than AWAKE seconds of processor time while this thread sleeps for REST; the kernel counts a
# running thread's time at its ticks, up to 10 ms apart.
REST, AWAKE = 0.012, 0.001
LONGEST_WAIT = 0.3
SETTLE = 0.01  # seconds without a clock
SLICE = 0.004


class Turns(dict):
    """Seconds per call of each function, by name, one for every turn."""

    def fastest(self):
        return {name: min(t) for name, t in self.items()}

    def quotients(self, peers, subject):
        """Those of the best peer to the subject, turn by turn: what else runs on the machine slows down both."""
        mine = np.array(self[subject])
        return min((np.array(self[peer]) / mine for peer in peers), key=np.median)

    def median(self, peers, subject):
        return float(np.median(self.quotients(peers, subject)))

    def ratio(self, peers, subject):
        """Their median and quartiles as text, empty without a peer."""
        if not peers:
            return ""
        low, middle, high = np.percentile(self.quotients(peers, subject), (25, 50, 75))
        return f"{middle:.2f} ({low:.2f}…{high:.2f})"


def come_to_rest():
    """Waits until the threads of this process sleep."""
    end = time.perf_counter() + LONGEST_WAIT
    used = AWAKE
    while used >= AWAKE and time.perf_counter() < end:
        before = time.process_time()
        time.sleep(REST)
        used = time.process_time() - before


def take_turns(functions, seconds, clock=time.perf_counter) -> Turns:
    """Calls the functions, a mapping by name, until each has had so many seconds, and five turns at the least; earlier
    when the three fastest turns of everybody agree within 3 % and there are as many as 15. clock: time.thread_time, say, where
    others keep the machine busy and everything runs on this thread."""
    counts, turns = {}, Turns({name: [] for name in functions})
    for name, call in functions.items():
        call()
        start = time.perf_counter()
        call()
        call()
        counts[name] = max(1, int(SLICE / max((time.perf_counter() - start) / 2, 1e-9)))
    settle = min(SETTLE, seconds / 5) if len(functions) > 1 else SLICE  # five turns at the least
    end = time.perf_counter() + seconds * len(functions)
    agree, done = False, 0
    while done < 5 or (time.perf_counter() < end and not (agree and done >= 15)):
        for name, call in functions.items():
            n = range(counts[name])
            if len(functions) > 1:
                come_to_rest()
            measured_from = time.perf_counter() + settle
            while time.perf_counter() < measured_from:
                call()
            start = clock()
            for _ in n:
                call()
            turns[name].append((clock() - start) / counts[name])
        done += 1
        agree = done >= 5 and all(sorted(t)[2] <= 1.03 * min(t) for t in turns.values())
    return turns
