# hologram_torch/translate/steps.py: a method of an archive whose sizes are data, as operators that PyTorch runs one by one
"""How large a result of such a method is, is known only once it is there (non-maximum suppression, nonzero, x[mask]), which no
graph of an archive can hold: the file has the operators as plain data, in order."""

import math
import operator

import torch
from torch.fx import Node

from .. import lines
from ..graph import dtypes
from ..graph.builder import Value
from ..graph.symbols import Unsupported
from . import left
from .collectives import ANY
from .exported import ExportedGraph

_SPACES = {"operator": operator, "math": math, "torch": torch}  # where functions of sizes come from


class Steps(ExportedGraph):
    """A program, as ExportedGraph has one. Its graph is one call of the host, of all that `plain` says; `refusal`: why it can be
    no graph."""

    def __init__(self, program, find, refusal, **keywords):
        super().__init__(program, find, True, **keywords)
        self._refusal = refusal

    def _translate(self):
        if self.state:
            raise Unsupported(f"{self._refusal}; steps of PyTorch's do not write {', '.join(sorted(self.state))}")
        graph = self.module.graph
        for position, node in enumerate(graph.find_nodes(op="placeholder")):
            self._placeholder(node, position)
        run = self._steps_of(self.module)
        (returned,) = graph.output_node().args
        made = [item for item in returned if isinstance(item, Node)]
        numbers = iter(range(len(made)))
        self.returned = [("result", next(numbers)) if isinstance(item, Node) else ("value", item) for item in returned]
        given = [node for node, value in self.env.items() if type(value) is Value and node.users]
        self.plain = {"given": [node.name for node in given], "run": run, "results": [_described(node) for node in made]}
        self.left = [step for step in run if "operator" in step]
        names = ", ".join(sorted({"::".join(step["operator"][:2]) for step in self.left}))
        token = self.make("host_call", [self.env[node] for node in given], ints=[0, ANY], exprs=[], text=names)
        self.graph.output(self.make("host_result", [token], ints=[0], exprs=[], dtype="u8", shape=[]), [])
        self.result_types = [("u8", [])]

    def _steps_of(self, module) -> list:
        names, run = {}, []
        for node in module.graph.nodes:
            names[node] = left.Named(node.name)
            if node.op == "get_attr":
                names[node] = self._held_by(module, node)
            elif node.op == "call_function":
                run.append(_step_of(node, names))
        return run

    def _held_by(self, module, node):
        value = operator.attrgetter(node.target)(module)
        if isinstance(value, torch.fx.GraphModule):
            given = [inner.name for inner in value.graph.find_nodes(op="placeholder")]
            (returned,) = torch.fx.map_arg(value.graph.output_node().args, lambda n: left.Named(n.name))
            return left.Body({"given": given, "run": self._steps_of(value), "returns": left.as_plain(returned)})
        if not isinstance(value, torch.Tensor) or module is not self.module:
            raise Unsupported(f"{self._refusal}; and no file names {node.target}")
        number, self.env[node] = self._tensor_parameter(value)
        self.constants.append((number, value))
        return left.Named(node.name)


def _step_of(node, names):
    target = node.target
    space = getattr(target, "__module__", "").lstrip("_").partition(".")[0]
    try:
        if isinstance(target, torch._ops.OpOverload):
            called = {"operator": left.name_of(target)}
        elif isinstance(target, torch._ops.HigherOrderOperator):
            called = {"operator": ["higher_order", target._name, ""]}
        elif space in _SPACES:
            called = {"function": [space, target.__name__]}
        else:
            raise Unsupported("no file names it")
        args, kwargs = torch.fx.map_arg((list(node.args), dict(node.kwargs)), names.__getitem__)
        return {**called, "args": left.as_plain(args), "kwargs": left.as_plain(kwargs), "gives": node.name}
    except Unsupported as refusal:
        raise Unsupported(f"{target}{lines.at(lines.of(node))}: {refusal}") from None


def _described(node):
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor):
        return {"from": node.name}
    if val.dtype not in dtypes.NAME or val.layout is not torch.strided:
        raise Unsupported(f"result {node} is no array")
    shape = [n if type(n) is int else str(n) for n in val.shape]
    return {"from": node.name, "dtype": str(val.dtype).removeprefix("torch."), "shape": shape}


class Call:
    """One call of a method: what an ArchiveFunction calls in place of its graph. results: NumPy arrays and numbers."""

    def __init__(self, plain, run):
        self._plain, self._run = plain, run

    @torch.no_grad()
    def __call__(self, callee, operands, sizes, strides):
        given = [left.tensor_of(*operand) for operand in operands]
        values = dict(zip(self._plain["given"], given, strict=True))
        self._run(values)
        taken = {t.untyped_storage().data_ptr() for t in given}
        self.results = [_own(values[result["from"]], taken) for result in self._plain["results"]]
        done = torch.zeros((), dtype=torch.uint8)
        return [(done.data_ptr(), done)]


def _own(value, taken):
    """A result as an array of memory that nothing else has; bfloat16 as its bits."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.resolve_neg().contiguous()
    if value.untyped_storage().data_ptr() in taken:
        value = value.clone()
    taken.add(value.untyped_storage().data_ptr())
    return (value.view(torch.uint16) if value.dtype == torch.bfloat16 else value).numpy()


def reader(plain):
    """What makes a Call of a method's plain data for each call."""
    run = _Run(plain, [result["from"] for result in plain["results"]])
    return lambda: Call(plain, run)


class _Run:
    """Steps as functions over values by name, which are dropped where no later step reads them; `kept`: but these."""

    def __init__(self, plain, kept):
        self._steps, last = [], dict.fromkeys(plain["given"], 0)
        for number, step in enumerate(plain["run"]):
            arguments = tuple(_runnable(left.read(step[key])) for key in ("args", "kwargs"))
            self._steps.append((_function(step), *arguments, step["gives"], []))
            last |= dict.fromkeys((step["gives"], *left.names_in(arguments)), number)
        for name, number in last.items():
            if name not in kept and self._steps:
                self._steps[number][-1].append(name)

    def __call__(self, values):
        for function, args, kwargs, gives, dead in self._steps:
            values[gives] = function(*left.filled(args, values), **left.filled(kwargs, values))
            for name in dead:
                del values[name]


def _runnable(value):
    """What was read, with functions in the places of bodies."""
    if type(value) is left.Body:
        return _body(value.plain)
    if type(value) in (list, tuple):
        return type(value)(map(_runnable, value))
    return {k: _runnable(x) for k, x in value.items()} if type(value) is dict else value


def _body(plain):
    returned = left.read(plain["returns"])
    run = _Run(plain, list(left.names_in(returned)))

    def body(*arguments):
        values = dict(zip(plain["given"], arguments, strict=True))
        run(values)
        return left.filled(returned, values)

    return body


def _function(step):
    if "operator" in step:
        space, name, _ = step["operator"]
        return getattr(torch.ops.higher_order, name) if space == "higher_order" else left.operator_of(step["operator"])
    space, name = step["function"]
    if space == "torch" and not name.startswith("sym_"):
        raise ValueError(f"torch.{name} is no function of sizes")
    return getattr(_SPACES[space], name)
