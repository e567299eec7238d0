# hologram_torch/symbols.py: PyTorch's symbolic sizes as expressions of the graph
import functools
import operator

from hologram import _core


class Unsupported(Exception):
    """What a graph cannot express; the caller leaves it to PyTorch."""


class Symbols:
    """Maps SymPy expressions over Dynamo's symbols to expressions over a graph's symbols."""

    def __init__(self, graph):
        self.graph = graph
        self.known = {}  # SymPy expression -> int or Expr
        self.hints = []  # example value by symbol number

    def bind(self, value):
        """Gives a symbolic argument its number; None where the value is known already.

        An argument may be an expression whose symbols have no argument of their own (as in the backward graph)."""
        e = value.node.expr
        if e.is_Integer or e in self.known:
            return None
        self.known[e] = self.graph.new_symbol()
        self.hints.append(hint(value))
        return len(self.hints) - 1

    def size(self, n):
        """An int, or the expression of a SymInt."""
        if type(n) is int:
            return n
        return self.expr(n.node.expr) if hasattr(n, "node") else int(n)

    def sizes(self, shape):
        return [n if type(n) is int else self.size(n) for n in shape]

    def expr(self, e):
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = self._convert(e)
        return found

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
        convert = _FUNCTIONS.get(type(e).__name__)
        if convert is None:
            raise Unsupported(f"size {e}")
        return convert(*map(self.expr, e.args))


_REAL = {
    "Add": "add", "Mul": "mul", "FloatTrueDiv": "div", "IntTrueDiv": "div", "ToFloat": "cast", "Pow": "pow",
    "FloatPow": "pow", "OpaqueUnaryFn_sqrt": "sqrt", "OpaqueUnaryFn_exp": "exp", "OpaqueUnaryFn_log": "log",
    "OpaqueUnaryFn_log2": "log2", "Max": "max", "Min": "min",
}  # fmt: skip


def _fold(function):
    return lambda *xs: functools.reduce(function, xs)


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


def hint(n) -> int:
    """The example value of a size; no guard is made."""
    if type(n) is int:
        return n
    node = getattr(n, "node", None)
    if node is None:
        return int(n)
    value = node.hint
    if value is None:
        raise Unsupported(f"size {n} is known only at run time")
    return int(value)
