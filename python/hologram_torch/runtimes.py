# hologram_torch/runtimes.py: which device a graph's tensors are on, and the native runtime that serves it
import collections
import contextlib
import ctypes
import functools
import os
import threading

from hologram import _core, _dump

from . import counters

_lock = threading.Lock()
_now = threading.local()
_made = []  # runtimes
_CUDA, _EXTERNAL = 2, 12  # DLPack's numbers
EXTENSION = "hologram"  # the type of device that is ours (accelerator/), PyTorch's PrivateUse1
_chosen = {}  # backends by type of device, where a user said one
_ALLOCATOR = ("aoti_torch_create_cuda_guard", "aoti_torch_delete_cuda_guard", "aoti_torch_cuda_caching_allocator_raw_alloc",
              "aoti_torch_cuda_caching_allocator_raw_delete")  # fmt: skip


@functools.cache
def _make(backend: str):
    _made.append(_core.Runtime(backend))
    return _made[-1]


counters.tell_devices(lambda: [made.counts for made in _made])


def _of_host() -> str:
    """HOLOGRAM_BACKEND: what runs graphs of the host's tensors."""
    name = _core.setting("HOLOGRAM_BACKEND") or "cpu"
    if name.partition(":")[0] not in _core.Runtime.backends(True):
        _core.refuse_setting("HOLOGRAM_BACKEND", "one of " + ", ".join(_core.Runtime.backends(True)))
    return name


def check_settings(backend: str | None = None):
    """Raises ValueError or OSError, naming the variable, where the environment asks for what cannot be; RuntimeError with the
    reason where the machine lacks the device that `backend` or HOLOGRAM_BACKEND names."""
    _core.check_settings()
    named = backend or _of_host()
    if named != "cpu":
        runtime("cpu", named)
    if _dump.stages():
        _dump.folder()


def runtime(device: str = "cpu", backend: str | None = None):
    """Backend, threads, pools and kernel cache that all compiled graphs on tensors of a device share. For tensors in the host's
    memory `backend` or HOLOGRAM_BACKEND chooses another backend than the native one: "interp" executes kernels by their
    definition."""
    with _lock:
        return _make(backend or _chosen.get(device.partition(":")[0]) or _of_host() if in_host_memory(device) else device)


def choose(kind: str, backend: str):
    """The backend that serves a type of device from now on."""
    _chosen[kind] = backend


def chosen(kind: str) -> str | None:
    """What choose() said of a type of device."""
    return _chosen.get(kind)


def in_host_memory(device: str) -> bool:
    """Whether the device, "cpu" or "cuda:0", has the host's memory, as ours has."""
    return device == "cpu" or device.startswith(EXTENSION)


def made() -> tuple:
    """The runtimes of this process."""
    with _lock:
        return tuple(_made)


def holds(tensor) -> bool:
    """Whether the tensor, real or fake, is one of the host's, for which graphs are rewritten before they are traced."""
    return in_host_memory(tensor.device.type)


def attends(tensor) -> bool:
    """Whether attention over the tensor is kept as one operator of ours: the host's, and a GPU's where it is ours."""
    return holds(tensor) or (tensor.device.type == "cuda" and owns("attention") and _serves(f"cuda:{tensor.device.index or 0}"))


def owns(kind: str) -> bool:
    """Whether one of owners.KINDS is ours for CUDA tensors in what is being captured or translated."""
    return kind in getattr(_now, "own", ())


@contextlib.contextmanager
def owning(kinds: frozenset):
    """Inside, these of owners.KINDS are ours for CUDA tensors, and the others PyTorch's."""
    before, _now.own = getattr(_now, "own", ()), kinds
    try:
        yield
    finally:
        _now.own = before


def is_here(tensor) -> bool:
    """Whether the tensor, real or fake, is on the device of the graph that is being translated."""
    return str(tensor.device) == here()


def here() -> str:
    """The device of the graph that is being translated: "cpu", "cuda:0"."""
    return getattr(_now, "device", "cpu")


