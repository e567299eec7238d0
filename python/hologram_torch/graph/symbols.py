# hologram_torch/graph/symbols.py: PyTorch's symbolic sizes as expressions of the graph
import functools
import operator

import sympy
from hologram import _core
from hologram._graph import Unsupported
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from .formula import Formula


class Call:
    """The call that a graph is compiled for whose sizes tracing did not know. values: of its symbols; conditions: [(Formula over
    the call's arguments, whether it held)] that decide for which other calls the compiled graph is right."""

    def __init__(self, values):
        self.values, self.conditions = values, []


class Symbols:
    """Maps SymPy expressions over Dynamo's symbols to expressions over a graph's symbols."""

    def __init__(self, graph, call=None):
        self.graph = graph
        self.call = call  # a Call, or None: sizes are as traced, what is assumed of them is guarded
        self.known = {}  # SymPy expression -> int or Expr
        self.hints = []  # example value by symbol number
        self.environment = None  # PyTorch's record of what is known of the symbols
        self._equal = None  # expression -> the simplest one that guards make equal to it
        self.given = {}  # SymPy expression -> position of the argument that gives its value
        self.formulas = []  # (Formula, how its value is read) of sizes that each call computes

    def bind(self, value, position):
        """How the symbolic argument at `position` gives a symbol its value: ("symbol" or "negated", number), or
        ("ignored", 0) where the value is known already. A symbol is at least 1: where tracing has not settled the sign, it
        is guarded.

        An argument may be an expression whose symbols have no argument of their own (as in the backward graph)."""
        self.environment = value.node.shape_env
        e = self._simplest(value.node.expr)
        if e.is_Integer or e in self.known or not e.is_Symbol and self._derived(e):
            return "ignored", 0
        self.given[e] = position
        return self._new_symbol(e, self.example(e, value))

    def example(self, e, value=None) -> int:
        """The value of an expression (of a SymInt) in the example that the graph is compiled for."""
        if self.call is None:
            return hint_of(self.environment, e) if value is None else hint(value)
        found = sympy.sympify(e.xreplace(_examples(self.environment) | self.call.values))
        if found.free_symbols:
            raise Unsupported(f"size {e} is known only at run time")
        return int(found)

    def _new_symbol(self, e, example):
        if example == 0 and self._guard(sympy.Eq(e, 0)):
            self.known[e] = 0
            return "ignored", 0
        negative = example < 0
        if negative or self.environment.bound_sympy(e).lower < 1:
            self._guard(sympy.Le(e, -1) if negative else sympy.Ge(e, 1))
        symbol = self.graph.new_symbol()
        self.known[e] = -symbol if negative else symbol
        self.hints.append(abs(example))
        return "negated" if negative else "symbol", len(self.hints) - 1

    def _derived(self, e) -> bool:
        """Whether the symbols that are known already give this expression."""
        if not e.free_symbols or not all(symbol in self.known for symbol in e.free_symbols):
            return False
        try:
            self.known[e] = self._convert(e)
        except Unsupported:
            return False
        return True

    def _guard(self, condition) -> bool:
        """Whether a condition on sizes holds, from now on by a guard of the graph. Where guards come too late (the backward
        graph), as it holds for the example."""
        environment = self.environment
        if environment is None:
            raise Unsupported(f"condition {condition}")
        if self.call is not None:
            return self._noted(condition)
        if getattr(environment, "frozen", False):
            return bool(condition.xreplace(_examples(environment)))
        return bool(environment.evaluate_expr(condition))

    def _noted(self, condition) -> bool:
        held = bool(condition.xreplace(_examples(self.environment) | self.call.values))
        formula = Formula.of(condition, self.given)
        if formula is None:
            raise Unsupported(f"condition {condition}")
        self.call.conditions.append((formula, held))
        return held

    def size(self, n):
        """An int, or the expression of a SymInt."""
        if type(n) is int:
            return n
        return self.expr(n.node.expr) if hasattr(n, "node") else int(n)

    def sizes(self, shape):
        return [n if type(n) is int else self.size(n) for n in shape]

    def _simplest(self, e):
        """The simplest expression that the guards of the graph make equal to e: n // 2 for (n + 1) // 2 of an even n."""
        if self._equal is None and self.environment is not None:
            self._equal = _equalities(self.environment)
        return self._equal.get(e, e) if self._equal else e

    def expr(self, e):
        simplest = self._simplest(e)
        found = self.known.get(simplest)
        if found is None:
            try:
                found = self.known[simplest] = self._stated(simplest, e)
            except Unsupported as refusal:
                found = self._computed(simplest, refusal)
        return found

    def _stated(self, simplest, e):
        """Of symbols that the graph's arguments give: those of the simplest form may be the forward graph's alone."""
        try:
            return self._convert(simplest)
        except Unsupported:
            if e == simplest:
                raise
            return self._convert(e)

    def _computed(self, e, refusal):
        """A symbol for a size that expressions of a graph cannot state, as a share of another one: each call computes it."""
        formula = Formula.of(e, self.given)
        if formula is None or not self._holds(formula, e):
            raise refusal
        how = self._new_symbol(e, self.example(e))
        if how[0] != "ignored":
            self.formulas.append((formula, how))
        return self.known[e]

    def _holds(self, formula, e) -> bool:
        """Whether the formula gives the value that tracing had for e."""
        arguments = {position: self.example(part) for part, position in self.given.items()}
        try:
            return formula(arguments) == self.example(e)
        except (ArithmeticError, NameError, TypeError, ValueError):
            return False

    def real(self, builder, e):
        """A float made of sizes, as a scalar of the graph in f64."""
        if e.is_integer:
            return builder.size_value(self.expr(e), "f64")
        if e.is_Float or e.is_Rational:
            return builder.number("f64", float(e))
        name, parts = type(e).__name__, e.args
        if e.is_Pow and float(parts[1]) in (0.5, -0.5):
            return builder.ew("sqrt" if parts[1] > 0 else "rsqrt", self.real(builder, parts[0]))
        op = _REAL.get(name)
        if op is None or not parts:
            raise Unsupported(f"number {e}")
        values = [self.real(builder, part) for part in parts]
        if op == "cast":
            return values[0]
        if len(values) == 1:
            return builder.ew(op, values[0])
        return functools.reduce(lambda x, y: builder.ew(op, x, y), values)

    def _convert(self, e):
        if e.is_Integer:
            return int(e)
        if e.is_Add:
            return functools.reduce(operator.add, map(self.expr, e.args))
        if e.is_Mul:
            return functools.reduce(operator.mul, map(self.expr, e.args))
        if e.is_Pow and e.args[1].is_Integer and int(e.args[1]) > 0:
            return functools.reduce(operator.mul, [self.expr(e.args[0])] * int(e.args[1]))
        if type(e).__name__ == "Piecewise":
            return self.expr(next(part for part, condition in e.args if condition == True or self._guard(condition)))  # noqa: E712
        convert = _FUNCTIONS.get(type(e).__name__)
        if convert is None:
            raise Unsupported(f"size {e}")
        if type(e).__name__ in _DIVISIONS and not e.args[1].is_Integer and not self._positive(e.args[1]):
            x, divisor = map(self.expr, e.args)
            if type(e).__name__ in ("FloorDiv", "CleanDiv"):
                return _core.floor_div(-x, -divisor)
            raise Unsupported(f"size {e} of a negative divisor")
        return convert(*map(self.expr, e.args))

    def some(self, n, least=1) -> bool:
        """Whether a size is at least `least`: a symbolic one by a guard, where tracing has not settled it."""
        if type(n) is int:
            return n >= least
        e = n.node.expr
        if self.environment is not None and not free_unbacked_symbols(e) and self.environment.bound_sympy(e).lower >= least:
            return True
        return self._guard(sympy.Ge(e, least))  # of sizes that a call finds, bounds are what the program is yet to check

    def _positive(self, e) -> bool:
        """Divisors are positive in expressions of the graph; this tells, guarded, whether e is one."""
        if self.environment is None or self.environment.bound_sympy(e).lower >= 1:
            return True
        if self.example(e) >= 1:
            return self._guard(sympy.Ge(e, 1))
        if not self._guard(sympy.Le(e, -1)):
            raise Unsupported(f"division by {e}")
        return False


