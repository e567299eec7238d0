# hologram/onnx/graph.py: the nodes of an ONNX graph, checked and bound to their rows
# mypy: ignore-errors
import contextlib
import re

from hologram.onnx import attributes, table, tensors, wire

_NAMED = {wire.FLOAT: "f", wire.INT: "i", wire.FLOATS: "floats", wire.INTS: "ints", wire.TENSORS: "tensors", wire.TYPE_PROTO: "tp"}

OLDEST = 7


def standard(why):
    """The package onnx, which knows the standard's operators."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"hologram.from_onnx needs the package onnx {why}: pip install 'hologram-compute[onnx]'") from error
    return onnx


def _since(op, version):
    """The opset that brought an operator of the default domain as `version` has it."""
    defs = standard(f"for opset {version}").defs
    try:
        return defs.get_schema(op, version, "").since_version
    except defs.SchemaError:
        return None


class Scope:
    """What the nodes of a model or of a function refer to: versions by domain, the model's functions, its folder."""

    def __init__(self, versions, functions, folder, attributes=None):
        self.versions, self.functions, self.folder = versions, functions, folder
        self.attributes = attributes or {}  # of the call of a function


class Node:
    """A node with its attributes as Python's values."""

    def __init__(self, proto, index, scope):
        self.proto, self.index, self.scope = proto, index, scope
        self.name, self.op = proto.name, proto.op_type
        self.domain = "" if proto.domain == "ai.onnx" else proto.domain
        self.inputs, self.outputs = list(proto.input), list(proto.output)
        self.version = scope.versions.get(self.domain)
        self.row = self.function = None
        self.attributes = {}
        for attribute in proto.attribute:
            value = self._value(attribute)
            if value is not None:
                self.attributes[attribute.name] = value

    def _value(self, attribute):
        if attribute.ref_attr_name:
            return self.scope.attributes.get(attribute.ref_attr_name)
        kind = attribute.type
        if kind == wire.STRING:
            return attribute.s.decode("utf-8", "replace")
        if kind == wire.STRINGS:
            return [s.decode("utf-8", "replace") for s in attribute.strings]
        if kind == wire.TENSOR:
            return tensors.array_of(attribute.t, self.scope.folder)
        if kind == wire.GRAPH:
            return Graph(attribute.g, self.scope)
        if kind in _NAMED:
            value = getattr(attribute, _NAMED[kind])
            return list(value) if kind in (wire.FLOATS, wire.INTS, wire.TENSORS) else value
        raise self.refused(f"attribute {attribute.name!r} of a kind that is not supported")

    def __str__(self):
        name = f" {self.name!r}" if self.name else ""
        return f"node {self.index}{name} ({self.op}, opset {self.version} of {self.domain or 'ai.onnx'}){self._line()}"

    def _line(self):
        """Where the model's program has it, as PyTorch's exporter tells; of the frames the innermost that is not PyTorch's own."""
        text = next((p.value for p in self.proto.metadata_props if p.key == "pkg.torch.onnx.stack_trace"), "")
        frames = re.findall(r'File "([^"]+)", line (\d+)', text)
        own = [frame for frame in frames if "/site-packages/torch/" not in frame[0]] or frames
        return f" at {own[-1][0]}:{own[-1][1]}" if own else ""

    def refused(self, why):
        return NotImplementedError(f"from_onnx: {self}: {why}")

    def bind(self):
        """Finds what computes the node: a row, a function of the model, or the function that the standard defines it by."""
        self.function = self.scope.functions.get((self.domain, self.op, getattr(self.proto, "overload", "")))
        if self.function is not None:
            if self.proto.attribute:
                attributes.check(self, _attributes_of(self.function), {})
            return
        if self.version is None:
            raise self.refused(f"the model imports no opset of domain {self.domain or 'ai.onnx'!r}")
        if self.domain == "" and self.version < OLDEST and _since(self.op, self.version) != _since(self.op, OLDEST):
            raise self.refused(f"the operator is as it was before opset {OLDEST}, the oldest that is supported")
        self.row = table.find(self.domain, self.op, self.version)
        schema = self._schema() if self.row is None else None
        if self.row is None and schema is None:
            raise self.refused("the operator is not supported")
        if schema is None:
            attributes.check(self, attributes.names(self.domain, self.op, self.version))
        else:
            known = schema.attributes.items()
            attributes.check(self, {name: a.required for name, a in known}, {name: a.type.name for name, a in known})

    def _schema(self):
        """The operator's definition, where that is by a function."""
        defs = standard(f"for {self}").defs
        try:
            schema = defs.get_schema(self.op, self.version, self.domain)
        except defs.SchemaError:
            return None
        return schema if schema.has_function or schema.has_context_dependent_function else None

    def defaults(self, function):
        """The values of attributes of a function that a call leaves out."""
        given = {a.name: self._value(a) for a in function.attribute_proto}
        schema = self._schema() if self.function is None else None
        for name, attribute in schema.attributes.items() if schema is not None else ():
            if attribute.default_value.type:
                given[name] = self._value(attribute.default_value)
        return given

    def body(self, types):
        """The function by which the standard defines the operator, for operands of these types."""
        schema = self._schema()
        if schema.has_context_dependent_function:
            versions = schema.context_dependent_function_opset_versions
            chosen = max((v for v in versions if v <= self.version), default=versions[0])
            raw = schema.get_context_dependent_function_with_opset_version(
                chosen, self._plain().SerializeToString(), [t.SerializeToString() for t in types]
            )
        else:
            versions = schema.function_opset_versions
            chosen = max((v for v in versions if v <= self.version), default=versions[0])
            raw = schema.get_function_with_opset_version(chosen)
        return wire.parse(wire.Function, raw, 0, len(raw))

    def _plain(self):
        """The node without references to attributes of the function around."""
        onnx, node = standard(f"for {self}"), self.proto
        node = onnx.NodeProto.FromString(node.raw if isinstance(node, wire.Message) else node.SerializeToString())
        given = list(node.attribute)
        del node.attribute[:]
        for attribute in given:
            if not attribute.ref_attr_name:
                node.attribute.append(attribute)
            elif attribute.name in self.attributes:
                node.attribute.append(onnx.helper.make_attribute(attribute.name, self.attributes[attribute.name]))
        return node