@contextlib.contextmanager
def on(device: str):
    """Graphs are translated for tensors on this device."""
    before, _now.device = here(), device
    try:
        yield
    finally:
        _now.device = before


@contextlib.contextmanager
def giving(device: str):
    """Inside, graphs of the host's tensors give results on a device that has its memory."""
    before, _now.gives = getattr(_now, "gives", None), device
    try:
        yield
    finally:
        _now.gives = before


def given(device: str) -> str:
    """Where a graph gives its results that is translated for tensors on this device."""
    return getattr(_now, "gives", None) or device


def of(graph) -> str:
    """The device whose kernels an FX graph gets: the GPU that most of its tensors are on, if one of ours serves it, or ours."""
    import torch

    found = collections.Counter()
    for node in graph.nodes:
        val = node.meta.get("val")
        for tensor in val if isinstance(val, (list, tuple)) else (val,):
            if isinstance(tensor, torch.Tensor) and tensor.device.type in ("cuda", EXTENSION):
                found[f"{tensor.device.type}:{tensor.device.index or 0}"] += 1
    for name, _ in found.most_common(1):
        return name if in_host_memory(name) or _serves(name) else "cpu"
    return "cpu"


@functools.cache
def _serves(device: str) -> bool:
    """Whether a backend runs on the tensors' device. Says once why not; PyTorch then runs their operators."""
    import torch

    try:
        if torch.version.hip:
            raise RuntimeError("it is no GPU of NVIDIA's")
        runtime(device)
    except Exception as error:
        counters.log.warning("tensors on %s are left to PyTorch: %s", device, error)
        return False
    return True


def exchange(device: str):
    """How tensors on the device reach native code in nanoseconds: DLPack's table of C functions."""
    import torch

    return torch.Tensor.__dlpack_c_exchange_api__


def place(device: str, dtypes: dict):
    """What `_core.torch_call` takes for tensors on the device: None for the host, else DLPack's type and number, what makes
    tensors for results, and allocator(). `dtypes`: PyTorch's by our names."""
    if in_host_memory(device):
        return None if device == "cpu" else (_EXTERNAL, 0, None, None)
    number = int(device.partition(":")[2])
    return _CUDA, number, lambda sizes, strides, name: empty(device, sizes, strides, dtypes[name]), allocator()


@functools.cache
def allocator():
    """Addresses of C functions of PyTorch's by which calls take and give back memory of its caching allocator, in the order of
    TorchCall::Allocator; None: this PyTorch has no such functions, and calls take memory of the driver's."""
    try:
        library = ctypes.CDLL("libtorch_cuda.so", os.RTLD_NOLOAD | os.RTLD_LAZY)
        return tuple(ctypes.cast(library[name], ctypes.c_void_p).value for name in _ALLOCATOR)
    except (OSError, AttributeError):
        return None


def empty(device: str, sizes, strides, dtype):
    """Uninitialised memory of PyTorch's for a result."""
    import torch

    return torch.empty_strided(sizes, strides, dtype=dtype, device=device)


@contextlib.contextmanager
def recording(kernels: dict):
    """Inside, what compiled graphs take from the kernel cache or put there comes into `kernels`, key → machine code."""
    runtime()
    runtimes = tuple(_made)
    for made in runtimes:
        made.start_recording()
    try:
        yield
    finally:
        for made in runtimes:
            kernels.update(made.stop_recording())


def give(kernels: dict):
    """Puts what recording() noted, perhaps on another machine, into the kernel cache. Keys name the instruction set and the
    version of the code generator: what is another's stays unused."""
    for key, code in kernels.items():
        runtime().give_code(key, code)


def thread_count():
    """What tells the thread count at each call: PyTorch's setting, unless HOLOGRAM_NUM_THREADS says one."""
    import torch

    return None if _core.setting("HOLOGRAM_NUM_THREADS") else torch.get_num_threads


def release_memory() -> int:
    """Gives the memory that the pools keep for later, those of GPUs too, back to the system; returns the bytes."""
    runtime()
    return sum(made.release_memory() for made in tuple(_made))
