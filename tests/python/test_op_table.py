# tests/python/test_op_table.py: what is made of the table of operations says what the table says
import re
from pathlib import Path

import numpy as np
import pytest

import hologram
from hologram import _core, numpy_functions, special

ROOT = Path(__file__).resolve().parents[2]
TABLE = {row["name"]: row for row in _core.op_table()}
FUNCTIONS = [name for name, row in TABLE.items() if row["function"]]


def test_the_table_has_every_row():
    assert re.findall(r"^HOLOGRAM_(?:OP|FUNCTION)\((\w+),", (ROOT / "src/ir/ops.def").read_text(), re.M) == list(TABLE)
    assert TABLE["add"]["flags"] == ["commutative", "exact"] and TABLE["add"]["arity"] == 2
    assert TABLE["sin"]["flags"] == ["odd"] and TABLE["cosh"]["flags"] == ["even"]
    assert TABLE["asinh"]["ulp32"] == 3 and TABLE["tan"]["ulp64"] == 2.5
    assert TABLE["concat"]["arity"] == -1 and not TABLE["concat"]["elementwise"]


def test_the_page_on_numerics_states_the_bounds():
    rows = re.findall(r"^\| `(\w+)`(?: \(\d\))? \| ([\d.]+) \| [\d.]+\*? \| [^|]+ \| ([\d.]+) \| ([\d.]+) \|$",
                      (ROOT / "docs/numerics.md").read_text(), re.M)  # fmt: skip
    stated = {name: (float(ulp32), float(ulp64)) for name, ulp32, ulp64, _ in rows}
    assert stated == {name: (TABLE[name]["ulp32"], TABLE[name]["ulp64"]) for name in FUNCTIONS}
    assert all(float(measured) <= float(bound) for _, _, bound, measured in rows)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if TABLE[name]["arity"] == 1])
def test_parity(name):
    function, x = getattr(special, name), np.array([0.25, 0.5, 0.875, 1.5, 3.0], np.float32)
    plus, minus = function(x), function(-x)
    known = ~np.isnan(plus)
    assert ("odd" in TABLE[name]["flags"]) == np.array_equal(minus[known], -plus[known]), name
    assert ("even" in TABLE[name]["flags"]) == np.array_equal(minus[known], plus[known]), name


def test_functions_are_found_by_numpy_and_by_name():
    known = numpy_functions.supported()
    for name in ("arcsin", "exp", "arctan2", "cbrt", "power", "log1p"):
        assert name in known
    x = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(hologram.jit(lambda x: special.erfinv(special.erf(x)))(x), x, rtol=1e-12)
    np.testing.assert_allclose(special.asin(x), np.arcsin(x), rtol=1e-15)
    assert special.lgamma(np.array([3])).dtype == np.float64
    assert set(special.__all__) >= {"cbrt", "digamma", "erf", "erfc", "erfinv", "gelu", "lgamma", "relu", "rsqrt", "sigmoid"}
    with pytest.raises(AttributeError, match="nothing"):
        special.nothing  # noqa: B018


def test_pytorch_finds_the_functions():
    torch = pytest.importorskip("torch")
    lowering = pytest.importorskip("hologram_torch.lowering")
    for name in FUNCTIONS:
        for target in (name, f"special_{name}"):
            packet = getattr(torch.ops.aten, target, None)
            if packet is not None and "default" in packet.overloads() and TABLE[name]["arity"] == 1:
                assert lowering.has_lowering(f"aten.{target}.default"), target
