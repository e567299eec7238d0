# hologram_torch/graph/formula.py: sizes that no expression of the graph states, computed in each call
import sympy


class Formula:
    """The integer value of a SymPy expression over PyTorch's symbols, from the arguments of a call."""

    def __init__(self, text: str):
        from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP

        self._text = text
        self._function = eval(f"lambda arguments: {text}", dict(SYMPY_INTERP))  # noqa: S307  (as PyTorch's guards are made)

    def __reduce__(self):
        return Formula, (self._text,)

    @classmethod
    def of(cls, e, given: dict):
        """given: expression -> position of the argument with its value. None where these do not determine `e`."""
        from torch.utils._sympy.printers import PythonPrinter

        names = {part: sympy.Symbol(f"arguments[{position}]", integer=True) for part, position in given.items()}
        e = e.xreplace(names)
        if not e.free_symbols or not e.free_symbols <= set(names.values()):
            return None
        return cls(PythonPrinter().doprint(e))

    def __call__(self, arguments) -> int:
        return int(self._function(arguments))


class WithFormulas:
    """A compiled graph that takes the values of formulas behind its arguments."""

    def __init__(self, call, formulas):
        self._boxed_call = True  # an instance's: functools.wraps copies it
        self._call, self._formulas = call, formulas

    def __call__(self, arguments):
        arguments += [formula(arguments) for formula in self._formulas]
        return self._call(arguments)