def _attributes_of(function):
    """Names of attributes that calls of a model's function may give: those declared, and those that its nodes refer to."""
    found, nodes = [*function.attribute, *(a.name for a in function.attribute_proto)], [*function.node]
    for node in nodes:
        for attribute in node.attribute:
            found.append(attribute.ref_attr_name)
            nodes += attribute.g.node if attribute.type == wire.GRAPH else ()
    return dict.fromkeys(filter(None, found), False)


class Graph:
    """The nodes of a graph or of a function in order, its constants, and when each value is read last."""

    def __init__(self, proto, scope):
        self.scope = scope
        self.function = function = not hasattr(proto, "initializer")
        self.inputs = [v if function else v.name for v in proto.input]
        self.outputs = [v if function else v.name for v in proto.output]
        self.types = [] if function else [_type_of(v) for v in proto.output]
        self.constants = {} if function else {t.name: self._constant(t, scope) for t in proto.initializer}
        if not function and proto.sparse_initializer:
            raise NotImplementedError("from_onnx: sparse initializers are not supported")
        if scope.folder is not None and scope.folder.own is not None:
            scope.folder.own.start()
        self.nodes = []
        for index, node in enumerate(proto.node):
            node = Node(node, index, scope)
            node.bind()
            self.nodes.append(node)
        self.nodes = _ordered(self.nodes)
        self.captured = self._captures()
        self.last = self._last_uses()

    def closed(self, what):
        """Refuses a graph without one around it that reads what nothing gives."""
        for name in self.captured:
            if not self.function or name not in self.outputs:  # calls of functions may leave out results
                raise ValueError(f"from_onnx: {what} reads {name!r}, which no input, constant or node before gives")
        return self

    @staticmethod
    def _constant(tensor, scope):
        return tensors.array_of(tensor, scope.folder)

    def _captures(self):
        """Names of values of the graph around."""
        known, found = {*self.inputs, *self.constants, ""}, []
        for node in self.nodes:
            found += [name for name in (*node.inputs, *captures_of(node)) if name not in known and name not in found]
            known.update(node.outputs)
        return found + [name for name in self.outputs if name not in known and name not in found]

    def _last_uses(self):
        """By node: the names that nothing behind it reads."""
        seen, out = set(self.outputs), []
        for node in reversed(self.nodes):
            used = {*node.inputs, *node.outputs, *captures_of(node)}
            out.append([name for name in used if name not in seen])
            seen |= used
        return out[::-1]


def _ordered(nodes):
    """The nodes, each behind those whose results it reads: ONNX Runtime takes them in any order, and its tools add some at the end."""
    maker = {name: i for i, node in enumerate(nodes) for name in node.outputs if name}
    reads = [{maker[name] for name in (*node.inputs, *captures_of(node)) if name in maker} for node in nodes]
    if all(j < i for i, found in enumerate(reads) for j in found):
        return nodes
    import graphlib

    with contextlib.suppress(graphlib.CycleError):  # what has no order is refused by the name of what is read
        return [nodes[i] for i in graphlib.TopologicalSorter(dict(enumerate(reads))).static_order()]
    return nodes


def captures_of(node):
    """Names that the graphs among a node's attributes take from around."""
    return [name for value in node.attributes.values() if isinstance(value, Graph) for name in value.captured]


def _type_of(info):
    """(dtype, sizes) of a value, 0 for those that are open; None where the model does not say."""
    kind = info.type
    if not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
        return None
    return tensors.dtype_of(kind.tensor_type.elem_type), [d.dim_value for d in kind.tensor_type.shape.dim]
