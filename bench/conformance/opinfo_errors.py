# bench/conformance/opinfo_errors.py: calls that eager refuses, of the operator database
"""What PyTorch's tracing refuses never reaches a backend. What it lets through and eager's kernels refuse (dtypes that they
lack, empty axes, values) a backend has to refuse too."""

import itertools

import torch
from opinfo_edges import edges
from opinfo_worker import home_of
from torch._dynamo import lookup_backend
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
          torch.float16, torch.bfloat16, torch.float64, torch.complex64)  # fmt: skip
SAMPLES = 2  # of an operator, in other dtypes and with axes cut


def inputs(op, device, dtype):
    """Yields (label, (arguments, keywords)) that eager may refuse: the database's own, samples in dtypes that the operator
    is not said to support, and samples with axes of 0 and of 1."""
    if op.error_inputs_func is not None:
        for number, error in enumerate(op.error_inputs(device)):
            sample = error.sample_input
            yield f"error {number}", ((sample.input, *sample.args), sample.kwargs)
    supported = op.supported_dtypes(home_of(device))
    samples = []
    for sample in itertools.islice(op.sample_inputs(device, dtype), 2000):
        samples.append(((sample.input, *sample.args), sample.kwargs))
    samples = [samples[i * len(samples) // SAMPLES] for i in range(SAMPLES)] if len(samples) > SAMPLES else samples
    for other in DTYPES:
        if other not in supported:
            for number, sample in enumerate(samples):
                yield f"{number} in {other}", _cast(sample, dtype, other)
    for number, sample in enumerate(samples):
        for label, cut in edges(sample):
            yield f"{number}: {label}", cut


def _cast(sample, dtype, other):
    return pytree.tree_map_only(torch.Tensor, lambda t: t.detach().to(other) if t.dtype == dtype else t, sample)


class Traced:
    """`function` for the tensors of `inputs`, traced without values as torch.compile does, then compiled by a backend."""

    def __init__(self, function, inputs, clone):
        self.clone = clone
        leaves, self.spec = pytree.tree_flatten(inputs)
        self.leaves, self.where = leaves, [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def flat(*values):
            full = list(leaves)
            for i, value in zip(self.where, values, strict=True):
                full[i] = value
            args, kwargs = pytree.tree_unflatten(full, self.spec)
            return tuple(v for v in pytree.tree_leaves(function(*args, **kwargs)) if isinstance(v, torch.Tensor))

        self.graph = make_fx(flat, tracing_mode="fake", pre_dispatch=True)(*self.tensors())

    def tensors(self):
        fresh = self.clone(self.leaves)
        return [fresh[i] for i in self.where]

    def error(self, backend):
        """What compiling and running it raises; None: nothing."""
        backend = lookup_backend(backend) if isinstance(backend, str) else backend
        try:
            values = self.tensors()
            backend(self.graph, values)(*values)
        except Exception as error:
            return error
        return None


def examine_operators(function, inputs, home, clone) -> tuple[str, str]:
    """The same of operators that run one by one on another device. home: what gives the inputs on the host, with AssertionError
    where some are there already, which a device refuses."""
    try:
        wanted = _raised(function, home(inputs), clone)
    except AssertionError as error:
        wanted = RuntimeError(error)
    if wanted is None:
        return "skip", "eager takes it"
    found, said = _raised(function, inputs, clone), f"eager: {type(wanted).__name__}: {wanted}"[:200]
    if found is None:
        return "fail", f"nothing raised; {said}"
    if not isinstance(found, type(wanted)):
        return "fail", f"{type(found).__name__}: {str(found)[:200]}; {said}"
    return "native", f"{type(found).__name__}: {found}"[:300]


def _raised(function, inputs, clone):
    try:
        args, kwargs = clone(inputs)
        function(*args, **kwargs)
    except Exception as error:
        return error
    return None


def examine(function, inputs, backend, clone) -> tuple[str, str]:
    """(status, message); "native": the backend raises what aot_eager raises; "skip": that raises nothing, or tracing does."""
    try:
        args, kwargs = clone(inputs)
        function(*args, **kwargs)
        return "skip", "eager takes it"
    except Exception as refusal:
        said = f"{type(refusal).__name__}: {refusal}"[:200]
    try:
        traced = Traced(function, inputs, clone)
    except Exception:
        return "skip", "tracing refuses it"
    wanted = traced.error("aot_eager")
    if wanted is None:
        return "skip", "aot_eager takes it"
    found = traced.error(backend)
    if found is None:
        return "fail", f"nothing raised; eager: {said}"
    if not isinstance(found, type(wanted)):
        return "fail", f"{type(found).__name__}: {str(found)[:200]}; eager: {said}"
    return "native", f"{type(found).__name__}: {found}"[:300]
