# hologram_torch/saved.py: compiled graphs in PyTorch's own caches and files
"""AOTAutograd's cache, torch.compiler.save_cache_artifacts and aot_compile(…).save_compiled_function keep what the backend
compiled as an OutputCode. Ours holds the graph's Programs and the machine code of the machine that saved it, which goes into
Hologram's cache where it is loaded: a machine of another instruction set compiles."""

import contextlib
import functools
import hashlib
import pickle
import threading
from pathlib import Path

import torch
from torch._dynamo.callback import callback_handler
from torch._functorch import config
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache, should_bundle_autograd_cache
from torch._inductor.output_code import OutputCode

import hologram

from . import direct

_here = threading.local()


@functools.cache
def version() -> str:
    """Names what programs mean: the release, and the sources of this package."""
    content = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        content.update(path.read_bytes())
    return f"{hologram.__version__}-{content.hexdigest()}"


class Code(OutputCode):
    """A compiled graph as PyTorch keeps it. written: as direct.function takes it; None where it needs AOTAutograd's wrapper."""

    def __init__(self, programs, written=None):
        super().__init__()
        self._boxed_call = True  # an instance's: functools.wraps copies it
        self._written = written
        self._version = version()
        self._programs = [programs]  # shared with copies, which empty it
        self._content = None
        self._call = None

    def prepare_for_serialization(self):
        """Raises BypassAOTAutogradCache for a graph that only this process can run."""
        if self._content is not None:
            return
        if self._programs == [None]:
            raise BypassAOTAutogradCache("hologram: the graph runs in PyTorch")
        try:
            self._content = pickle.dumps(self._programs.pop())
        except (pickle.PicklingError, TypeError, AttributeError, RuntimeError) as error:
            raise BypassAOTAutogradCache(f"hologram: {error}") from error

    def __getstate__(self):
        return vars(self) | {"_programs": [], "_call": None}

    def __copy__(self):
        return self._with(vars(self))

    def __deepcopy__(self, memo):
        return self._with(self.__getstate__())

    def _with(self, state):
        copied = type(self).__new__(type(self))
        vars(copied).update(state)
        return copied

    def post_compile(self, example_inputs, constants, graph_kwargs):
        """After loading. Raises RuntimeError for what another version of Hologram saved."""
        if self._version != version():
            raise RuntimeError(f"hologram {version()} cannot run a graph that hologram {self._version} compiled; compile the model again")
        if not graph_kwargs.get("is_backward"):
            self._load()
            if getattr(_here, "loaded", None) is not None:
                _here.loaded.append(self)

    def _load(self):
        self._call = pickle.loads(self._content).compile()

    def __call__(self, arguments):
        if self._call is None:  # a backward graph's first call
            self._load()
        return self._call(arguments)

    def function(self):
        """What takes the arguments one by one in place of AOTAutograd's wrapper, or None."""
        usable = self._written is not None and hasattr(self._call, "direct")
        return direct.function(self._call, self._written) if usable else None


def attach(call, written=None):
    """Makes a compiled graph, with the attribute `programs` that compile_graph leaves, one that PyTorch may keep."""
    call.__wrapped__ = Code(vars(call).pop("programs", None), written)
    return call


@contextlib.contextmanager
def loading(choices: str):
    """Inside, AOTAutograd may take graphs from its cache that were made with the same choices: → list of the Codes it took."""
    before, _here.loaded = getattr(_here, "loaded", None), []
    try:
        # PyTorch's key knows neither the backend nor its decompositions.
        with (
            torch.compiler.config.patch(cache_key_tag=f"hologram-{version()}-{choices}"),
            config.patch(bundled_autograd_cache=True, force_autograd_cache=True),
        ):
            yield _here.loaded
    finally:
        _here.loaded = before


def later(backward):
    """AOTAutograd compiles most backward graphs when the first one is called, and then saves both; its setting for how to save
    must hold until then. PyTorch tells when it has done so."""

    def compiler(graph, inputs):
        call = backward(graph, inputs)
        if not should_bundle_autograd_cache() and getattr(_here, "setting", None) is None:
            if _restore not in callback_handler.end_callbacks:  # torch._dynamo.reset() clears them
                callback_handler.register_end_callback(_restore)
            _here.setting = config.patch(bundled_autograd_cache=True)
            _here.setting.__enter__()
        return call

    return compiler


def _restore(_):
    setting = getattr(_here, "setting", None)
    if setting is not None:
        _here.setting = None
        setting.__exit__(None, None, None)
