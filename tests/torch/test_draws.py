# tests/torch/test_draws.py: random numbers of compiled graphs are eager's for the same seed, and so is the generator behind them
import pytest
import torch
from harness import backend_stats, compile_fresh
from hologram import _core
from hologram_torch.capture import draws
from torch.nn import functional

X = torch.linspace(-2, 3, 1400).reshape(7, 4, 5, 10)
CHANNELS_LAST = X.contiguous(memory_format=torch.channels_last)
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
ROWS = X.square().reshape(7, 200)
LEFT_OUT = torch.where(torch.arange(200) % 5 == 0, ROWS, 0)  # of many the probability is 0
PAIRS, BLOCKS = (1, 3, 633), (1, 15, 16, 17, 40, 633)  # 633: more than the state has
aten = torch.ops.aten


def each(function, dtypes=TYPES, sizes=PAIRS):
    """What the function draws into tensors of these sizes and types."""
    return lambda: [function(torch.empty(n, dtype=dtype)) for dtype in dtypes for n in sizes]


DRAWS = {  # drawn natively
    "dropout": lambda: functional.dropout(X, 0.3),
    "dropout of channels last": lambda: functional.dropout(CHANNELS_LAST * 2, 0.1),
    "dropout of a rolled image": lambda: [functional.dropout(CHANNELS_LAST.roll(1, dims), 0.3) for dims in (None, 2)],
    "dropout of 16 bits": lambda: functional.dropout(X.bfloat16(), 0.3),
    "dropout of a part": lambda: functional.dropout(X[:, 1:3, :, ::2], 0.5),
    "dropout of all": lambda: functional.dropout(X, 1.0),
    "dropout of channels": lambda: functional.dropout2d(X, 0.4),
    "bernoulli": lambda: torch.bernoulli(X, 0.7),
    "probabilities": lambda: [torch.bernoulli(X.to(t).sigmoid()) for t in TYPES] + [torch.bernoulli(CHANNELS_LAST.sigmoid())],
    "probabilities in place": lambda: (X.clone().bernoulli_(X[0].sigmoid()), torch.empty(5, 10).bernoulli_(X[0, 0].double().sigmoid())),
    "rand": lambda: torch.rand(700) * 2,
    "rand_like": lambda: torch.rand_like(X.transpose(1, 3)),
    "uniform": each(lambda x: (x.uniform_(), x.clone().uniform_(-1, 1.7))),
    "randn": lambda: (torch.randn(100), torch.randn(3), torch.randn(4), torch.randn(20), torch.randn(2, dtype=torch.float64)),
    "randn_like": lambda: (torch.randn_like(X), torch.randn_like(CHANNELS_LAST), torch.randn_like(X[:3, 0, 0, 0])),
    "normal": each(lambda x: x.normal_(0.3, 1.7), sizes=BLOCKS),
    "normal of a size": lambda: torch.normal(0.5, 2.0, (5, 5)),
    "exponential": each(lambda x: x.exponential_(1.7)),
    "log_normal": each(lambda x: x.log_normal_(0.3, 0.7)),
    "cauchy": each(lambda x: x.cauchy_(0.3, 1.7)),
    "geometric": each(lambda x: x.geometric_(0.3), TYPES + INTEGERS[:5]),
    "random": each(lambda x: aten.random(x), TYPES + INTEGERS),
    "random to": each(lambda x: (aten.random(x, 100), aten.random(x, 3, 7)), TYPES + INTEGERS[:5]),
    "random of long ranges": each(lambda x: (aten.random(x, -5, 1 << 28), aten.random(x, -(1 << 62), 1 << 62)), INTEGERS[:1]),
    "randint": lambda: (torch.randint(9, (700,)), torch.randint(-4, 5, (6, 7), dtype=torch.int32), torch.randint_like(X, 5)),
    "randperm": lambda: (torch.randperm(1), torch.randperm(9), torch.randperm(700, dtype=torch.int32)),
    "choices": lambda: [torch.multinomial(p.to(t), n) for t in TYPES for p in (ROWS, ROWS[0], LEFT_OUT) for n in (1, 2, 60)],
    "choices again": lambda: [torch.multinomial(p.to(t), n, True) for t in TYPES for p in (ROWS, ROWS[0], LEFT_OUT) for n in (1, 2, 300)],
    "choices of columns": lambda: [torch.multinomial(p, n, a) for p in (ROWS.t() + 0, ROWS[:, ::2]) for n in (1, 3) for a in (True, False)],
    "several": lambda: (torch.rand(3), torch.randn(5), functional.dropout(X, 0.2), torch.randn(6), torch.randint(0, 9, (4,))),
}
LEFT = {  # by PyTorch
    "another generator": lambda: torch.rand(5, generator=torch.Generator().manual_seed(3)),
    "integers that floats round": lambda: aten.random(torch.empty(70), 0, 1 << 30),
    "rates that lie otherwise": lambda: [f(*[X.exp().mT.round()] * n) for f, n in ((torch.poisson, 1), (torch._standard_gamma, 1))],
}


