# hologram_torch/counters.py: counters and log lines
import collections
import contextlib
import threading

from hologram._log import log as log

from . import lines

REPORT = "please report it with the output of HOLOGRAM_DUMP=graph HOLOGRAM_LOG=debug"

_lock = threading.Lock()


class _Counters:
    def __init__(self):
        self.graphs = 0
        self.failed_graphs = 0
        self.kernels = 0
        self.kernel_cache_hits = 0
        self.kernel_cache_misses = 0
        self.ops_before = 0
        self.ops_canonical = 0
        self.compile_ms = collections.Counter()
        self.fallback_ops = collections.Counter()


_counters = _Counters()
_named = set()


def stats() -> dict:
    """What happened since the process began or since reset_stats().

    graphs, failed_graphs: compiled graphs, and graphs that were left to PyTorch because compiling failed
    kernels: native kernels of all graphs; kernel_cache_hits and _misses: found (in memory, in
        the library, on disk), or compiled
    fallback_ops: {operator: calls} of operators that ran in PyTorch inside compiled graphs
    host_runs: steps, since the process began, that a GPU's backend ran on the host's processor, as it has no kernel for them
    graph_launches: CUDA graphs, since the process began, that were launched in place of single kernels
    wide_launches: kernels, since the process began, that multiply by warpgroups (compute capability 9.0); refused_maps: launches
        that another kernel took their place in, because the driver refused a tensor map
    compared_weights: contents of weights that calls, since the process began, compared with what is kept of them, as others than
        known tensors hold their memory (docs/pytorch.md, "Weights that change")
    compile_ms: milliseconds by stage; "trace" is the translation in Python, "total" all of ours
    ops_before, ops_canonical: operations before and after canonicalisation
    memory: bytes that compiled graphs hold now: packed_weights of live graphs, on GPUs too, where they are PyTorch's memory;
        in_use, other blocks of the pool (results, calls in progress); pool_cached, which the pool keeps for later calls;
        released_weights, which freeze(release_weights=True) gave back for models that still live; code, machine code of live
        graphs; code_cached, of kernels that are kept in case they are compiled again; and plans, how live graphs run
    """
    with _lock:
        c = _counters
        counts = {**vars(c), "compile_ms": dict(c.compile_ms), "fallback_ops": dict(c.fallback_ops)}
        return {**counts, **_devices(), "compared_weights": _compared(), "memory": _memory()}


def tell_memory(function) -> None:
    """Sets what gives the bytes by share."""
    global _memory
    _memory = function


def _memory() -> dict:
    shares = "packed_weights", "in_use", "pool_cached", "released_weights", "code", "code_cached", "plans"
    return dict.fromkeys(shares, 0)


_DEVICE_COUNTS = "host_runs", "graph_launches", "wide_launches", "refused_maps"


def tell_devices(counts) -> None:
    """Sets what gives the counts by name of each backend of a device."""
    global _counts
    _counts = counts


def _counts() -> list:
    return []


def _devices() -> dict:
    made = _counts()
    return {name: sum(counts.get(name, 0) for counts in made) for name in _DEVICE_COUNTS}


def tell_compared(function) -> None:
    """Sets what gives the count of weights whose contents were compared."""
    global _compared
    _compared = function


def _compared() -> int:
    return 0


def reset_stats() -> None:
    """Sets all counters to zero."""
    global _counters
    with _lock:
        _counters = _Counters()


def count_fallback(name: str) -> None:
    """One call of an operator in PyTorch."""
    _counters.fallback_ops[name] += 1


def name_fallback(name: str, reason: str, where: str) -> None:
    """Says once per process that an operator is left to PyTorch for this reason. where: lines.of() its node."""
    if (name, reason) not in _named:
        _named.add((name, reason))
        log.warning("PyTorch runs %s inside the compiled graph: %s%s", name, reason, lines.at(where))


def count_failure() -> None:
    with _lock:
        _counters.failed_graphs += 1


def _add_kernels(c, report):
    c.kernels += report["kernels"]
    c.kernel_cache_hits += report["memory_hits"] + report["builtin"] + report["disk_hits"]
    c.kernel_cache_misses += report["compiled"]


def count_kernels(report: dict) -> None:
    """Adds the kernels of a graph that belongs to another one."""
    with _lock:
        _add_kernels(_counters, report)


def count_graph(report: dict, trace_ms: float, total_ms: float) -> None:
    """Adds a compiled graph's report."""
    with _lock:
        c = _counters
        c.graphs += 1
        _add_kernels(c, report)
        c.ops_before += report["ops_before"]
        c.ops_canonical += report["ops_canonical"]
        for stage, ms in report["milliseconds"].items():
            c.compile_ms[stage] += ms
        c.compile_ms["trace"] += trace_ms
        c.compile_ms["total"] += total_ms


def count_finished(report: dict) -> None:
    """Adds what finishing a graph took that was counted with kernels made quickly."""
    with _lock:
        _counters.kernel_cache_misses += report["compiled"]
        for stage, ms in report["milliseconds"].items():
            _counters.compile_ms[stage] += ms
            _counters.compile_ms["total"] += ms


def blame(error, name: str) -> None:
    """Adds to an error that will be raised what it was that failed."""
    if hasattr(error, "add_note"):
        error.add_note(f"while hologram compiled graph {name}; {REPORT}")


_captures = []


@contextlib.contextmanager
def capture():
    """Collects (name, executable, origins) of the graphs compiled inside the block; origins: by node of the graph (operator, line of
    the user's program)."""
    records = []
    _captures.append(records)
    try:
        yield records
    finally:
        _captures[:] = [r for r in _captures if r is not records]


def captured() -> bool:
    """Whether anyone captures."""
    return bool(_captures)


def compiled(name: str, executable, origins: dict) -> None:
    """Records a compiled graph for whoever captures."""
    for records in _captures:
        records.append((name, executable, origins))
