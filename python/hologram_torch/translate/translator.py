# hologram_torch/translate/translator.py: an FX graph of ATen operators → a Hologram graph
import operator

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node
from torch.fx.immutable_collections import immutable_dict, immutable_list

from .. import counters, device, lines, lowering, precision
from ..graph import dtypes
from ..graph.builder import Builder, Value, contiguous_strides
from ..graph.symbols import Unsupported, hint
from ..options import Options, strict
from . import collectives, faults, inplace, loose, refusals, sharing
from .host import HostCall, HostTable, Stored, _Number, _Operand, _Size, constant, counts, runs_bodies

_COPY = torch.ops.aten.copy_.default
_SEQUENCES = (list, tuple, immutable_list)


class Translator(Builder):
    """Translates one graph. Afterwards: graph, args and results for the native callable, host, constants, static."""

    def __init__(self, module, static_inputs=(), keep_static=True, options=None, layouts=None, treatment=precision.EXACT, hidden=(),
                 call=None, body=None):  # fmt: skip
        """layouts: strides of results, by position, that need not be as traced; hidden: positions of results that no user sees;
        call: graph.symbols.Call; body: what compiles graphs that operators run."""
        super().__init__(call)
        self.module = module
        self.at = None  # the operator that is being translated
        self._body = body
        self.options = options or Options()
        self.treatment = treatment  # of float32 products
        self.layouts = layouts or {}
        self.hidden = hidden
        self.env = {}
        self.host = HostTable()
        self.host_nodes = set()  # FX nodes whose values only the host holds
        self.real_nodes = set()  # FX nodes that are floats made of sizes
        self.args, self.results, self.constants = [], [], []
        self.parameter_of = {}  # placeholder -> parameter number
        self.static = []
        self.quantised = {}  # id of a dequantised value -> hologram._quantised.Quantised
        self.last_random = None
        self.pending = collectives.Pending()
        self.outputs = 0
        self._awaited = {}  # id of a value that a collective has completed → output of the graph
        self._viewing = {}  # id of a value that lies in memory of another one of PyTorch's → its node
        self.fallbacks = []
        self._node = self._val = None
        self._static_inputs = frozenset(static_inputs) if keep_static else frozenset()
        self._kept = set()  # ids of parameters' values
        self._mutated = {}
        self._sizes = {}  # placeholder of a size -> how it is read
        self._indexing = {}  # nodes whose kernels look at indices, in order
        self._loose = loose.find(module.graph)
        self._unsized = loose.unsized(module.graph)
        self._chains = inplace.find(module.graph) if device.here() == "cpu" else {}  # scatters of a GPU are PyTorch's
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
        checks = [recipes.index(node) for node in self._indexing]
        checks += [recipes.division(node) for node in self.env if faults.divides(node)]
        if checks:
            self.host.fault = faults.Faults(checks)

    def _located(self, node):
        """Translates a node; an error says which of the user's lines it is of."""
        try:
            self._step(node, self.module)
        except Exception as error:
            error.where = lines.of(node)
            raise

    # --- what lowerings ask
    @property
    def out(self):
        return self._val

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
        if not _is_constant(indices):
            self._indexing[self._node] = None

    def refuse_nothing(self, axes):
        """Leaves an operator to PyTorch whose first operand has no elements along the axes: eager refuses it. Where sizes are
        symbols, a guard says that there are some."""
        sizes = self.fake(0).shape
        if not all(self.symbols.some(sizes[axis]) for axis in axes):
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
            self.static[number] = native and position in self._static_inputs
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
            self.env[node] = _Opaque(node, position) if how is None else self.symbols.size(val)
            return
        if val is None or isinstance(val, (bool, int, float, str, torch.SymFloat, torch.SymBool)):
            self.args.append(("ignored", 0))
            self.env[node] = val if isinstance(val, (bool, int, float, str)) else _Opaque(node, position)
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
        elif target is _COPY:
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
            self.env[node] = _Opaque(node)
        elif getattr(target, "_name", "") == "invoke_subgraph":
            self._inline(node)
        elif val is None and _only_checks(target):
            self.env[node] = None
        else:
            self._operator(node, target, val)

    def _whole(self, node, val):
        try:
            return self.symbols.size(val)
        except Unsupported:
            return _Opaque(node)

    def _real(self, node, val):
        try:
            value = self.symbols.real(self, val.node.expr)
        except Unsupported:
            return _Opaque(node)
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
            if type(value) is _Opaque:
                self._saw_host = True
            return value
        if kind in _SEQUENCES:
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

    def _mutate(self, node):
        target, source = node.args[:2]
        if source in self._flat and target in self._chains:
            self._mutated[target] = self._flat[source]
            self.env[node] = self.env[source]
            return
        if target not in self.parameter_of or target in self.host_nodes or source in self.host_nodes:
            raise Unsupported(f"writing into {target}")
        val = target.meta["val"]
        shape = self.symbols.sizes(val.shape)
        value = self.broadcast(self.cast(self.env[source], dtypes.NAME[val.dtype]), shape)
        self._mutated[target] = value
        self.env[node] = value

    # --- the host
    def _held(self, node):
        """The value of a node; what the graph cannot hold becomes a value of the host's."""
        value = self.env[node]
        if type(value) is not _Opaque:
            return value
        if value.position is None:
            self._call_host(node, node.target, value_of(node), counted=False)
        else:
            number, self.env[node] = self._object_parameter()
            self.args[value.position] = ("object", number)
            self.parameter_of[node] = number
        self.host_nodes.add(node)
        return self.env[node]

    def _call_host(self, node, target, val, reason="", counted=True):
        if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
            raise Unsupported(f"operator {target}, which writes into its operand,")
        name = str(target)
        operands, stored, sizes = [], [], []

        def template(a):
            kind = type(a)
            if kind is Node:
                value = self._held(a)
                if self._body and isinstance(value, torch.fx.GraphModule) and runs_bodies(target):
                    return self._body(value)
                if a in self.real_nodes:
                    operands.append(value)
                    stored.append(Stored())
                    return _Number(len(operands) - 1)
                fake = a.meta.get("val")
                if type(value) in (list, tuple):
                    return type(value)(wrap(v, f) for v, f in zip(value, fake, strict=True))
                return wrap(value, fake)
            if kind in _SEQUENCES:
                return [template(x) for x in a]
            if kind in (dict, immutable_dict):
                return {k: template(x) for k, x in a.items()}
            return a

        def wrap(value, fake):
            if type(value) is Value:
                operand, how = self._as_stored(value, fake, sizes)
                operands.append(operand)
                stored.append(how)
                return _Operand(len(operands) - 1)
            if isinstance(value, self._expr_type):
                sizes.append(value)
                return _Size(len(sizes) - 1)
            return value

        make, timing = collectives.kind_of(target)
        args = [template(a) for a in node.args]
        kwargs = {k: template(a) for k, a in node.kwargs.items()}
        call = make(target, name, args, kwargs, stored)
        call.counted = call.counted and counted and counts(target)
        if sharing.is_view(target):
            call.viewed = [index for index, v in enumerate(operands) if v.dtype == dtypes.HOST]
        random = random_kind(target)
        if random and self.last_random is not None:
            operands.append(self.last_random)  # keeps the order in which the generator is used
        if call.counted:
            self.fallbacks.append((name, reason, lines.of(node)))
        if make is collectives.Wait:
            operands += self.pending.wait(call, list(operands))
        hidden = [(user.args[1],) for user in node.users if user in self._loose]
        hidden += [path[:1] for path in _paths(val)] if node in self._unsized else []
        value = self._host_values(call, operands, sizes, val, timing=timing, hidden=hidden)
        if timing != collectives.ANY:
            self._goes_on(node, call, operands, value)
        if random:
            first = next(_values(value), None)
            self.last_random = first if first is not None else self.last_random
        self.env[node] = value
        if type(value) is Value:
            if call.viewed:
                self._viewing[value.id] = node
            if value.dtype == dtypes.HOST:
                self.host_nodes.add(node)

    def _goes_on(self, node, call, operands, value):
        """Notes a collective that has begun, or ended: then what it wrote is read through the call that waited."""
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(call, collectives.Collective):
            self.pending.begin(call, operands, values)
        else:
            complete = dict(zip((v.id for v in operands), values))
            for earlier, known in self.env.items():
                if type(known) is Value and known.id in complete:
                    self.env[earlier] = complete[known.id]
        if isinstance(call, collectives.Wait) or not node.users:  # as it does on the other side
            self._run_anyway(value)

    def _run_anyway(self, value):
        """The host's call that gave a value runs whatever reads that."""
        for v in value if isinstance(value, tuple) else (value,):
            if type(v) is not Value:
                continue
            self._awaited[v.id] = self.outputs
            self.graph.output(v, [] if v.dtype == dtypes.HOST else contiguous_strides(v.shape))
            self.outputs += 1

    def _as_stored(self, value, fake, sizes):
        """An operand of a host call, and how the operator gets it; `sizes` takes the symbolic strides."""
        if value.dtype == dtypes.HOST or not (isinstance(fake, torch.Tensor) and dtypes.is_native(fake)):
            return value, Stored()
        strides = []
        for n in self.symbols.sizes(fake.stride()):
            if type(n) is not int:
                sizes.append(n)
                n = _Size(len(sizes) - 1)
            strides.append(n)
        order = None if value.op in ("parameter", "host_result") else _memory_order(fake)
        if order is None:
            return value, Stored(strides)
        return self.permute(value, order), Stored(strides, [order.index(axis) for axis in range(len(order))])

    _expr_type = __import__("hologram._core", fromlist=["Expr"]).Expr

    def _host_values(self, call, operands, sizes, val, native=False, timing=collectives.ANY, hidden=()):
        """`hidden`: positions of results that only the host reads."""
        token = self.make("host_call", operands, ints=[self.host.add(call), timing], exprs=sizes, text=call.name)

        def result(fake, path):
            if isinstance(fake, (list, tuple)):
                return tuple(result(f, (*path, i)) for i, f in enumerate(fake))
            if fake is None:
                return None
            if not isinstance(fake, torch.Tensor):
                if isinstance(fake, (bool, int, float)):
                    return fake
            index = len(call.results)
            stated = None
            if isinstance(fake, torch.Tensor) and path[:1] not in hidden and (native or dtypes.is_native(fake)):
                stated = self._stated(fake)
            if stated is None:
                call.results.append((path, None, None))
                return self.make("host_result", [token], ints=[index], exprs=[], dtype=dtypes.HOST, shape=[])
            shape, strides = stated
            static = torch.Size(shape) if all(type(n) is int for n in shape) else None
            call.results.append((path, fake.dtype, static))
            return self.make(
                "host_result", [token], ints=[index], exprs=strides, dtype=dtypes.NAME[fake.dtype], shape=shape
            )  # fmt: skip

        return result(val, ())

    def _stated(self, fake):
        """Sizes and strides of a tensor, or None where only run time tells them."""
        try:
            return self.symbols.sizes(fake.shape), self.symbols.sizes(fake.stride())
        except Unsupported:
            return None

    # --- results
    def _output(self, node):
        for target, value in self._mutated.items():
            self.graph.output(value, [], self.parameter_of[target])
            self.outputs += 1
        (values,) = node.args
        returned = list(values) if isinstance(values, _SEQUENCES) else [values]
        self._shared = sharing.find(returned, self.hidden, bool(self.symbols.hints))
        self._places = {}  # node whose memory several results share → output of the graph
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
        value = self._held(item)
        if item.target is _COPY:
            return ("argument", self.parameter_of[item.args[0]])
        if item in self.parameter_of:
            return ("argument", self.parameter_of[item])
        if type(value) is Value and value.dtype == dtypes.HOST and not isinstance(value_of(item), torch.Tensor):
            self.graph.output(value, [])  # a number
            self.outputs += 1
            return ("output", self.outputs - 1)
        base = sharing.base_of(item)
        if base in self.parameter_of and base is not item and base not in self._mutated:
            return ("argument_view", self.parameter_of[base], *self._seen_from(item, base))
        if type(value) is Value:
            root = sharing.root_of(item)
            if root in self._shared and position not in self.layouts:
                if base is not root and self.env[base].id not in self._viewing:  # of another dtype
                    base = root if sharing.reinterpreted(item.meta["val"], root.meta["val"]) else None
                if base is not None:
                    return self._part_of(base, item)
            return ("output", self._tensor(item, value, self.layouts.get(position)))
        if value is None:
            return ("none", 0)
        return self._fixed(value) if isinstance(value, (bool, float, str)) else ("integer", value)

    def _fixed(self, value):
        """A result that is the same in every call."""
        made = self._host_values(_uncounted(HostCall(constant, "constant", (value,), {})), [], [], _Opaque(None))
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

    def _part_of(self, base, item):
        """A result in memory that others share."""
        if base not in self._places:
            self._places[base] = self._tensor(base, self.env[base])
        number = self._places[base]
        return ("output", number) if base is item else ("output_view", number, *self._seen_from(item, base))

    def _seen_from(self, item, base):
        """A view's sizes, strides, distance from the beginning of `base`, its dtype where that is another one, and their bond."""
        val, whole = item.meta["val"], base.meta["val"]
        start = self.size(whole.storage_offset()) * whole.dtype.itemsize // val.dtype.itemsize
        distance = self.size(val.storage_offset()) - start
        dtype = None if val.dtype == whole.dtype else val.dtype
        return self.symbols.sizes(val.shape), self.symbols.sizes(val.stride()), distance, dtype, sharing.bond(item, base)


