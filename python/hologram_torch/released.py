# hologram_torch/released.py: weights whose memory freeze() has given back
import torch

_ATTRIBUTES = """shape dtype device layout ndim requires_grad grad is_leaf nbytes itemsize is_sparse is_quantized is_meta is_cpu
    is_cuda is_mkldnn is_nested""".split()
_METHODS = """size dim ndimension numel nelement stride element_size __hash__ __len__ requires_grad_ is_floating_point is_complex
    is_contiguous""".split()
_ALLOWED = {getattr(torch.Tensor, name).__get__ for name in _ATTRIBUTES if hasattr(torch.Tensor, name)}
_ALLOWED |= {getattr(torch.Tensor, name) for name in _METHODS if hasattr(torch.Tensor, name)}


class ReleasedWeight(torch.Tensor):
    """Stands in a module for a parameter or buffer whose values are gone. Its sizes and dtype can be asked for; anything else
    raises RuntimeError."""

    @staticmethod
    def __new__(cls, tensor, name):
        empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        self = torch.Tensor._make_subclass(cls, empty, tensor.requires_grad)
        self._hologram_name = name
        self._is_param = isinstance(tensor, torch.nn.Parameter)
        return self

    def __init__(self, tensor, name):
        super().__init__()

    def __repr__(self, *, tensor_contents=None):
        return f"ReleasedWeight({self._hologram_name!r}, {tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in _ALLOWED:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        names = [x._hologram_name for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, cls)]
        raise RuntimeError(
            f"{getattr(function, '__name__', function)}: the values of {', '.join(map(repr, names))} are gone: "
            "hologram_torch.freeze(..., release_weights=True) kept only what its calls read; load the weights again, "
            "or freeze without release_weights"
        )


def missing(model) -> list:
    """Names of the model's released weights."""
    tables = ((f"{path}.", table) for path, m in model.named_modules() for table in (m._parameters, m._buffers))
    return [f"{prefix}{key}".lstrip(".") for prefix, table in tables for key, x in table.items() if isinstance(x, ReleasedWeight)]


def replace(model, tensors) -> None:
    """Puts a ReleasedWeight in the place of each of these tensors wherever the model's modules hold it."""
    wanted, made = {id(x) for x in tensors}, {}
    for path, module in model.named_modules():
        for table in (module._parameters, module._buffers):
            for key, x in table.items():
                if id(x) in wanted:
                    name = f"{path}.{key}".lstrip(".")
                    table[key] = made[id(x)] = made.get(id(x)) or ReleasedWeight(x, name)