_REAL = {
    "Add": "add", "Mul": "mul", "FloatTrueDiv": "div", "IntTrueDiv": "div", "ToFloat": "cast", "Pow": "pow",
    "FloatPow": "pow", "OpaqueUnaryFn_sqrt": "sqrt", "OpaqueUnaryFn_exp": "exp", "OpaqueUnaryFn_log": "log",
    "OpaqueUnaryFn_log2": "log2", "Max": "max", "Min": "min",
}  # fmt: skip


def _fold(function):
    return lambda *xs: functools.reduce(function, xs)


_DIVISIONS = ("FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod")
_FUNCTIONS = {
    "FloorDiv": _core.floor_div,
    "CleanDiv": _core.floor_div,
    "Mod": _core.mod,
    "PythonMod": _core.mod,
    "ModularIndexing": lambda x, divisor, modulus: _core.mod(_core.floor_div(x, divisor), modulus),
    "CeilDiv": lambda x, y: -_core.floor_div(-x, y),
    "Min": _fold(_core.expr_min),
    "Max": _fold(_core.expr_max),
}


def _equalities(environment) -> dict:
    """Of expressions as arguments have them: a guard may name a symbol that was replaced since, which no argument gives."""
    classes = {}  # expression -> list of all that equal it, itself among them
    for guard in getattr(environment, "guards", ()):
        if isinstance(guard.expr, sympy.Eq):
            left, right = (classes.get(side, [side]) for side in map(environment.replace, guard.expr.args))
            if left is not right:
                left = left + right
                classes.update(dict.fromkeys(left, left))
    simplest = {id(members): min(members, key=lambda e: (e.count_ops(), str(e))) for members in classes.values()}
    return {e: simplest[id(members)] for e, members in classes.items()}


def hint_of(environment, e) -> int:
    """The example value of an expression of PyTorch's symbols."""
    return int(e.xreplace(_examples(environment)))


def _examples(environment) -> dict:
    for name in ("backed_var_to_val", "var_to_val"):
        found = getattr(environment, name, None)
        if found is not None:
            return dict(found)
    raise Unsupported("example values of sizes")


def hint(n) -> int:
    """The example value of a size; no guard is made."""
    if type(n) is int:
        return n
    node = getattr(n, "node", None)
    if node is None:
        return int(n)
    value = node.hint
    if value is None or hasattr(value, "node"):  # that of a nested tensor is no number
        raise Unsupported(f"size {n} is known only at run time")
    return int(value)