class _Opaque:
    """A value that the graph cannot hold: a number of the host's, which it makes where something asks for it. position: of the
    argument that it is, or None."""

    def __init__(self, node, position=None):
        self.node, self.position = node, position


def _uncounted(call):
    call.counted = False
    return call


def value_of(node):
    """What tracing saw of a node; of some operators only what is picked from their results."""
    val = node.meta.get("val")
    if val is not None:
        return val
    picks = [user for user in node.users if user.target is operator.getitem and user.args[0] is node]
    if not picks or len(picks) != len(node.users):
        return None
    known = {user.args[1]: value_of(user) for user in picks}
    return tuple(known.get(i) for i in range(max(known) + 1))


def _has_tensor(val) -> bool:
    return isinstance(val, torch.Tensor) or isinstance(val, (list, tuple)) and any(map(_has_tensor, val))


def _paths(tree, path=()):
    """Where the leaves of nested tuples are."""
    if not isinstance(tree, (list, tuple)):
        return [path]
    return [found for i, part in enumerate(tree) for found in _paths(part, (*path, i))]


def _values(tree):
    """The graph's values in nested tuples."""
    if isinstance(tree, (list, tuple)):
        for part in tree:
            yield from _values(part)
    elif type(tree) is Value:
        yield tree


def random_kind(target) -> bool:
    """Whether an operator may use the random generator: its place among those that do is kept."""
    if isinstance(target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in target.tags
    return isinstance(target, torch._ops.HigherOrderOperator)


def _memory_order(fake):
    """The axes of a dense tensor from the outermost one in memory, or None for a tensor in row-major order, with gaps or
    with symbolic strides."""
    shape, strides = fake.shape, fake.stride()
    if not all(type(n) is int for n in (*shape, *strides)) or fake.is_contiguous():
        return None
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    step = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != step:
            return None
        step *= shape[axis]
    return None if order == sorted(order) else order


def _is_constant(value) -> bool:
    """Whether a value depends on no argument of the call. Sizes of the call make places that are right."""
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


def _only_checks(target) -> bool:
    name = str(target)
    return "_assert" in name or "sym_constrain" in name


__all__ = ["Translator", "Unsupported", "hint"]
