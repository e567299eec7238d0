# hologram_torch/archive.py: export(): a model as a file that runs without PyTorch
import dataclasses
import errno
import functools
import inspect
import json
import os

import torch
from hologram import _core, _export

from . import counters
from .capture import exported
from .graph import dtypes
from .graph.symbols import Unsupported
from .options import Options
from .translate import faults
from .translate.exported import ExportedGraph
from .translate.steps import Steps

_PLAIN = (bool, int, float, str, type(None))


@dataclasses.dataclass(frozen=True)
class Report:
    """What export() wrote. fingerprint: names the whole content; methods: name → operations of the graph; tensor_bytes:
    of weights and state, those shared counted once; targets: machines that it has code for; left: names of operators that
    stay with PyTorch."""

    path: str
    fingerprint: str
    bytes: int
    methods: dict
    tensors: int
    tensor_bytes: int
    state: tuple
    targets: tuple
    left: tuple = ()


def export(model, args=None, path=None, *, kwargs=None, dynamic_shapes=None, methods=None, isas=None, padding=None,
           allow_torch=False, **options):  # fmt: skip
    """Writes `model` as an archive that `hologram.load` runs with NumPy alone.

    model: a torch.nn.Module on the CPU, in the mode (eval, train) that calls shall have. args, kwargs: example arguments of its
    forward(): tensors, plain values, and tuples, lists and dicts of them; plain values become part of the program.
    dynamic_shapes: as in torch.export.export. methods: in place of args, name → dict(args=…, kwargs=…, dynamic_shapes=…,
    padding=…, function="forward"): several entry points (methods of the module) that share weights. isas: instruction sets that
    machine code is stored for, of "sse42", "avx2", "avx512", "amx", "neon", "wasm32-simd128" (for browsers, docs/web.md) and "wgsl"
    (kernels as text, docs/webgpu.md); None: the first three (on AArch64 "neon"); (): none, every machine compiles for itself.
    padding: name of an input → a number with which it may be filled up along the sizes that dynamic_shapes leaves open, without a
    change to the rest of the results (tokens and their mask: 0); servers join requests by it.
    allow_torch: operators that have no native kernel stay with PyTorch, and all of a method whose sizes are data: such an
    archive is loaded where hologram_torch is installed and the archive is trusted, and has no machine code. options: as in
    torch.compile(options=…). Buffers that a method writes become the archive's state.

    → Report. The file appears when it is whole; a failed export leaves the old one. This user trusts what they export: the
    fingerprint goes on their list (`hologram.load`), where there is one.

    Raises TypeError and ValueError for wrong arguments, NotImplementedError naming operators that have no native kernel (with
    allow_torch: that no file can name), OSError.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"export: expected a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"export: path must name a file, got {path!r}")
    if (args is None) == (methods is None):
        raise TypeError("export: pass either args or methods")
    if methods is None:
        methods = {"forward": {"args": args, "kwargs": kwargs, "dynamic_shapes": dynamic_shapes, "padding": padding}}
    elif kwargs is not None or dynamic_shapes is not None or padding is not None:
        raise TypeError("export: with methods, kwargs, dynamic_shapes and padding belong to each of them")
    chosen = Options.make(None, options or None)
    _check_folder(path)
    made = {name: _captured(model, name, chosen, allow_torch, **asked) for name, asked in methods.items()}
    return _write(os.fspath(path), made, chosen, isas)


def export_program(program, path, *, isas=None, allow_torch=False, **options):
    """Writes a torch.export.ExportedProgram as an archive with the method "forward", which takes and gives its arrays by
    position: the tensors among the program's arguments and results, in order. Otherwise as export()."""
    if not isinstance(program, torch.export.ExportedProgram):
        raise TypeError(f"export_program: expected a torch.export.ExportedProgram, got {type(program).__name__}")
    chosen = Options.make(None, options or None)
    _check_folder(path)
    program = exported.decomposed(program)
    weights = {**program.constants, **program.state_dict}
    made = {"forward": _Method("forward", program, weights.__getitem__, chosen, allow_torch)}
    return _write(os.fspath(path), made, chosen, isas)


