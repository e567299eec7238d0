# tests/python/test_jit_assignment.py: what traced functions write, beside NumPy: results and the caller's arrays
import hologram
import numpy as np
import pytest
from checks import refuses
from hologram.trace import TraceError

rng = np.random.default_rng(0)
X = rng.standard_normal((6, 7))
V = rng.standard_normal(7)
I = rng.integers(0, 6, (6, 7))


def program(text):
    """A function of x, v and i with these statements."""
    space = {"np": np}
    lines = [line.strip() for line in text.split(";")]
    exec("def f(x, v, i):\n" + "\n".join("    " + line for line in lines), space)  # noqa: S102
    return space["f"]


PROGRAMS = """
x += 1; return x
x = x * 2; x += v; x -= 1.5; x /= 3; x **= 2; return x
y = x.copy(); y[1:3] *= 2; return y, x
y = x * 1; y[0] = 5; y[-1, ::2] = v[:4]; y[:, 3] = -1; return y
y = x + 0; y[::-1] = x; y[4:1:-1, 1] = [1, 2, 3]; return y
y = x + 0; y[...] = v; y[2:2] = 7; return y
y = x * 1; y[y > 0] = 0; y[i == 3] += 10; y[y < -1] *= y[y < -1]; return y
y = x * 1; y[[0, 2]] = v; y[i[0], 1] = 3; y[np.array([1, 5]), :2] -= 1; return y
y = x * 1; y[x[:, 1] > 0, 0] = 3; y[:, v > 0] = 4; y[x[:, 0] > 0] = 9; return y
y = x * 1; y[y > 0] = np.arange((x > 0).sum(dtype=int).size) * 0 + 2; return y
y = x * 1; a = y[1:4]; b = a[:, 2]; y[2] = 0; return a, b * 1
y = x * 1; a = y[1:4]; b = a[:, 2]; b += 100; a[0] = -1; return y, a, b
y = x * 1; a = y.T; a[2] = 1; c = y[0, 1:]; a += 1; return y, a, c
y = x * 1; a = y[0, 0]; y[0, 0] = 50; return a, y
y = x * 1; a = np.swapaxes(y, 0, 1)[None]; a[0, 3, ::2] = 8; return y, a
y = x * 1; for_row = [r for r in y]; for_row[1] += 1; y[1, 0] = 3; return y, for_row[1]
s = x.sum(); t = s; s += 1; return s, t
z = np.zeros(x.shape[0]); z[1:] = x[1:, 0]; z[0] += 2; return z
z = np.zeros((3, 4), dtype=np.float32); z[1] = 1; r = z.reshape(-1); r[0] = 9; z[2, 3] = 4; return z, r
z = np.empty_like(x); z[:] = 3; return z
z = np.ones(x.shape, dtype=complex); z[0] = 1j * v; return z * x
z = np.full(x.shape[1], v.max()); np.add.at(z, i[0], 1.0); return z
z = np.zeros_like(x); np.multiply(x, 2, out=z); np.add(z, v, z); np.exp(z[1], out=z[1]); return z
z = np.zeros_like(v); np.sum(x, axis=0, out=z); np.maximum(z, v, out=z, where=v > 0); return z
z = x * 1; np.clip(z, -1, 1, out=z); np.cumsum(z, axis=0, out=z); return z
z = x * 1; z.sort(); z.sort(axis=0); z.fill(z[0, 0]); return z
z = x * 1; np.fill_diagonal(z, 9); np.copyto(z, v, where=i > 3); np.put(z, [1, 2], 8); return z
z = x[:6, :6] * 1; d = z.diagonal(); e = d + 1; z[0, 0] = 4; return e, z
x[0] = v; v[1] = x[2, 2]; return None
x[1:3] += v; w = x; w[0, 0] = 1; return x, w[0]
v *= 2; n = v.shape[0]; return np.arange(n) * v, np.eye(n)[1] + v, np.linspace(0, 1, n) * v, np.arange(0, n, 2)
return np.array([x[0, 0], 2.0, v.sum()]), np.array([[v[0], 1], [x.max(), 3]]), np.asarray(x) + 1, np.array(x)
a = np.array([10.0, 20, 30, 40, 50, 60]); return a[i], np.eye(6)[i], np.concatenate([[0.0], a])[i]
j = i.copy(); j += 2; j //= 2; j <<= 1; j |= 1; j[j > 3] = 2.9; return j
b = x > 0; b &= v > 0; b[0] = True; return b, ~b
y = x * 1; s = y[y > 0]; m = y > 0; y[m] = 0; m[0] = False; y[m] = 5; return s.sum(), s.max(), y, m
y = x.astype(x.dtype, copy=False); y += 1; w = np.asarray(y, dtype=float); w *= 2; return y + 0
z = np.fft.fft(x); z[1:] *= 2; a = z[0]; z[0, 0] = 5j; a += 1; z += 1; return z, a, z[:, 0].real
z = x + 1j * v; z.real = v; z.imag[1:] = 7; z.real += 1; z.imag *= 2; return z, z.imag
z = x * 1j; r = z.real; z.imag[z.imag > 1] = -1; np.real(z)[0] = v; z += 1; return r, z
x.real = 5; v.real[2:] *= 2; return x.real + 1
z = x * 1j; a = z[1:]; y = z[:5] + a; w = y * y; t = w.T; w = w + y; u = w * w; return u * u, t, np.abs(u), np.abs(u) + 1
z = np.zeros(6, np.float32); np.sum(x, axis=1, out=z); np.add.reduce(x, 1, out=z); return z
m = np.linalg.inv(x @ x.T); m[0] = 0; m += np.eye(6); return m
""".strip().split("\n")  # fmt: skip


