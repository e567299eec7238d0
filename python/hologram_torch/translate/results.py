# hologram_torch/translate/results.py: what a graph gives back, and whose memory each result lies in
import operator

import torch
from torch.fx import Node

from ..graph import dtypes
from ..graph.builder import Value, contiguous_strides
from . import sharing
from .calls import SEQUENCES, Calls, Opaque, value_of
from .host import HostCall, _Operand, constant

COPY = torch.ops.aten.copy_.default


class Results(Calls):
    """The part of a Translator that writes the graph's outputs. results: as _core.torch_call takes them."""

    def __init__(self, module, layouts=None, hidden=(), call=None, body=None):
        """As of Translator."""
        super().__init__(module, call, body)
        self.layouts = layouts or {}
        self.hidden = hidden
        self.results = []
        self._mutated = {}

    def _output(self, node):
        for target, value in self._mutated.items():
            self.graph.output(value, [], self.parameter_of[target])
            self.outputs += 1
        (values,) = node.args
        returned = list(values) if isinstance(values, SEQUENCES) else [values]
        written = [call.args[1] for call in self.module.graph.find_nodes(op="call_function", target=COPY)]
        self._shared = sharing.find(returned, self.hidden, bool(self.symbols.hints), written)
        self._places = {}  # node whose memory several results share → output of the graph
        self._seen = {}  # node that only PyTorch can show as it is, and what it is a view of → value of PyTorch's
        for position, item in enumerate(returned):
            if isinstance(item, Node) and position not in self.hidden and self._is_turned(item):
                self._shown(item)
        viewed = {}  # node that is a view → position of the result
        for position, item in enumerate(returned):
            again = viewed.get(item) if isinstance(item, Node) and position not in self.hidden else None
            self.results.append(self._result(item, position) if again is None else ("again", again))
            if self.results[-1][0].endswith("_view"):
                viewed[item] = position

    def _result(self, item, position=None):
        if item is None:
            return ("none", 0)
        if type(item) is int:
            return ("integer", item)
        if not isinstance(item, Node):
            return self._fixed(item)
        value = self._seen[item] if item in self._seen else self._held(item)
        if item.target is COPY:
            return ("argument", self.parameter_of[item.args[0]])
        if item in self.parameter_of:
            return ("argument", self.parameter_of[item])
        if type(value) is Value and value.dtype == dtypes.HOST and not isinstance(value_of(item), torch.Tensor):
            self.graph.output(value, [])  # a number
            self.outputs += 1
            return ("output", self.outputs - 1)
        base, root = sharing.base_of(item), sharing.root_of(item)
        if root in self.parameter_of and sharing.reinterpreted(item.meta["val"], root.meta["val"]):
            base = root
        if base in self.parameter_of and base is not item and base not in self._mutated:
            return ("argument_view", self.parameter_of[base], *self._seen_from(item, base))
        if type(value) is Value:
            if root in self._shared and position not in self.layouts:
                if base is not root and self.env[base].id not in self._viewing:  # of another dtype
                    base = root if sharing.reinterpreted(item.meta["val"], root.meta["val"]) else None
                if base is not None:
                    alone = not self._shared[root] and position not in self.hidden
                    return self._part_of(base, item, sharing.DETACHED if alone else sharing.VIEW)
            return ("output", self._tensor(item, value, self.layouts.get(position)))
        if value is None:
            return ("none", 0)
        return self._fixed(value) if isinstance(value, (bool, float, str)) else ("integer", value)

    def _is_turned(self, item) -> bool:
        """Whether a result is a view of what the graph computes with the sign, or the imaginary part's, turned: no graph says so."""
        val, root = item.meta.get("val"), sharing.root_of(item)
        if root is item or root in self.parameter_of or not isinstance(val, torch.Tensor) or val.layout is not torch.strided:
            return False
        return not sharing.reinterpreted(val, root.meta["val"])

    def _shown(self, node):
        """The node as a tensor of PyTorch's: by the views that lead to it, of a copy where they begin in the graph."""
        if node in self._seen:
            return self._seen[node]
        source, val, call = sharing.source_of(node), node.meta["val"], sharing.call_of(node)
        if source is None:
            value = self.env[node]
            if value.dtype != dtypes.HOST:
                operand, stored = self._as_stored(value, val, sizes := [])
                copy = HostCall(torch.ops.aten.clone.default, "aten.clone.default", (_Operand(0),), {}, [stored])
                value = self._host_values(_uncounted(copy), [operand], sizes, val, hidden=[()])
        else:
            self._shown(source)
            value = self._call_host_alone(node, call, source)
        self._seen[node] = value
        return value

    def _call_host_alone(self, node, call, source):
        """A view that PyTorch takes of a tensor of its own."""
        before = {n: self.env[n] for n in (source, call)}
        self.env[source] = self._seen[source]
        try:
            self._call_host(call, call.target, value_of(call), counted=False, hidden=True)
            value = self.env[call]
        finally:
            self.env.update(before)
        for index in node.args[1:] if node is not call else ():
            value = value[index]
        self._viewing[value.id] = node
        return value

    def _fixed(self, value):
        """A result that is the same in every call."""
        made = self._host_values(_uncounted(HostCall(constant, "constant", (value,), {})), [], [], Opaque(None))
        self.graph.output(made, [])
        self.outputs += 1
        return ("output", self.outputs - 1)

    def _tensor(self, node, value, strides=None) -> int:
        """A tensor of its own for a node's value, stored as traced unless told otherwise → output of the graph."""
        val = node.meta["val"] if "val" in node.meta else operator.attrgetter(node.target)(self.module)
        if value.dtype == dtypes.HOST:
            strides = []  # a value of PyTorch's own need not have any: a sparse tensor
        elif strides is None:
            strides = self.symbols.sizes(val.stride())
        awaited = self._awaited.pop(value.id, None)
        if awaited is not None and (value.dtype == dtypes.HOST or strides == contiguous_strides(value.shape)):
            return awaited
        if self._viewing.get(value.id, node) is not node:  # a copy of it
            value = self._host_values(HostCall(torch.ops.aten.clone.default, "aten.clone.default", (_Operand(0),), {}), [value], [], val)
        self.graph.output(value, strides)
        self.outputs += 1
        return self.outputs - 1

    def _part_of(self, base, item, bond):
        """A result in memory that others share. `bond`: at least; what no user sees is no base for autograd."""
        if base not in self._places:
            self._places[base] = self._tensor(base, self._seen.get(base, self.env[base]))
        number = self._places[base]
        return ("output", number) if base is item else ("output_view", number, *self._seen_from(item, base, bond))

    def _seen_from(self, item, base, bond=sharing.VIEW):
        """A view's sizes, strides, distance from the beginning of `base`, its dtype where that is another one, and their bond."""
        val, whole = item.meta["val"], base.meta["val"]
        start = self.size(whole.storage_offset()) * whole.dtype.itemsize // val.dtype.itemsize
        distance = self.size(val.storage_offset()) - start
        dtype = None if val.dtype == whole.dtype else val.dtype
        return self.symbols.sizes(val.shape), self.symbols.sizes(val.stride()), distance, dtype, max(bond, sharing.bond(item, base))


def _uncounted(call):
    call.counted = False
    return call
