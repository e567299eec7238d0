# hologram_torch/capture/exported.py: models captured whole by torch.export, in operators that lowerings know
import contextlib
from unittest import mock

import torch
from torch.export.graph_signature import InputKind
from torch.nn import functional
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .. import holders, lowering
from ..graph.symbols import Unsupported
from . import decomp, matrices, recurrent, rewrite, unfold

_WHOLE = {f"aten.{name}.default" for name in decomp._WHOLE}


def capture(model, args, kwargs=None, dynamic_shapes=None):
    """The exported program of model(*args, **kwargs), without gradients."""
    with our_operators(), torch.no_grad():
        program = torch.export.export(model, tuple(args), kwargs, dynamic_shapes=dynamic_shapes, strict=False)
        try:
            return decomposed(program)
        except AssertionError:  # PyTorch's tracing has no graph that writes one of several arguments in the same memory
            own = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
            shared = sharing_memory({**program.constants, **dict(own)})
            if shared is None:
                raise
            raise Unsupported(f"the model writes tensors that share memory, as {' and '.join(shared)} do; {APART}") from None


APART = "name one of them alone, or clone() the other"


def sharing_memory(tensors, among=None):
    """Two names of tensors whose memory overlaps, the first one of `among`; None."""
    plain = {name: t for name, t in tensors.items() if isinstance(t, torch.Tensor) and not is_traceable_wrapper_subclass(t)}
    plain = {name: t for name, t in plain.items() if t.layout is torch.strided}
    for name in plain if among is None else filter(among.__contains__, plain):
        for other in plain:
            if other != name and holders.overlap(plain[name], plain[other]):
                return name, other
    return None


@contextlib.contextmanager
def our_operators():
    """Inside, tracing finds attention as one operator, and so a recurrent layer; circular padding is a concatenation."""
    sdpa = mock.patch.object(functional, "scaled_dot_product_attention", rewrite._attend)
    with sdpa, mock.patch.object(torch._C._nn, "pad", rewrite.padded), recurrent.OurLayers():
        yield


def decomposed(program):
    """An exported program in operators that lowerings know."""
    with our_operators(), torch.no_grad():
        program = without_tokens(program.run_decompositions(_decompositions()))
    unfold.unfold(program.graph_module)
    return program


def without_tokens(program):
    """Tokens order operators with effects, as checks of results; the order of the graph says the same."""
    if any(spec.kind is InputKind.TOKEN for spec in program.graph_signature.input_specs):
        with contextlib.suppress(ImportError):  # where PyTorch's pass is not, the translator refuses tokens
            from torch.export._remove_effect_tokens_pass import _remove_effect_tokens

            return _remove_effect_tokens(program)
    return program


def find(model, path):
    """The parameter or buffer of this name as the module holds it now; of a tensor that wraps others, which torch.export makes a
    parametrization of its own, the wrapped one."""
    owner, _, name = path.rpartition(".")
    outer, mark, outside = f".{owner}".rpartition(".parametrizations.")
    if mark and not parametrize.is_parametrized(module := model.get_submodule(outer[1:]), outside):
        return [x for *_, x in wrapped(_held(module, outside))][int(name.removeprefix("original"))]
    return _held(model.get_submodule(owner), name)


def _held(module, name):
    found = module._parameters.get(name)
    return found if found is not None else module._buffers[name]


def wrapped(tensor):
    """The plain tensors in one that wraps others, each with the tensor that holds it and its name there; in torch.export's order."""
    for name in tensor.__tensor_flatten__()[0]:
        x = getattr(tensor, name)
        yield from wrapped(x) if is_traceable_wrapper_subclass(x) else [(tensor, name, x)]


def _decompositions():
    """The backend's table, and what AOT autograd does beside it: operators that are made of others, as known now, are taken apart."""
    composite = torch.export.default_decompositions().items()
    own = {op: function for op, function in composite if not lowering.has_lowering(str(op)) and str(op) not in _WHOLE}
    checked = matrices.table()  # in archives PyTorch looks at what they found behind its own call of them
    ours = {op: function for op, function in decomp.table().items() if op not in checked}
    return own | ours | recurrent.decompositions()
