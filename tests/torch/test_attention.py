# tests/torch/test_attention.py: scaled dot product attention, forward and backward, against eager
import pytest
import torch
import torch.nn.functional as F
from harness import BACKEND, check, compile_fresh

pytestmark = pytest.mark.skipif(BACKEND != "hologram", reason="tests of this backend's operator")
hologram_torch = pytest.importorskip("hologram_torch")


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def keep(*shape):
    """A mask that hides about a third, but no whole row."""
    mask = normal(*shape, seed=9) > -0.4
    mask[..., 0] = True
    return mask


Q, K, V = (2, 4, 7, 16), (2, 4, 9, 16), (2, 4, 9, 16)
CASES = {
    "plain": (Q, K, V, None, {}),
    "causal": (Q, Q, Q, None, {"is_causal": True}),
    "causal_longer_keys": (Q, K, V, None, {"is_causal": True}),
    "scale": (Q, K, V, None, {"scale": 0.7}),
    "truth_mask": (Q, K, V, keep(7, 9), {}),
    "padding_mask": (Q, K, V, keep(2, 1, 1, 9), {}),
    "head_mask": (Q, K, V, keep(4, 7, 9), {}),
    "bias": (Q, K, V, normal(2, 1, 7, 9, seed=5), {}),
    "grouped": (Q, (2, 2, 9, 16), (2, 2, 9, 16), None, {"enable_gqa": True}),
    "grouped_causal": ((1, 6, 5, 8), (1, 2, 5, 8), (1, 2, 5, 8), None, {"enable_gqa": True, "is_causal": True}),
    "one_head_of_keys": (Q, (2, 1, 9, 16), (2, 1, 9, 16), normal(2, 1, 7, 9, seed=5), {}),
    "value_width": (Q, K, (2, 4, 9, 24), None, {}),
    "three_axes": ((3, 7, 16), (3, 9, 16), (3, 9, 16), None, {}),
    "one_query": ((2, 4, 1, 16), K, V, None, {}),
    "wide": ((1, 2, 130, 64), (1, 2, 200, 64), (1, 2, 200, 64), None, {}),
}