def _check_folder(path):
    """Before the long work: whether the file can be written."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "export: there is no such folder", folder)
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "export: path must name a file, this is a folder", os.fspath(path))
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "export: the folder cannot be written to", folder)


def _write(path, made, chosen, isas) -> Report:
    state = set().union(*(method.graph.state for method in made.values()))
    writer = _core.ArchiveWriter(path)
    tensors = {}  # name → (number, tensor)
    for method in made.values():
        for source in method.graph.sources:
            if source is not None and source[0] == "tensor":
                _add_tensor(writer, tensors, state, *source[1:])
    shared = exported.sharing_memory({name: tensor for name, (_, tensor) in tensors.items()}, state)
    if shared is not None:
        raise NotImplementedError(f"export: the model writes {shared[0]}, whose memory {shared[1]} shares; {exported.APART}")
    for method in made.values():
        method.write(writer, {name: number for name, (number, _) in tensors.items()}, chosen)
    left = sorted({"::".join(call["operator"][:2]) for method in made.values() for call in method.graph.left if call})
    fingerprint, written = _export.finish(writer, path, isas, compiled=not left)
    storages = {t.data_ptr(): t.numel() * t.element_size() for _, t in tensors.values()}
    return Report(
        path, fingerprint, os.path.getsize(path), {name: method.operations for name, method in made.items()},
        len(tensors), sum(storages.values()), tuple(sorted(state)),
        tuple(written["targets"]), tuple(left),
    )  # fmt: skip


def _captured(model, name, options, allow_torch, args=(), kwargs=None, dynamic_shapes=None, padding=None, function="forward"):
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"export: args must be a tuple of the arguments of {function}(), got {type(args).__name__}")
    entry = model if function == "forward" else _Entry(model, function)
    kwargs = dict(kwargs or {})
    _check_arguments((tuple(args), kwargs))
    try:
        program = exported.capture(entry, args, kwargs, dynamic_shapes)
    except Unsupported as refusal:
        raise NotImplementedError(f"export: {name}: {refusal}") from None
    prefix = "" if entry is model else "model."
    method = _Method(name, program, lambda path: exported.find(entry, path), options, allow_torch, prefix)
    names = list(inspect.signature(getattr(model, function)).parameters)
    method.structure = _structure(program.call_spec, names, (tuple(args), kwargs), method.graph)
    method.padding = _export.padding_of(padding, [name for name, *_ in method.graph.inputs])
    method.dim_names = _dim_names(dynamic_shapes, names, (tuple(args), kwargs), method.graph.inputs)
    return method


class _Method:
    """One entry point. structure: how arguments and results nest, None: they are arrays by position; dim_names: names of sizes."""

    structure, dim_names, padding = None, {}, {}

    def __init__(self, name, program, find, options, allow_torch, prefix=""):
        self.name = name
        copied = _Copy(program) if allow_torch else None
        try:
            self.graph = ExportedGraph(program, find, allow_torch, options=options)
            self.graph.run()
        except Unsupported as refusal:
            if not allow_torch:
                raise NotImplementedError(f"export: {name}: {refusal}") from None
            self.graph = _stepwise(name, copied, find, options, refusal)
        self.graph.rename(lambda path: path.removeprefix(prefix), lambda path: f"{name}/{path}")
        self.operations = str(self.graph.graph).count("\n%")

    def write(self, writer, numbers, options):
        graph = self.graph
        symbols, used = [], set()
        for number, (_, least, most) in enumerate(graph.sizes):
            name = self.dim_names.get(f"s{number}", f"s{number}")
            name = f"s{number}" if name in used else name
            used.add(name)
            symbols.append((name, least, most))
        parameters = [
            (s[0], s[1]) if s[0] == "input" else (s[0], numbers[s[1]]) for s in graph.sources
        ]  # fmt: skip
        inputs = {p: number for p, (kind, number, *_) in enumerate(graph.sources) if kind == "input"}
        checks = faults.written(graph.host.fault, inputs.get)
        more = {"torch": graph.left, "faults": checks} if graph.plain is None else {"steps": graph.plain}
        for result in graph.plain["results"] if graph.plain else ():
            called = {str(symbol): symbols[i][0] for i, (symbol, *_) in enumerate(graph.sizes)}
            result["shape"] = [called.get(n, n) for n in result.get("shape", ())]
        more["padding"] = self.padding
        structure = {**(self.structure or {}), **{name: value for name, value in more.items() if value}}
        results = [(f"result{i}", dtype, shape) for i, (dtype, shape) in enumerate(graph.result_types)]
        method = writer.add_method(
            self.name, graph.graph, symbols, graph.inputs, results, parameters, graph.guards,
            json.dumps(structure) if structure else "",
            options.reproducible, options.fast,
        )  # fmt: skip
        for loop in graph.loops:
            writer.add_loop(method, **loop)


class _Copy:
    """A program before translating changes its graph."""

    def __init__(self, program):
        graph = torch.fx.Graph()
        returned = graph.graph_copy(program.graph_module.graph, {})
        graph.output(returned)
        self.graph_module = torch.fx.GraphModule(program.graph_module, graph)
        self.graph_signature, self.range_constraints = program.graph_signature, program.range_constraints
        self.constants = program.constants


def _stepwise(name, program, find, options, refusal):
    """A method that no graph can hold: PyTorch runs all of it."""
    try:
        graph = Steps(program, find, f"{refusal}", options=options)
        graph.run()
    except Unsupported as second:
        raise NotImplementedError(f"export: {name}: {refusal}" + (f"; {second}" if f"{second}" != f"{refusal}" else "")) from None
    counters.log.warning("export: PyTorch runs every operator of %s, since a graph cannot hold %s", name, refusal)
    return graph


class _Entry(torch.nn.Module):
    """Another method of a module as forward()."""

    def __init__(self, model, function):
        super().__init__()
        self.model, method = model, getattr(model, function)
        # Of the method's own signature: torch.export matches dynamic_shapes with it and names inputs after it.
        self.forward = functools.update_wrapper(lambda *args, **kwargs: method(*args, **kwargs), method)
        self.train(model.training)


def _add_tensor(writer, tensors, state, name, tensor, shape, strides):
    if name in tensors:
        return
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        raise ValueError(f"export: {name} is on {tensor.device}; move the model to the CPU")
    if list(tensor.shape) != shape:
        raise ValueError(f"export: {name} changed its shape while it was captured")
    if list(tensor.stride()) != strides:
        tensor = torch.empty_strided(shape, strides, dtype=tensor.dtype).copy_(tensor)
    span = 1 + sum((n - 1) * step for n, step in zip(shape, strides)) if tensor.numel() else 0
    number = writer.add_tensor(
        name, dtypes.NAME[tensor.dtype], shape, strides, tensor.data_ptr(), span * tensor.element_size(), name in state
    )
    tensors[name] = (number, tensor)


# --- how arguments and results nest
def _check_arguments(arguments):
    for leaf in torch.utils._pytree.tree_leaves(arguments):
        if isinstance(leaf, torch.Tensor):
            if leaf.device.type != "cpu" or leaf.layout is not torch.strided:
                raise ValueError(f"export: example tensors are dense and on the CPU, got one on {leaf.device}")
        elif not isinstance(leaf, _PLAIN):
            raise TypeError(f"export: arguments are tensors and plain values, got {type(leaf).__name__}")


def _structure(call_spec, names, arguments, graph):
    numbers = iter(range(len(graph.inputs)))
    leaves = (
        {"input": next(numbers)} if isinstance(leaf, torch.Tensor) else {"value": leaf}
        for leaf in torch.utils._pytree.tree_leaves(arguments)
    )
    positional, named = call_spec.in_spec.children()
    listed = [(names[i] if i < len(names) else f"argument{i}", _tree(spec, leaves)) for i, spec in enumerate(positional.children())]
    listed += [(name, _tree(spec, leaves)) for name, spec in zip(named.context, named.children(), strict=True)]
    outputs = ({kind: value} for kind, value in graph.returned)
    return {"arguments": listed, "outputs": _tree(call_spec.out_spec, outputs)}


def _tree(spec, leaves):
    if spec.is_leaf():
        return next(leaves)
    parts = [_tree(child, leaves) for child in spec.children()]
    kind = spec.type if isinstance(spec.type, type) else tuple  # namedtuples' is a function
    if issubclass(kind, dict) and all(isinstance(key, str) for key in spec.context):
        return {"dict": dict(zip(spec.context, parts))}
    if issubclass(kind, (tuple, list)):
        return {"tuple" if issubclass(kind, tuple) else "list": parts}
    raise NotImplementedError(f"export: arguments and results are tuples, lists and dicts with string keys, not {spec.type.__name__}")


def _dim_names(dynamic_shapes, names, arguments, inputs):
    """Text of a size → the name that its Dim was given, where dynamic_shapes is written with torch.export.Dim."""
    args, kwargs = arguments
    if isinstance(dynamic_shapes, (tuple, list)):
        dynamic_shapes = dict(zip(names, dynamic_shapes))
    if not isinstance(dynamic_shapes, dict):
        return {}
    found, number = {}, 0
    for name, value in [*zip(names, args), *kwargs.items()]:
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        spec = dynamic_shapes.get(name)
        if isinstance(value, torch.Tensor) and isinstance(spec, (dict, tuple, list)):
            shape = inputs[number][2]
            for axis, dim in spec.items() if isinstance(spec, dict) else enumerate(spec):
                label = getattr(dim, "__name__", None)
                if isinstance(dim, torch.export.Dim) and label is not None and label.isidentifier():
                    found.setdefault(str(shape[axis]), label)
        number += len(tensors)
    return found


__all__ = ["Report", "export", "export_program"]
