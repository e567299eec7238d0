# hologram_torch/translate/exported.py: a program of torch.export as a graph that needs no PyTorch
"""Differs from what torch.compile runs: sizes are named by the arguments' shapes, every result is a row-major array of its
own, the model's buffers that it writes are state, and nothing is left to PyTorch that the caller does not allow."""

import operator

import sympy
import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from .. import lines
from ..graph import dtypes
from ..graph.builder import Value, contiguous_strides
from ..graph.symbols import Symbols, Unsupported, hint_of
from . import left
from .calls import Opaque
from .translator import Translator

_WRITES = (OutputKind.BUFFER_MUTATION, getattr(OutputKind, "PARAMETER_MUTATION", None))


class ExportedGraph(Translator):
    """Translates a program. Afterwards: graph; inputs and results as (name or None, dtype, shape) by number; sources: by
    parameter of the graph ("input", number) or, "tensor" of the model or "constant" of this program alone, (kind, name,
    tensor, shape, strides); state: names of tensors that it writes; loops: host calls that are graphs run step after step, as
    arguments of ArchiveWriter.add_loop; left: calls of operators without a kernel, as plain data, None for loops; sizes:
    (SymPy symbol, least, most) by symbol; guards: expressions that are not negative; returned: by result of the program
    ("result", number) or ("value", constant); plain: None, or what its one call of the host does (steps.py)."""

    plain = None

    def __init__(self, program, find, allow_torch=False, **keywords):
        self._allow_torch, self.left, self.loops = allow_torch, [], []
        self._call_of, self._checks = {}, {}  # of nodes; by call
        self.program, self.signature = program, program.graph_signature
        module = program.graph_module
        placeholders = module.graph.find_nodes(op="placeholder")
        self._specs = dict(zip(placeholders, self.signature.input_specs, strict=True))
        self.state = self._write_back(module.graph)
        kept = [i for i, (_, spec) in enumerate(self._specs.items()) if _is_weight(spec) and spec.target not in self.state]
        super().__init__(module, kept, **keywords)
        self.symbols = self._sizes_of = _Sizes(self.graph, program.range_constraints)
        self._find = find  # name of a parameter or buffer → tensor
        self.inputs, self.sources, self.returned = [], [], []
        self.result_types = []

    def run(self):
        for node, spec in self._specs.items():
            val = node.meta.get("val")
            if spec.kind is InputKind.USER_INPUT and isinstance(val, torch.Tensor):
                self._sizes_of.declare(val.shape)
            elif isinstance(val, torch.SymInt):
                raise Unsupported(f"argument {node.name}: whole numbers that calls choose (pass an array)")
        self._translate()
        for number, tensor in self.constants:
            self.sources[number] = ("constant", f"constant{number}", tensor, list(tensor.shape), list(tensor.stride()))
        return self

    def _translate(self):
        super().run()
        looped = {loop["callee"] for loop in self.loops}
        names = sorted({call.name for number, call in enumerate(self.host.calls) if number not in looped})
        if names and not self._allow_torch:
            raise Unsupported(f"operators without a kernel: {', '.join(names)} (allow_torch=True leaves them to PyTorch)")
        if names:
            self.left = [
                None if number in looped else left.written(call, self._checks.get(call, ()))
                for number, call in enumerate(self.host.calls)
            ]  # fmt: skip

    def rename(self, rule, rule_of_constants):
        """Gives the model's tensors other names, and those of the program alone, which other programs call the same."""
        rules = {"tensor": rule, "constant": rule_of_constants}
        self.sources = [("tensor", rules[s[0]](s[1]), *s[2:]) if s[0] in rules else s for s in self.sources]
        self.state = {rule(name) for name in self.state}

    sizes = property(lambda self: self._sizes_of.declared)
    guards = property(lambda self: self._sizes_of.guards)

    def _write_back(self, graph) -> set:
        """Turns results that are new contents of buffers into writes at the end of the graph; → the buffers' names."""
        output = graph.output_node()
        written, kept = set(), []
        by_target = {spec.target: node for node, spec in self._specs.items() if spec.target is not None}
        for spec, value in zip(self.signature.output_specs, output.args[0], strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                kept.append(value)
                continue
            if spec.kind not in _WRITES:
                raise Unsupported(f"the model writes into its argument {spec.target}" if spec.target else f"result {spec.kind}")
            with graph.inserting_before(output):
                place = by_target[spec.target]
                graph.call_function(torch.ops.aten.copy_.default, (place, value)).meta["val"] = place.meta["val"]
            written.add(spec.target)
        output.args = (tuple(kept),)
        return written

    # --- what Translator asks
    def _step(self, node, module):
        try:
            super()._step(node, module)
        except Unsupported as refusal:
            if type(refusal) is _Refused:  # by a graph inside of this one
                raise
            reason = f"{refusal}"
            if free_unbacked_symbols(node.meta.get("val")):
                reason += ", which values determine, not the arguments' shapes"
                reason += "" if self._allow_torch else " (allow_torch=True leaves the method to PyTorch)"
            raise _Refused(f"{node.target}{lines.at(lines.of(node))}: {reason}") from None

    def loop(self, loop, operands, val):
        values = self._host_values(loop, operands, [], val)
        steps, batch = operands[0].shape[:2]
        results = [path[0] if path[0] < loop.gives else -1 for path, _, _ in loop.results]
        self.loops.append({
            "callee": len(self.host.calls) - 1, "graph": loop.graph, "operands": loop.roles, "results": results, "steps": steps,
            "sizes": [] if type(batch) is int else [batch], "descending": loop.descending,
        })  # fmt: skip
        return values

    def _held(self, node):
        value = self.env[node]
        if type(value) is Opaque:
            raise Unsupported(f"value of {node}")
        return value

    def _whole(self, node, val):
        return self.symbols.size(val)

    def _stated(self, fake):
        return self.symbols.sizes(fake.shape), self.symbols.sizes(fake.stride())

    def _check(self, node, target):
        self.env[node] = None  # an archive runs without it

    def _fixed(self, value):
        raise Unsupported(f"result {value!r}")

    def _call_host(self, node, target, val, reason="", counted=True):
        if val is not None or node.users:
            super()._call_host(node, target, val, reason, counted)
            self._call_of[node] = self.host.calls[-1]
            return
        # An operator that only checks values: after the one call that made them.
        made = {self._producer(n)[0] for n in node.all_input_nodes}
        call = self._call_of.get(next(iter(made))) if len(made) == 1 else None
        if call is None:
            raise Unsupported(f"operator {target}, which only checks values,")
        self._checks.setdefault(call, []).append(left.check(node, self._producer))
        self.env[node] = None

    @staticmethod
    def _producer(node):
        """The operator that a value is from, and its place among the results."""
        path = []
        while node.target is operator.getitem:
            path.insert(0, node.args[1])
            node = node.args[0]
        return node, path

    def _tensor_parameter(self, example, chain=None):
        number, value = super()._tensor_parameter(example, chain)
        self.sources.append(None)
        return number, value

    def _object_parameter(self):
        raise Unsupported("values that only PyTorch holds")

    def _placeholder(self, node, position):
        spec, val = self._specs[node], node.meta.get("val")
        if isinstance(val, torch.Tensor):
            if not dtypes.is_native(val):
                raise Unsupported(f"{node.name} of dtype {val.dtype}")
            if spec.kind is InputKind.USER_INPUT or not _dense(val):
                val = node.meta["val"] = torch.empty_like(val, memory_format=torch.contiguous_format)
        super()._placeholder(node, position)
        if not isinstance(val, torch.Tensor):
            return
        number = self.parameter_of[node]
        if spec.kind is InputKind.USER_INPUT:
            self.sources[number] = ("input", len(self.inputs))
            self.inputs.append((node.name, dtypes.NAME[val.dtype], self.symbols.sizes(val.shape)))
        else:
            constant = spec.kind is InputKind.CONSTANT_TENSOR
            tensor = self.program.constants[spec.target] if constant else self._find(spec.target)
            kind = "constant" if constant else "tensor"
            self.sources[number] = (kind, spec.target, tensor, list(val.shape), list(val.stride()))

    def _is_turned(self, item) -> bool:
        return False  # what archives give are arrays of their own

    def _result(self, item, position=None):
        if not isinstance(item, torch.fx.Node):
            self.returned.append(("value", item))
            return "none", 0
        value = self.env[item]
        if type(value) is not Value or value.dtype == dtypes.HOST:
            raise Unsupported(f"result {item} is no array")
        self.graph.output(value, contiguous_strides(value.shape))
        self.returned.append(("result", len(self.result_types)))
        self.result_types.append((value.dtype, list(value.shape)))
        return "none", 0


class _Sizes(Symbols):
    """Sizes by the arguments' shapes. What tracing assumes of them becomes a condition that calls check."""

    def __init__(self, graph, ranges):
        super().__init__(graph)
        self.ranges = ranges
        self.declared, self.guards = [], []

    def declare(self, shape):
        for n in shape:
            if type(n) is int:
                continue
            self.environment = n.node.shape_env
            for symbol in sorted(n.node.expr.free_symbols, key=str):
                if symbol in self.known:
                    continue
                bounds = self.ranges.get(symbol) or self.environment.bound_sympy(symbol)
                least, most = max(int(bounds.lower), 1), 2**48
                if bounds.upper.is_Integer and int(bounds.upper) < most:
                    most = int(bounds.upper)
                self.known[symbol] = self.graph.new_symbol()
                self.hints.append(hint_of(self.environment, symbol))
                self.declared.append((symbol, least, most))

    def _new_symbol(self, e, example):
        raise Unsupported(f"size {e}, which the arguments' shapes do not determine")

    def _guard(self, condition) -> bool:
        known = self.environment._maybe_evaluate_static(condition)
        if known is not None:
            return bool(known)
        holds = bool(condition.xreplace(self._hinted()))
        relation = condition if holds else sympy.Not(condition)
        kind, (left, right) = type(relation).__name__, relation.args if relation.args else (None, None)
        differences = {
            "GreaterThan": [left - right], "LessThan": [right - left], "StrictGreaterThan": [left - right - 1],
            "StrictLessThan": [right - left - 1], "Equality": [left - right, right - left],
        }.get(kind)  # fmt: skip
        if differences is None:
            raise Unsupported(f"condition {condition} on sizes")
        self.guards += [self.expr(d) for d in differences]
        return holds

    def _hinted(self):
        return {symbol: self.hints[number] for number, (symbol, *_) in enumerate(self.declared)}


class _Refused(Unsupported):
    """Names the operator and the model's line."""


def _is_weight(spec) -> bool:
    return spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def _dense(val) -> bool:
    """Whether a tensor of fixed sizes has no gaps and no element twice, whatever the order of its axes."""
    step = 1
    for stride, n in sorted((stride, n) for stride, n in zip(val.stride(), val.shape) if n != 1):
        if stride != step:
            return False
        step *= n
    return True
