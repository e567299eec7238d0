# hologram_torch/writes.py: writes into tensors that their version counters do not show
"""What compiled graphs keep of parameters is valid while identity, address, version and epoch hold (python/_core/stamps.h).
Here PyTorch's own ways around the version counter are watched, and those that may bring another tensor to an old address."""

import functools

import torch
from hologram import _core
from torch.optim.optimizer import register_optimizer_step_post_hook

_RECEIVING = """allgather allgather_coalesced allgather_into_tensor_coalesced _allgather_base all_gather_single
    all_gather_single_coalesced allreduce allreduce_coalesced alltoall alltoall_base all_to_all_single broadcast gather
    gather_into_tensor gather_single recv recv_anysource reduce reduce_scatter _reduce_scatter_base reduce_scatter_single
    reduce_scatter_single_coalesced reduce_scatter_tensor_coalesced scatter""".split()


def watch() -> None:
    """Begins to watch; once is enough. What a version of PyTorch lacks is left out."""
    preserve = getattr(torch.autograd.grad_mode, "_unsafe_preserve_version_counter", None)
    _after(preserve, "__exit__", lambda context, *_: _written(context.tensors))
    _after(torch.nn.Module, "_apply", lambda *_, **__: _core.forget_kept())  # .half().float() may end at the old address
    _before(torch.nn.Module, "train", _mode)
    register_optimizer_step_post_hook(_stepped)
    for name in ("_fused_adagrad_", "_fused_adam_", "_fused_adamw_", "_fused_sgd_"):  # Dynamo's steps call them without hooks
        _after(torch, name, lambda parameters, *_, **__: _written(parameters))
    for storage in (torch.UntypedStorage, torch.TypedStorage):
        for name in ("copy_", "fill_", "__setitem__"):
            _after(storage, name, lambda s, *_, **__: _written(getattr(s, "_untyped_storage", s)))
    _watch_data()
    _after(torch.UntypedStorage, "byteswap", lambda s, *_, **__: _written(s))
    _after(torch.Tensor, "set_", lambda t, *_, **__: _written(t))  # another name of the memory
    _before(torch.Tensor, "__dlpack__", lambda t, *_, **__: _written(t))
    _before(torch.utils.dlpack, "to_dlpack", _written)
    _before(torch.utils, "swap_tensors", _swap)
    group = getattr(torch.distributed, "ProcessGroup", None)
    for name in _RECEIVING:  # collectives write without a version
        _after(group, name, lambda _, *args, **kwargs: _written((args, kwargs)))


def _after(owner, name, then):
    """Calls then(*args) after each call of a method."""
    _run_as_it_is(then, whole=True)

    def around(original):
        def method(*args, **kwargs):
            try:
                return original(*args, **kwargs)
            finally:
                if not torch.compiler.is_compiling():
                    then(*args, **kwargs)

        return method

    _replace(owner, name, around)


def _before(owner, name, first):
    """Calls first(*args) before each call of a function."""
    _run_as_it_is(first, whole=True)

    def around(original):
        def function(*args, **kwargs):
            if not torch.compiler.is_compiling():
                first(*args, **kwargs)
            return original(*args, **kwargs)

        return function

    _replace(owner, name, around)


def _replace(owner, name, around):
    original = getattr(owner, name, None)
    if original is None or hasattr(original, "_hologram"):
        return
    changed = around(original)
    _run_as_it_is(changed)  # PyTorch calls it inside of its tracing too
    changed = functools.wraps(original)(changed)
    changed._hologram = True
    setattr(owner, name, changed)


def _watch_data():
    """`t.data` has a version counter of its own: t's does not show what is written through it, nor that t.data was replaced."""
    data = torch.Tensor.data
    if isinstance(data, property):
        return

    def get(self):
        alias = data.__get__(self)
        if not torch.compiler.is_compiling():
            _written(alias, None)
        return alias

    def put(self, value):
        data.__set__(self, value)
        if not torch.compiler.is_compiling():
            _written(self, None)

    for accessor in (get, put):  # compiled by Dynamo, they would read `self.data`: themselves
        _run_as_it_is(accessor)
    torch.Tensor.data = property(get, put, data.__delete__, data.__doc__)


def _run_as_it_is(function, whole=False):
    """Dynamo, which need not be loaded yet, compiles no frame of the function; `whole`: nor of what it calls."""
    frames = torch._C._dynamo.eval_frame
    try:
        skip = frames._FrameAction.SKIP
        strategy = frames._FrameExecStrategy(skip, skip if whole else frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(function.__code__, strategy)
    except AttributeError:  # another version of PyTorch
        pass


def _stepped(optimizer, *_):
    """Optimizers outside of PyTorch may write in any way."""
    if not torch.compiler.is_compiling():
        _written([group["params"] for group in optimizer.param_groups])


def _mode(module, mode=True):
    """Batch norm moves no version of its statistics, and writes them in training mode alone."""
    if module.training and not mode:
        _written(module._buffers)


def _swap(*tensors):
    """Tensors with weak references cannot be swapped."""
    for t in tensors:
        _core.drop_references(t)


def _written(tree, unknown=_core.forget_kept) -> None:
    if isinstance(tree, (torch.Tensor, torch.UntypedStorage)):
        try:
            storage = tree.untyped_storage() if isinstance(tree, torch.Tensor) else tree
            if storage.device.type != "meta":  # of a FakeTensor too
                _core.memory_written(storage.data_ptr(), storage.nbytes())
        except (RuntimeError, NotImplementedError):  # a subclass or a device without an address
            if unknown:
                unknown()
    elif isinstance(tree, dict):
        for item in tree.values():
            _written(item)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            _written(item)
