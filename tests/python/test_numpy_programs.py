# tests/python/test_numpy_programs.py: programs as people write them in NumPy run in hologram.jit, and give NumPy's values
import hologram
import numpy as np
import pytest
from numpy_programs import PROGRAMS

# What does not run, and how the error says why.
NOT = {"until_small": "needs the value of an array"}  # a loop that ends by values


def leaves(value):
    return [x for part in value for x in leaves(part)] if isinstance(value, (tuple, list)) else [np.asarray(value)]


def arguments(name, seed=0, n=400):
    return PROGRAMS[name][1](np.random.default_rng(seed), n)


def check(name, jitted, *where):
    with np.errstate(all="ignore"):
        want = leaves(PROGRAMS[name][0](*arguments(name, *where)))
    got = leaves(jitted(*arguments(name, *where)))
    assert len(want) == len(got)
    single = any(a.dtype in (np.float32, np.complex64) for a in leaves(list(arguments(name, *where))))
    for w, g in zip(want, got):
        assert (w.dtype, w.shape) == (g.dtype, g.shape)
        far = 1e-4 if single else 1e-9
        np.testing.assert_allclose(g, w, rtol=far, atol=far / 10)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NOT])
def test_gives_numpys_values(name):
    jitted = hologram.jit(PROGRAMS[name][0])
    check(name, jitted)
    check(name, jitted)
    check(name, jitted, 1)  # other values
    check(name, jitted, 2, 650)  # and another size


@pytest.mark.parametrize("name", NOT)
def test_does_not_run(name):
    with pytest.raises((TypeError, ValueError), match=NOT[name]):
        hologram.jit(PROGRAMS[name][0])(*arguments(name))


def test_the_share_that_runs():
    assert len(PROGRAMS) >= 150 and len(PROGRAMS) - len(NOT) >= 0.95 * len(PROGRAMS)