@pytest.mark.parametrize("text", PROGRAMS)
def test_writes_as_numpy(text):
    function = program(text)
    jitted = hologram.jit(function)
    for _ in range(2):
        ours, theirs = [X.copy(), V.copy(), I.copy()], [X.copy(), V.copy(), I.copy()]
        got, want = jitted(*ours), function(*theirs)
        got, want = (r if isinstance(r, tuple) else (r,) for r in (got, want))
        for g, w in zip((*got, *ours), (*want, *theirs)):
            assert np.shape(g) == np.shape(w) and np.asarray(g).dtype == np.asarray(w).dtype
            if w is not None:
                np.testing.assert_allclose(g, w, rtol=1e-5 if np.asarray(w).dtype == np.float32 else 1e-9)


def test_the_argument_that_is_returned_is_the_callers():
    def grow(x):
        x += 1
        return x

    jitted, x = hologram.jit(grow), np.zeros(5)
    assert jitted(x) is x and jitted(x) is x and x.tolist() == [2] * 5
    strided = np.zeros(10)[::2]
    assert jitted(strided) is strided and strided.tolist() == [1] * 5
    frozen = np.zeros(5)
    frozen.flags.writeable = False
    refuses(ValueError, "read-only", lambda: jitted(frozen))
    both = hologram.jit(lambda x, y: (x.__setitem__(0, 5), y * 1))
    both(np.zeros(5), np.zeros(5))
    refuses(ValueError, "shares memory", lambda: both(x[:3], x[1:4]))


@pytest.mark.parametrize(
    "text, error, words",
    [
        ("r = x.T.ravel(); x[0] = 1; return r", TraceError, "view or a copy"),
        ("r = x.reshape(-1); r[0] = 1; return x", TraceError, "view or a copy"),
        ("d = np.diagonal(x); x[0] = 1; return d * 1", TraceError, "view or a copy"),
        ("z = np.real(x + 1j); y = x * 1; y[7] = 1; return y", IndexError, "out of bounds"),
        ("np.nan_to_num(x, copy=False); return x", TraceError, "in place"),
        ("y = x * 1; y[0] = x; return y", ValueError, "broadcast"),
        ("i += 1.5; return i", TypeError, "same_kind"),
        ("v += x; return v", ValueError, "dimensions|broadcast"),
        ("y = x * 1; y[v > 0] = 1; return y", IndexError, "boolean"),
        ("x[0] = 1 if x.sum() else 2; return x", TraceError, "not known"),
    ],
)
def test_what_cannot_be_written(text, error, words):
    refuses(error, words, lambda: hologram.jit(program(text))(X.copy(), V.copy(), I.copy()))


