# hologram_torch/translate/translator.py: an FX graph of ATen operators → a Hologram graph
import operator

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.immutable_collections import immutable_dict

from .. import counters, lines, lowering, owners, precision
from ..graph import dtypes
from ..graph.builder import Left, Value, contiguous_strides
from ..graph.symbols import Unsupported, hint
from ..options import Options, strict
from . import collectives, faults, inplace, refusals
from .calls import SEQUENCES, Opaque, value_of
from .host import HostCall, _Operand
from .results import COPY, Results


class Translator(Results):
    """Translates one graph. Afterwards: graph, args and results for the native callable, host, constants, static."""

    def __init__(self, module, static_inputs=(), keep_static=True, options=None, layouts=None, treatment=precision.EXACT, hidden=(),
                 call=None, body=None):  # fmt: skip
        """layouts: strides of results, by position, that need not be as traced; hidden: positions of results that no user sees;
        call: graph.symbols.Call; body: what compiles graphs that operators run."""
        super().__init__(module, layouts, hidden, call, body)
        self.at = None  # the operator that is being translated
        self.options = options or Options()
        self.treatment = treatment  # of float32 products
        self.constants = []
        self.static = []
        self.quantised = {}  # id of a dequantised value -> hologram._quantised.Quantised
        self.origins = {}  # number of a node of the graph → (operator, user's line), where anyone captures
        self._node = self._val = None
        self._static_inputs = frozenset(static_inputs) if keep_static else frozenset()
        self._kept = set()  # ids of parameters' values
        writes = module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
        self._written = {node.args[0] for node in writes}  # of placeholders nothing is kept: each call changes them
        self._sizes = {}  # placeholder of a size -> how it is read
        self._indexing = {}  # node whose kernels look at indices, in order → whether no argument decides these
        self._chains = inplace.find(module.graph)
        self._flat = {}  # node of a chain -> the argument after it, its leading axes joined

    def run(self):
        for position, node in enumerate(self.module.graph.find_nodes(op="placeholder")):
            val = node.meta.get("val")
            if isinstance(val, torch.SymInt) and val.node.expr.is_Symbol:  # expressions of them may come earlier
                self._sizes[node] = self._bound(val, position)
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, len(self.args))
            elif node.op == "output":
                self._output(node)
            else:
                self.at = node
                self._located(node)
                self.at = None
        self.args += [how for _, how in self.symbols.formulas]
        self._note_faults()
        return self

    def _note_faults(self):
        """Notes whose indices may be out of range, and who may divide by zero."""
        recipes = faults.Recipes(self, set(self._mutated))
        checks = [recipes.index(node, fixed) for node, fixed in self._indexing.items()]
        checks = [check for check in checks if check.looks or not check.fixed]
        checks += [recipes.division(node) for node in self.env if faults.divides(node)]
        if checks:
            self.host.fault = faults.Faults(checks)

    def _located(self, node):
        """Translates a node; an error says which of the user's lines it is of."""
        first = self.graph.num_nodes
        try:
            self._step(node, self.module)
        except Exception as error:
            error.where = lines.of(node)
            raise
        if counters.captured() and first < self.graph.num_nodes:
            self.origins |= dict.fromkeys(range(first, self.graph.num_nodes), (str(node.target), lines.of(node)))

    # --- what lowerings ask
    @property
    def out(self):
        return self._val

    def is_read(self, k) -> bool:
        """Whether anything reads result k of an operator that has several."""
        return any(user.target is not operator.getitem or user.args[1] == k for user in self._node.users)

    @property
    def out_dtype(self):
        val = self._val
        return dtypes.NAME[(val if type(val) not in (list, tuple) else val[0]).dtype]

    @property
    def out_shape(self):
        val = self._val
        return self.symbols.sizes((val if type(val) not in (list, tuple) else val[0]).shape)

    @property
    def out_dtypes(self):
        val = self._val
        return [dtypes.NAME[v.dtype] for v in (val if type(val) in (list, tuple) else (val,))]

    @property
    def kind(self) -> str:
        return "convolutions" if str(self._node.target).startswith("aten.convolution") else "products"

    @property
    def reproducible(self) -> bool:
        return self.options.reproducible

    def uses(self, index):
        """Whether anything reads result `index` of the operator that is being lowered."""
        picks = (u.args[1] == index and bool(u.users) if u.target is operator.getitem else True for u in self._node.users)
        return any(picks)

    @property
    def out_shapes(self):
        val = self._val
        return [self.symbols.sizes(v.shape) for v in (val if type(val) in (list, tuple) else (val,))]

    def fake(self, index):
        """The fake tensor of the node's positional argument."""
        return self._node.args[index].meta["val"]

    def take(self, x, indices, axis, batch=0):
        self._note_index(indices)
        return super().take(x, indices, axis, batch)

    def scatter(self, x, indices, updates, axis, mode="set", batch=0):
        self._note_index(indices)
        return super().scatter(x, indices, updates, axis, mode, batch)

    def _note_index(self, indices):
        self._indexing[self._node] = _is_constant(indices) and self._indexing.get(self._node, True)

    def refuse_nothing(self, axes, least=1):
        """Leaves an operator to PyTorch whose first operand has no elements along the axes, or fewer than `least`: eager refuses
        it. Where sizes are symbols, a guard says that there are so many."""
        sizes = self.fake(0).shape
        if not all(self.symbols.some(sizes[axis], least) for axis in axes):
            raise Unsupported("an axis without elements")

    def size(self, n):
        return self.symbols.size(n)

    def hint(self, n) -> int:
        """The example value of an int or expression."""
        return n if type(n) is int else n.evaluate(self.symbols.hints)

    def kept(self, x) -> bool:
        """Whether a value depends on the model's parameters alone, so that it is packed once."""
        if x.op == "parameter":
            return x.id in self._kept
        return bool(x.inputs) and all(self.kept(i) for i in x.inputs)

    def loop(self, loop, operands, val):
        """A graph that is run step after step (lowering/recurrent.py), as a call of the host."""
        loop.ready()
        return self._host_values(loop, operands, [], val)

    def same_size(self, a, b) -> bool:
        return a == b

    # --- arguments and constants
    def _tensor_parameter(self, example, chain=None):
        if not dtypes.is_native(example):
            return self._object_parameter()
        try:
            shape, strides = self.symbols.sizes(example.shape), self.symbols.sizes(example.stride())
        except Unsupported:
            return self._object_parameter()
        number = len(self.static)
        self.static.append(False)
        if chain is not None:
            shape = inplace.flat_shape(shape, chain.last)
            strides = contiguous_strides(shape)
        return number, self.graph.parameter(number, dtypes.NAME[example.dtype], shape, strides)

    def _object_parameter(self):
        number = len(self.static)
        self.static.append(False)
        return number, self.graph.parameter(number, dtypes.HOST, [], [])

    def _placeholder(self, node, position):
        val = node.meta.get("val")
        if node.users and all(_is_effect(user) and user.args[0] is node for user in node.users):
            self.args.append(("ignored", 0))  # an effect token: PyTorch passes None
            self.env[node] = None
            return
        if isinstance(val, torch.Tensor):
            chain = self._chains.get(node) if dtypes.is_native(val) else None
            number, value = self._object_parameter() if node in self._loose | self._unsized else self._tensor_parameter(val, chain)
            if chain is not None:
                self._flat[node] = value
                value = self.reshape(value, self.symbols.sizes(val.shape))
            native = value.dtype != dtypes.HOST
            self.static[number] = native and position in self._static_inputs and node not in self._written
            if self.static[number]:
                self._kept.add(value.id)
            self.args.append(("tensor" if native else "object", number))
            self.parameter_of[node] = number
            self.env[node] = value
            if not native:
                self.host_nodes.add(node)
                if val.layout is torch.strided and val.dtype in dtypes.NAME and val.is_neg():
                    self._resolve_negative(node, value, val)
            return
        if isinstance(val, torch.SymInt):
            how = self._sizes[node] if node in self._sizes else self._bound(val, position)
            self.args.append(how or ("ignored", 0))
            self.env[node] = Opaque(node, position) if how is None else self.symbols.size(val)
            return
        if val is None or isinstance(val, (bool, int, float, str, torch.SymFloat, torch.SymBool)):
            self.args.append(("ignored", 0))
            self.env[node] = val if isinstance(val, (bool, int, float, str)) else Opaque(node, position)
            return
        number, self.env[node] = self._object_parameter()  # a process group, a device mesh
        self.args.append(("object", number))
        self.parameter_of[node] = number
        self.host_nodes.add(node)

    def _bound(self, val, position):
        """How a size is read; None: only the host can hold it."""
        try:
            return self.symbols.bind(val, position)
        except Unsupported:
            return None

    def _resolve_negative(self, node, value, val):
        call = HostCall(torch.ops.aten.resolve_neg.default, "aten.resolve_neg.default", (_Operand(0),), {})
        self.env[node] = self._host_values(call, [value], [], val, native=True)
        self.host_nodes.discard(node)

    def _attribute(self, node, module):
        value = operator.attrgetter(node.target)(module)
        if isinstance(value, torch.Tensor):
            if value.numel() == 1 and value.dim() == 0 and dtypes.is_native(value) and _plain(value):
                with unset_fake_temporarily():
                    self.env[node] = self.number(dtypes.NAME[value.dtype], value.item())
                return
            number, parameter = self._tensor_parameter(value)
            self.constants.append((number, value))
            self.env[node] = parameter
            if parameter.dtype == dtypes.HOST:
                self.host_nodes.add(node)
            return
        self.env[node] = value

    # --- steps
    def _step(self, node, module):
        if node.op == "get_attr":
            return self._attribute(node, module)
        if node.op != "call_function":
            raise Unsupported(f"{node.op} {node.target}")
        target = node.target
        val = value_of(node)
        if target is not operator.getitem and collectives.kind_of(target)[0] is not collectives.Wait:
            self.pending.refuse(self.env[n] for n in node.all_input_nodes)
        if target is operator.getitem:
            container = self.env[node.args[0]]
            self.env[node] = value = container[self._plain(node.args[1])]
            if type(value) is Value and value.dtype == dtypes.HOST:
                self.host_nodes.add(node)
        elif target is COPY:
            self._mutate(node)
        elif self._chains and self._update_part(node):
            pass
        elif isinstance(val, (bool, int, float)):
            self.env[node] = val
        elif isinstance(val, torch.SymInt):
            self.env[node] = self._whole(node, val)
        elif isinstance(val, torch.SymFloat):
            self.env[node] = self._real(node, val)
        elif isinstance(val, torch.SymBool):
            self.env[node] = Opaque(node)
        elif getattr(target, "_name", "") == "invoke_subgraph":
            self._inline(node)
        elif val is None and only_checks(target):
            self._check(node, target)
        else:
            self._operator(node, target, val)

    def _check(self, node, target):
        """What only checks values is a call of the host; what guards see to, as sizes and dtypes, is none."""
        self.env[node] = None
        if target is not torch.ops.aten._assert_tensor_metadata.default and any(map(_is_data, node.all_input_nodes)):
            self._call_host(node, target, Opaque(node), counted=False)
            self._run_anyway(self.env[node])

    def _whole(self, node, val):
        try:
            return self.symbols.size(val)
        except Unsupported:
            return Opaque(node)

    def _real(self, node, val):
        try:
            value = self.symbols.real(self, val.node.expr)
        except Unsupported:
            return Opaque(node)
        self.real_nodes.add(node)
        return value

    def _inline(self, node):
        module = self.env[node.args[0]]
        values = [self.env[a] if isinstance(a, Node) else a for a in node.args[2:]]
        hosts = [isinstance(a, Node) and a in self.host_nodes for a in node.args[2:]]
        arguments = iter(zip(values, hosts, strict=True))
        for inner in module.graph.nodes:
            if inner.op == "placeholder":
                self.env[inner], is_host = next(arguments)
                if is_host:
                    self.host_nodes.add(inner)
            elif inner.op == "output":
                self.env[node] = self._plain(inner.args[0])
            else:
                self._step(inner, module)

    def _plain(self, a):
        """An FX argument with nodes replaced by their values."""
        kind = type(a)
        if kind is Node:
            if a in self.host_nodes:
                self._saw_host = True
            value = self.env[a]
            if type(value) is Opaque:
                self._saw_host = True
            return value
        if kind in SEQUENCES:
            return [self._plain(x) for x in a]
        if kind in (dict, immutable_dict):
            return {k: self._plain(x) for k, x in a.items()}
        if kind is slice:
            return slice(self._plain(a.start), self._plain(a.stop), self._plain(a.step))
        return a

    def _operator(self, node, target, val):
        self._node, self._val = node, val
        found = lowering.find(target) if isinstance(target, torch._ops.OpOverload) else None
        reason = "it has no native kernel" if found is None else "only PyTorch holds its result"
        if found is not None and _all_native(val):
            self._saw_host, reason = False, "only PyTorch holds an operand of it"
            if (refusal := self._refusal(node, target, val)) is not None:
                self._call_host(node, target, val, refusal)
                return self._run_anyway(self.env[node])
            args = [self._plain(a) for a in node.args]
            kwargs = {k: self._plain(a) for k, a in node.kwargs.items()}
            if not self._saw_host:
                try:
                    self.env[node] = self._checked(found(self, *args, **kwargs), val)
                    return
                except Left as kind:
                    reason = f"{kind} of CUDA tensors: {owners.choose(str(kind), self.options)}"
                except Unsupported as refusal:
                    reason = f"its native kernel refuses {refusal}"
                except Exception as error:
                    if strict() and "Expr" not in str(error):
                        raise RuntimeError(f"lowering {target} of node {node.name}: {error}") from error
                    reason = f"{type(error).__name__}: {error}"
                    counters.log.debug("%s: %s", target, error, exc_info=True)
        self._call_host(node, target, val, reason)

    def _refusal(self, node, target, val):
        """Why eager refuses the operator, or None: where it is a part of one that tracing took apart, eager ran none such."""
        if str(node.meta.get("original_aten") or target) != str(target):
            return None
        fakes = torch.fx.map_arg((list(node.args), dict(node.kwargs)), lambda n: n.meta.get("val"))
        return refusals.of(target, *fakes, val)

    def _checked(self, value, val):
        """Makes a lowering's result agree with what tracing promised."""
        if type(value) is tuple:
            return tuple(None if v is None else self._checked(v, f) for v, f in zip(value, val, strict=True))
        name, shape = dtypes.NAME[val.dtype], self.symbols.sizes(val.shape)
        if value.dtype != name:
            raise TypeError(f"gives {value.dtype}, tracing {name}")
        if value.shape != shape:
            if all(type(n) is int for n in shape) and all(type(n) is int for n in value.shape):
                raise TypeError(f"gives {value.shape}, tracing {shape}")
            return self.reshape(value, shape)
        return value

    def _update_part(self, node) -> bool:
        for placeholder, chain in self._chains.items():
            if node in chain.steps and node.args[0] in self._flat:
                axis, number, along, index, source, wraps = chain.steps[node]
                self._node = node
                shape = self.symbols.sizes(placeholder.meta["val"].shape)
                flat = inplace.scatter_step(self, self._flat[node.args[0]], shape, chain.last, axis, number, along,
                                            self.env[index], self.env[source], wraps)  # fmt: skip
                self._flat[node] = flat
                self.env[node] = self.reshape(flat, shape)
                return True
        return False

    def _of_host(self, placeholder) -> bool:
        """Whether only the host can write it: what the graph has of a negative view are other numbers."""
        return placeholder in self.host_nodes or placeholder.meta["val"].is_neg()

    def _mutate(self, node):
        target, source = node.args[:2]
        if source in self._flat and target in self._chains:
            self._mutated[target] = self._flat[source]
            self.env[node] = self.env[source]
            return
        if target not in self.parameter_of or self._of_host(target) or source in self.host_nodes:
            raise Unsupported(f"writing into {target}")
        val = target.meta["val"]
        shape = self.symbols.sizes(val.shape)
        value = self.broadcast(self.cast(self.env[source], dtypes.NAME[val.dtype]), shape)
        self._mutated[target] = value
        self.env[node] = value


def _is_data(node) -> bool:
    """Whether contents of tensors decide a node's value."""
    val = value_of(node)
    return not isinstance(val, (bool, int, float, str)) and (isinstance(val, torch.Tensor) or bool(free_unbacked_symbols(val)))


def _is_constant(value) -> bool:
    """Whether a value depends on no argument of the call, but on sizes at most."""
    seen, todo = set(), [value]
    while todo:
        value = todo.pop()
        if value.op in ("parameter", "host_result"):
            return False
        if value.id not in seen:
            seen.add(value.id)
            todo += value.inputs
    return True


def _is_effect(node) -> bool:
    return getattr(node.target, "_name", "") == "with_effects"


def _plain(tensor) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def _all_native(val) -> bool:
    if isinstance(val, torch.Tensor):
        return dtypes.is_native(val)
    return isinstance(val, (list, tuple)) and all(v is None or _all_native(v) for v in val)


def only_checks(target) -> bool:
    name = str(target)
    return "_assert" in name or "sym_constrain" in name


__all__ = ["Translator", "Unsupported", "hint"]
