# bench/turns.py: times of several calls in one process, taken in turns
"""Peers in one process share its cores: PyTorch's threads go on spinning for 4.5 ms of processor time behind a call, and a thread of ours on the same
core then gets half of it. So everybody runs for some time without a clock before each slice that counts.
"""

import time

import numpy as np

SETTLE = 0.02  # seconds without a clock: twice what a spinning thread needs that has half a core
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


def take_turns(functions, seconds) -> Turns:
    """Calls the functions, a mapping by name, until each has had so many seconds, and five turns at the least; earlier when the three fastest
    turns of everybody agree within 3 % and there are as many as 15."""
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
            measured_from = time.perf_counter() + settle
            while time.perf_counter() < measured_from:
                call()
            start = time.perf_counter()
            for _ in n:
                call()
            turns[name].append((time.perf_counter() - start) / counts[name])
        done += 1
        agree = done >= 5 and all(sorted(t)[2] <= 1.03 * min(t) for t in turns.values())
    return turns