SINGLE = """t = x; x += 1; return t, x * 2
x[...] = 5; return x + 0
s = np.array(x); t = s; s += x; return s, t, x
s = x.copy(); t = s; s *= 3; return s, t, x
s = v[1, ...]; s += 1; return s + 0, v
s = v[1]; s += x; return s, v
s = np.zeros(()); t = s; s += x; return s, t""".split("\n")


@pytest.mark.parametrize("text", SINGLE)
def test_arrays_without_dimensions_change_where_scalars_do_not(text):
    function = program(text)
    jitted = hologram.jit(function)
    for x in (np.array(3.0), np.float64(3), np.array(4.0), np.float64(4)):
        found = []
        for call in (function, jitted):
            given = [x.copy(), np.arange(3.0), None]
            try:
                results = call(*given)
                found.append([np.asarray(r).tolist() for r in (*(results if isinstance(results, tuple) else (results,)), *given)])
            except TypeError as error:
                found.append(type(error))
        assert found[0] == found[1]


def test_what_is_written_is_looked_at_where_the_arguments_are_those():
    jitted = hologram.jit(lambda x, *rest: (x.__setitem__(0, 7) if x.ndim == 2 or rest else None, x * 2)[1])
    frozen = np.ones(3)
    frozen.flags.writeable = False
    assert jitted(np.ones((3, 3)))[0, 0] == 14 and jitted(np.ones(3), 1)[0] == 14
    assert jitted(frozen).tolist() == [2, 2, 2]
    refuses(ValueError, "read-only", lambda: jitted(frozen, 1))


def test_generators_fill_and_shuffle():
    def draw(rng, x):
        z = np.zeros(x.shape[0])
        rng.random(out=z)
        rng.shuffle(x)
        z[1:] += rng.standard_normal(x.shape[0] - 1)
        return z + x

    jitted, ours, theirs = hologram.jit(draw), np.random.default_rng(3), np.random.default_rng(3)
    for n in (5, 9):
        x, y = np.arange(float(n)), np.arange(float(n))
        np.testing.assert_allclose(jitted(ours, x), draw(theirs, y))
        assert x.tolist() == y.tolist()


def test_a_size_wherever_a_size_may_stand():
    def sizes(x):
        n, m = x.shape
        return np.zeros((n, 3)), np.ones(m) * n, np.arange(n), np.arange(1, m, 2), np.eye(n), np.identity(m), np.full((m, n), 2.5), n * 0.5

    jitted = hologram.jit(sizes)
    for shape in ((4, 5), (9, 3), (30, 40)):
        for g, w in zip(jitted(np.ones(shape)), sizes(np.ones(shape))):
            np.testing.assert_array_equal(g, w)
            assert np.asarray(g).dtype == np.asarray(w).dtype
    assert len(jitted.reports()) == 1 and not jitted.stats()["fallback_ops"]


def test_parts_in_a_row_are_read_at_an_offset():
    """Not by an index for each element, which takes several times as long."""

    def eroded(x):
        out = np.zeros_like(x)
        out[1:-1, 2:] = x[2:, 2:] + x[:-2, :-2]
        return out

    jitted, x = hologram.jit(eroded), np.random.default_rng(0).standard_normal((9, 7))
    np.testing.assert_array_equal(jitted(x), eroded(x))
    assert "clamp_index" not in "".join(jitted.dump())