def attend(q, k, v, mask, options):
    return F.scaled_dot_product_attention(q, k, v, mask, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_forward(name, dtype):
    q, k, v, mask, options = CASES[name]
    q, k, v = (normal(*shape, seed=i, dtype=dtype) for i, shape in enumerate((q, k, v)))
    mask = mask.to(dtype) if mask is not None and mask.dtype != torch.bool else mask
    hologram_torch.reset_stats()
    with torch.no_grad():
        actual = compile_fresh(lambda *a: attend(*a, options))(q, k, v, mask)
        expected = attend(q, k, v, mask, options)
        wide = None if mask is None else mask if mask.dtype == torch.bool else mask.float()
        truth = attend(q.float(), k.float(), v.float(), wide, options)
    check(actual, expected, truth if dtype == torch.bfloat16 else None)
    assert hologram_torch.stats()["fallback_ops"] == {}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    *shapes, mask, options = CASES[name]
    results = []
    for call in (compile_fresh(lambda *a: attend(*a, options)), lambda *a: attend(*a, options)):
        inputs = [normal(*shape, seed=i).requires_grad_() for i, shape in enumerate(shapes)]
        out = call(*inputs, mask)
        out.backward(normal(*out.shape, seed=7))
        results.append((out.detach(), *(t.grad for t in inputs)))
    check(*results, strides=False)


def test_a_fully_hidden_row():
    q, k, v = (normal(1, 2, 4, 8, seed=i) for i in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    check(compile_fresh(F.scaled_dot_product_attention)(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask))


def test_dropout_is_left_to_pytorch():
    q, k, v = (normal(1, 2, 4, 8, seed=i) for i in range(3))
    results = []
    for call in (compile_fresh(lambda *a: F.scaled_dot_product_attention(*a, dropout_p=0.5)),
                 lambda *a: F.scaled_dot_product_attention(*a, dropout_p=0.5)):  # fmt: skip
        torch.manual_seed(5)
        results.append(call(q, k, v))
    check(*results, strides=False)


def test_sizes_change_without_recompiling():
    compiled = compile_fresh(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), dynamic=True)
    compiled(*(normal(2, 3, 5, 8, seed=i) for i in range(3)))
    hologram_torch.reset_stats()
    for length in (6, 33, 70):
        q, k, v = (normal(4, 3, length, 8, seed=i) for i in range(3))
        check(compiled(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True))
    assert hologram_torch.stats()["kernel_cache_misses"] == 0


@pytest.mark.parametrize("mask", [None, "padding", "causal"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer(mask, norm_first):
    """In eval mode eager runs the layer as one operator."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first).eval()
    x = normal(2, 6, 32)
    options = {}
    if mask == "padding":
        options["src_key_padding_mask"] = torch.arange(6) >= torch.tensor([[6], [4]])
    if mask == "causal":
        options["src_mask"] = torch.nn.Transformer.generate_square_subsequent_mask(6)
    hologram_torch.reset_stats()
    with torch.no_grad():
        actual, expected = compile_fresh(layer)(x, **options), layer(x, **options)
    visible = options.get("src_key_padding_mask", torch.zeros(2, 6, dtype=torch.bool)).logical_not()
    check(actual[visible], expected[visible])
    assert hologram_torch.stats()["fallback_ops"] == {}


def test_heads_lie_as_the_output_projection_reads_them():
    from hologram_torch import counters

    def model(q, k, v, w):
        a = F.scaled_dot_product_attention(q, k, v)
        return a.transpose(1, 2).reshape(2, 16, 96) @ w

    inputs = [normal(2, 3, 16, 32, seed=i) for i in range(3)] + [normal(96, 64)]
    with counters.capture() as records:
        torch.testing.assert_close(compile_fresh(model)(*inputs), model(*inputs))
    ((_, executable),) = records
    product = next(text for text in executable.dump("atlas") if "\nproduct" in text)
    assert "load.f32 b0[96*i0 + i2]" in product


def window(b, h, i, j):
    return (i >= j) & (i - j <= 40)


def causal(b, h, i, j):
    return i >= j


def capped(score, b, h, i, j):
    return 20 * torch.tanh(score / 20)


def slopes(score, b, h, i, j):
    return score + (j - i) * (h + 1) * 0.01


FLEX = {
    "plain": (None, None),
    "causal": (None, causal),
    "window": (None, window),
    "softcap": (capped, None),
    "softcap_window": (capped, window),
    "slopes": (slopes, causal),
}


@pytest.mark.parametrize("name", FLEX)
def test_flex_attention(name, keys=420):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    score_mod, mask_mod = FLEX[name]
    q = normal(2, 4, 300, 16, seed=1)
    k, v = (normal(2, 2, keys, 16, seed=s) for s in (2, 3))
    mask = mask_mod and create_block_mask(mask_mod, None, None, 300, keys, device="cpu")
    scores = q.double() @ k.double().repeat_interleave(2, 1).mT / 4
    index = [torch.arange(n).view([-1 if a == i else 1 for a in range(4)]) for i, n in enumerate((2, 4, 300, keys))]
    scores = score_mod(scores, *index) if score_mod else scores
    scores = scores.masked_fill(~mask_mod(*index), float("-inf")) if mask_mod else scores
    exact = scores.softmax(-1) @ v.double().repeat_interleave(2, 1)
    hologram_torch.reset_stats()
    function = compile_fresh(lambda *a: flex_attention(*a, score_mod=score_mod, block_mask=mask, enable_gqa=True))
    actual = function(q, k, v)
    torch.testing.assert_close(actual, exact.float(), rtol=1e-4, atol=1e-5)
    if score_mod is not slopes:  # which is not a part of the attention kernel
        assert hologram_torch.stats()["fallback_ops"] == {}


def test_gradients_of_capped_scores():
    q, k, v, weight = (normal(1, 2, 9, 8, seed=i).double().requires_grad_() for i in range(4))
    actual = torch.ops.hologram.sdpa(q, k, v, None, False, 0.7, False, 1.5)
    exact = (1.5 * torch.tanh(q @ k.mT * 0.7 / 1.5)).softmax(-1) @ v
    torch.testing.assert_close(actual, exact)
    gradients = (torch.autograd.grad((x * weight).sum(), (q, k, v)) for x in (actual, exact))
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want)


def test_a_band_of_truth_hides_blocks_of_keys():
    q, k, v = normal(1, 2, 700, 32), normal(1, 2, 700, 32, seed=1), normal(1, 2, 700, 32, seed=2)

    def function(q, k, v):
        i = torch.arange(700)
        return F.scaled_dot_product_attention(q, k, v, (i[:, None] >= i) & (i[:, None] - i < 100))

    torch.testing.assert_close(compile_fresh(function)(q, k, v), function(q, k, v), rtol=1e-4, atol=1e-5)


def test_flex_attention_stays_where_its_parts_are_missing(monkeypatch):
    import sys

    import hologram_torch
    from hologram_torch import rewrite

    monkeypatch.setitem(sys.modules, "torch.nn.attention.flex_attention", None)
    monkeypatch.delitem(sys.modules, "hologram_torch.flex", raising=False)
    monkeypatch.delattr(hologram_torch, "flex", raising=False)
    node = torch.fx.Graph().call_function(torch.ops.higher_order.flex_attention)
    assert rewrite._flex(node) is False
    assert node.target is torch.ops.higher_order.flex_attention
