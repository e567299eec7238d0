# tests/torch/test_recurrent.py: nn.LSTM, nn.GRU and nn.RNN in one graph, forwards and backwards
import pytest
import torch
from harness import backend_stats, check, compile_fresh, graph_count, normal
from hologram import _core
from hologram_torch.lowering import recurrent
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LAYERS = {
    "lstm": lambda: torch.nn.LSTM(6, 5), "lstm_deep": lambda: torch.nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True),
    "lstm_no_bias": lambda: torch.nn.LSTM(6, 5, bias=False),
    "lstm_projected": lambda: torch.nn.LSTM(6, 5, 2, proj_size=3, bidirectional=True), "gru": lambda: torch.nn.GRU(6, 5),
    "gru_deep": lambda: torch.nn.GRU(6, 5, 2, bidirectional=True),
    "gru_no_bias": lambda: torch.nn.GRU(6, 5, bias=False, batch_first=True), "rnn": lambda: torch.nn.RNN(6, 5),
    "rnn_relu": lambda: torch.nn.RNN(6, 5, nonlinearity="relu", bidirectional=True),
}  # fmt: skip


def make(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return LAYERS[name]()


def hidden(layer, batch):
    """Initial states of the layer that are not zero."""
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    state = normal(count, batch, getattr(layer, "proj_size", 0) or layer.hidden_size, seed=1)
    return (state, normal(count, batch, layer.hidden_size, seed=2)) if layer.mode == "LSTM" else state


def native():
    stats = backend_stats()
    assert graph_count() == 1 and stats["failed_graphs"] == 0 and stats["fallback_ops"] == {}


@pytest.mark.parametrize("name", LAYERS)
def test_inference(name):
    layer, x = make(name).eval(), normal(7, 3, 6)
    batch = 7 if layer.batch_first else 3
    with torch.no_grad():
        check(compile_fresh(layer, fullgraph=True)(x), layer(x), strides=False)
        state = hidden(layer, batch)
        check(compile_fresh(layer, fullgraph=True)(x, state), layer(x, state), strides=False)
        check(compile_fresh(layer)(x[0]), layer(x[0]), strides=False)  # without a batch
    native()


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name):
    layer = make(name)
    results = []
    for call in (compile_fresh(layer, fullgraph=True), layer):
        layer.zero_grad()
        x = normal(7, 3, 6).requires_grad_()
        states = hidden(layer, 7 if layer.batch_first else 3)
        starts = [t.clone().requires_grad_() for t in torch.utils._pytree.tree_leaves(states)]
        outputs = call(x, tuple(starts) if layer.mode == "LSTM" else starts[0])
        leaves = torch.utils._pytree.tree_leaves(outputs)
        sum((t * normal(*t.shape, seed=i)).sum() for i, t in enumerate(leaves)).backward()
        results.append([x.grad, *(t.grad for t in starts), *(p.grad.clone() for p in layer.parameters())])
    check(*results, strides=False)
    native()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_a_step_is_one_kernel(kind, dtype, monkeypatch):
    steps = []

    class Core:
        step_loop = _core.step_loop

        @staticmethod
        def compile(*args):
            steps.append(_core.compile(*args))
            return steps[-1]

    monkeypatch.setattr(recurrent, "_core", Core)
    truth = kind(20, 40).eval()  # 40 units: a panel of 32 and a part of one for each gate
    layer = kind(20, 40).eval().to(dtype)
    layer.load_state_dict(truth.state_dict())
    truth.load_state_dict(layer.state_dict())
    with torch.no_grad():
        for batch in (1, 3, 30):
            compiled, x = compile_fresh(layer, fullgraph=True), normal(5, batch, 20, dtype=dtype)
            check(compiled(x), layer(x), truth(x.float()), strides=False)
            native()
    assert [sum(not s["cached"] for s in step.describe()["steps"]) for step in steps] == [1, 1, 1]
    if dtype is torch.float32:  # while training, too, that one kernel keeps four values for the backward pass
        compile_fresh(layer, fullgraph=True)(x)[0].sum().backward()
        inference, forward = (step.describe()["steps"] for step in steps[2:4])
        assert sum(not s["cached"] for s in forward) == 1 and len(forward[-1]["slots"]) == len(inference[-1]["slots"]) + 4


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_packed_sequences_are_right(kind):
    layer, x, lengths = kind(6, 5, 2), normal(7, 3, 6), torch.tensor([7, 3, 5])

    def run(x):
        out, _ = layer(pack_padded_sequence(x, lengths, enforce_sorted=False))
        return pad_packed_sequence(out)[0] * 2

    results = []
    for call in (compile_fresh(run), run):
        given = x.clone().requires_grad_()
        out = call(given)
        out.square().sum().backward()
        results.append((out.detach(), given.grad))
    check(*results)


def test_other_backends_are_left_alone():
    layer, x = make("gru"), normal(7, 3, 6)
    compile_fresh(layer)(x)
    assert graph_count() == 1
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.compile(layer, backend="aot_eager")(x)
    assert graph_count() == 0 and not torch._dynamo.config.allow_rnn