@pytest.mark.parametrize("name", [*DRAWS, *LEFT])
def test_numbers_are_eagers(name):
    function = DRAWS.get(name) or LEFT[name]
    compiled = compile_fresh(function, fullgraph=name != "another generator")
    for before in (0, 623):  # numbers of the state that were used
        found = []
        for call in (compiled, function):
            torch.manual_seed(5)
            torch.empty(before, dtype=torch.int32).random_()
            found.append((call(), torch.get_rng_state()))
        torch.testing.assert_close(*found, rtol=0, atol=0, equal_nan=True, check_stride=True)
    assert name in LEFT or not all_exact() or backend_stats()["fallback_ops"] == {}


def all_exact() -> bool:
    """Whether this machine's PyTorch draws as those that are known here."""
    return all(draws.exact(kind, torch.float32) for kind in draws.KINDS if kind != "permutation")


@pytest.mark.parametrize("limit", [7, 5_000])
def test_ranges_follow_sizes(limit):
    def draw(x):
        return torch.randint(0, x.shape[0], (2 * x.shape[0],)), torch.randperm(x.shape[0])

    compiled = compile_fresh(draw, dynamic=True)
    for n in (limit, limit + 3):
        x, found = torch.empty(n), []
        for call in (compiled, draw):
            torch.manual_seed(n)
            found.append((call(x), torch.get_rng_state()))
        torch.testing.assert_close(*found, rtol=0, atol=0)


@pytest.mark.parametrize("draw", [
    lambda: torch.randint(5, 5, (3,)), lambda: torch.empty(3).exponential_(-1.0), lambda: torch.empty(3).normal_(0, -1),
    lambda: aten.random(torch.empty(3, dtype=torch.uint8), -1, 5), lambda: torch.bernoulli(X), lambda: torch.empty(3).geometric_(1.5),
    *(lambda p=p, a=a: torch.multinomial(p, 2, a) for p in (-ROWS, ROWS / 0, ROWS.log(), ROWS * 0, ROWS[:, :0]) for a in (False, True)),
    lambda: torch.multinomial(ROWS[:, :1], 2),
])  # fmt: skip
def test_what_eager_refuses_is_refused(draw):
    for call in (draw, compile_fresh(draw)):
        with pytest.raises(RuntimeError):
            call()


def test_masks_as_mkl_draws_them():
    """What viRngBernoulli of MKL 2026.2 gave for the generator's first number, and the sequence by its definition."""
    state = torch.Generator().manual_seed(5).get_state()
    found = torch.empty(64, dtype=torch.bool)
    _core.draw("mcg31", "b8", state.data_ptr(), state.numel(), found.data_ptr(), 64, 0.3)
    assert "".join(map(str, found.int().tolist())) == "0000100010001001100000000000100001010011100000000100110100001000"
    for n, p in ((1, 0.5), (33, 1.0), (2000, 0.7), (2000, 1e-3)):
        generator = torch.Generator().manual_seed(n)
        state, x = generator.get_state(), int(torch.empty(1, dtype=torch.int64).random_(-(1 << 63), None, generator=generator)) >> 32
        x, expected, found = x % (1 << 32) % 0x7FFFFFFF, [], torch.empty(n, dtype=torch.bool)
        for _ in range(n):
            expected.append(torch.tensor(x / 0x7FFFFFFF).item() < torch.tensor(p).item())
            x = x * 1132489760 % 0x7FFFFFFF
        _core.draw("mcg31", "b8", state.data_ptr(), state.numel(), found.data_ptr(), n, p)
        assert found.tolist() == expected
