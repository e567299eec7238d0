# tests/torch/test_attention.py: scaled dot product attention, forward and backward, against eager
import pytest
import torch
import torch.nn.functional as F
from harness import check, compile_fresh, gradients, normal

hologram_torch = pytest.importorskip("hologram_torch")


def keep(*shape):
    """A mask that hides about a third, but no whole row."""
    mask = normal(*shape, seed=9) > -0.4
    mask[..., 0] = True
    return mask


Q, K, V = (2, 4, 7, 16), (2, 4, 9, 16), (2, 4, 9, 16)
CASES = {
    "plain": (Q, K, V, None, {}), "causal": (Q, Q, Q, None, {"is_causal": True}),
    "causal_longer_keys": (Q, K, V, None, {"is_causal": True}), "scale": (Q, K, V, None, {"scale": 0.7}),
    "truth_mask": (Q, K, V, keep(7, 9), {}), "padding_mask": (Q, K, V, keep(2, 1, 1, 9), {}), "head_mask": (Q, K, V, keep(4, 7, 9), {}),
    "bias": (Q, K, V, normal(2, 1, 7, 9, seed=5), {}), "grouped": (Q, (2, 2, 9, 16), (2, 2, 9, 16), None, {"enable_gqa": True}),
    "grouped_causal": ((1, 6, 5, 8), (1, 2, 5, 8), (1, 2, 5, 8), None, {"enable_gqa": True, "is_causal": True}),
    "one_head_of_keys": (Q, (2, 1, 9, 16), (2, 1, 9, 16), normal(2, 1, 7, 9, seed=5), {}), "value_width": (Q, K, (2, 4, 9, 24), None, {}),
    "three_axes": ((3, 7, 16), (3, 9, 16), (3, 9, 16), None, {}), "one_query": ((2, 4, 1, 16), K, V, None, {}),
    "wide": ((1, 2, 130, 64), (1, 2, 200, 64), (1, 2, 200, 64), None, {}),
    "wide_truth_mask": ((1, 2, 45, 16), (1, 2, 150, 16), (1, 2, 150, 16), keep(45, 150), {}),
    "hidden_row": ((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), torch.arange(4)[:, None].expand(4, 4) != 2, {}),
    "deep": ((1, 2, 70, 256), (1, 2, 131, 256), (1, 2, 131, 256), keep(70, 131), {}),
    "deep_uneven": ((1, 2, 70, 80), (1, 2, 131, 80), (1, 2, 131, 112), None, {}),
    "wide_bias": ((1, 2, 45, 16), (1, 2, 150, 16), (1, 2, 150, 16), normal(1, 2, 45, 150, seed=5), {}),
}  # fmt: skip


def attend(q, k, v, mask, options):
    return F.scaled_dot_product_attention(q, k, v, mask, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_forward(name, dtype):
    q, k, v, mask, options = CASES[name]
    q, k, v = (normal(*shape, seed=i, dtype=dtype) for i, shape in enumerate((q, k, v)))
    mask = mask.to(dtype) if mask is not None and mask.dtype != torch.bool else mask
    with torch.no_grad():
        actual = compile_fresh(lambda *a: attend(*a, options))(q, k, v, mask)
        expected = attend(q, k, v, mask, options)
        wide = None if mask is None else mask if mask.dtype == torch.bool else mask.float()
        truth = attend(q.float(), k.float(), v.float(), wide, options)
    check(actual, expected, truth if dtype == torch.bfloat16 else None)
    assert hologram_torch.stats()["fallback_ops"] == {}


@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (2, 3, 0, 8)])
@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2)])
def test_a_result_lies_as_eagers(axes, shape):
    """Where a row's numbers lie apart eager takes another kernel; what is drawn behind goes by how the result lies."""
    q = normal(*(shape[a] for a in axes), seed=1).permute(axes)

    def call(q):
        torch.manual_seed(1)
        out = attend(q, q, q, None, {})
        return out, F.dropout(out.transpose(2, 3).flatten(1, 2) + 1, 0.5)

    check(compile_fresh(call)(q), call(q))


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    *shapes, mask, options = CASES[name]
    inputs = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    call = lambda *a: attend(*a, options)  # noqa: E731
    check(gradients(compile_fresh(call), inputs, mask), gradients(call, inputs, mask), strides=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "heads, kv_heads, queries, keys, depth, mask, causal",
    [
        (8, 8, 150, 150, 32, None, True), (2, 2, 260, 260, 40, None, True), (12, 4, 70, 131, 16, "keep", False),
        (4, 1, 60, 60, 24, None, True), (8, 8, 49, 200, 80, "bias", False),
    ],
)  # fmt: skip
def test_gradients_are_as_exact_as_eager(heads, kv_heads, queries, keys, depth, mask, causal, dtype):
    q, k, v = (
        normal(2, h, n, depth, seed=i, dtype=dtype)
        for i, (h, n) in enumerate([(heads, queries), (kv_heads, keys), (kv_heads, keys)])
    )
    mask = {"keep": keep(2, 1, queries, keys), "bias": normal(heads, queries, keys, seed=5), None: None}[mask]
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(dtype)

    def call(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=heads != kv_heads)

    actual = gradients(compile_fresh(call), (q, k, v), mask)
    assert hologram_torch.stats()["fallback_ops"] == {}
    wide = mask if mask is None or mask.dtype == torch.bool else mask.double()
    exact = gradients(call, (q.double(), k.double(), v.double()), wide)
    bound = 2e-5 if dtype == torch.float32 else 2e-2
    for got, want in zip(actual, exact, strict=True):
        assert (got.double() - want).abs().max() <= bound * want.abs().max()


@pytest.mark.parametrize(
    "kv_heads, queries, keys, shape, dtype",
    [
        (4, 49, 49, (1, 4, 49, 49), torch.float32), (4, 33, 70, (4, 33, 70), torch.bfloat16),
        (2, 40, 64, (3, 1, 1, 64), torch.bfloat16), (4, 5, 17, (5, 17), torch.float16),
        (1, 31, 65, (1, 4, 31, 65), torch.bfloat16),
    ],
)  # fmt: skip
def test_gradient_of_a_learned_bias(kv_heads, queries, keys, shape, dtype):
    shapes = ((3, 4, queries, 24), (3, kv_heads, keys, 24), (3, kv_heads, keys, 24), shape)
    inputs = [normal(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)]
    if shape[-1] == keys:
        inputs[3][..., 1] = float("-inf")
        inputs[3].select(-2, -1).fill_(float("-inf"))  # a query that sees nothing (or each, in a row for all)
    if shape[-2:] == (1, keys):
        inputs[3][..., 2:] = normal(*shape, seed=3, dtype=dtype)[..., 2:]

    def call(q, k, v, bias):
        return F.scaled_dot_product_attention(q, k, v, bias, enable_gqa=kv_heads != 4)

    actual = gradients(compile_fresh(call), inputs)
    assert hologram_torch.stats()["fallback_ops"] == {}
    exact = gradients(call, [x.double() for x in inputs])
    bound = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype]
    for got, want in zip(actual, exact, strict=True):
        assert got.dtype == dtype and want.isfinite().all()
        assert (got.double() - want).abs().max() <= bound * want.abs().max()


def test_a_learned_bias_of_capped_scores():
    inputs = [normal(2, 3, n, 16, seed=i).bfloat16() for i, n in enumerate((20, 30, 30))]
    inputs.append(normal(3, 20, 30, seed=3).bfloat16())

    def call(*a):
        return torch.ops.hologram.sdpa(*a, False, 0.7, False, 1.5)

    def plain(q, k, v, bias):
        scores = 1.5 * torch.tanh(q @ k.mT * 0.7 / 1.5) + bias
        return scores.softmax(-1) @ v

    for compiled in (compile_fresh(call), call):
        actual = gradients(compiled, inputs)
        for got, want in zip(actual, gradients(plain, [x.double() for x in inputs]), strict=True):
            assert (got.double() - want).abs().max() <= 2e-2 * want.abs().max()


def test_training_stores_no_scores():
    """What a training step allocates grows with the sequence, not with its square."""
    from hologram_torch import counters

    def step(length):
        inputs = [normal(1, 8, length, 16, seed=i).requires_grad_() for i in range(3)]
        with counters.capture() as records:
            compiled = compile_fresh(lambda *a: F.scaled_dot_product_attention(*a, is_causal=True))
            compiled(*inputs).sum().backward()
        programs = [text for _, executable, _ in records for text in executable.dump("atlas")]
        assert any("\nattention_grad" in text for text in programs)
        sizes = [int(line.split("[")[1].rstrip("]")) for text in programs for line in text.splitlines() if line.startswith("buffer")]
        return max(sizes)

    assert step(512) == 2 * step(256)


def test_eager_flash_operators_are_native():
    """As code that calls them itself has them; the log-sum-exp too."""
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, k, v = (normal(2, 3, 40, 16, seed=i) for i in range(3))

    def call(q, k, v):
        return flash(q, k, v, 0.0, True)

    check(compile_fresh(call)(q, k, v), call(q, k, v), strides=False)
    assert hologram_torch.stats()["fallback_ops"] == {}


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
    ((_, executable, _),) = records
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
    function = compile_fresh(lambda *a: flex_attention(*a, score_mod=score_mod, block_mask=mask, enable_gqa=True))
    actual = function(q, k, v)
    torch.testing.assert_close(actual, exact.float(), rtol=1e-4, atol=1e-5)
    if score_mod is not slopes:  # which is not a part of the attention kernel
        assert hologram_torch.stats()["fallback_ops"] == {}


def plain(q, k, v, mask, cap, scale=0.3):
    """As models write attention that keep it in plain operations."""
    scores = torch.matmul(q, k.transpose(2, 3)) * scale
    if cap:
        scores = torch.tanh(scores / cap) * cap
    if mask is not None:
        scores = scores + mask
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, p=0.1, training=False), v)


def attention_kernels(function, *inputs):
    from hologram_torch import counters

    with counters.capture() as records:
        out = compile_fresh(function)(*inputs)
    programs = [text for _, executable, _ in records for text in executable.dump("atlas")]
    return out, sum("\nattention batch" in text for text in programs)


@pytest.mark.parametrize("cap", [0, 5.0])
@pytest.mark.parametrize("mask", [None, "added", "slopes"])
def test_attention_in_plain_operations_is_one_kernel(cap, mask):
    q, k, v = (normal(2, 4, 60, 16, seed=i) for i in range(3))
    if mask == "added":
        mask = torch.where(keep(2, 1, 60, 60), 0.0, torch.finfo(torch.float32).min)
    elif mask == "slopes":
        mask = -(torch.arange(60)[:, None] - torch.arange(60)).abs() * torch.tensor([0.5, 0.2, 0.1, 0.05])[:, None, None]
    out, kernels = attention_kernels(lambda *a: plain(*a, cap), q, k, v, mask)
    assert kernels == 1
    check(out, plain(q, k, v, mask, cap), strides=False)
    call = lambda q, k, v: plain(q, k, v, mask, cap)  # noqa: E731
    check(gradients(compile_fresh(call), (q, k, v)), gradients(call, (q, k, v)), strides=False)


@pytest.mark.parametrize("variant", ["used scores", "bfloat16", "unequal caps", "other axis"])
def test_other_plain_products_stay(variant):
    q, k, v = (normal(1, 2, 9, 9, seed=i) for i in range(3))

    def function(q, k, v):
        scores = q @ k.mT
        if variant == "unequal caps":
            scores = torch.tanh(scores / 3.0) * 4.0
        weights = scores.softmax(-2 if variant == "other axis" else -1)
        return (weights @ v, scores) if variant == "used scores" else weights @ v

    if variant == "bfloat16":
        q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    out, kernels = attention_kernels(function, q, k, v)
    assert kernels == 0
    check(out, function(q, k, v), function(q.float(), k.float(), v.float()), strides=False)


@pytest.mark.parametrize("queries", [1, 40])
def test_scores_that_are_not_finite(queries):
    """NaN and infinities come out where eager has them."""
    q, k, v = (normal(1, 2, n, 16, seed=i) for i, n in enumerate((queries, 150, 150)))
    k[0, 0, 3, 2] = float("nan")
    v[0, 1, 140, 1] = float("inf")
    mask = torch.zeros(queries, 150)
    mask[:, 5:] = float("-inf")
    for m in (None, mask.masked_fill(torch.arange(150) == 140, 0.0)):
        out, want = compile_fresh(F.scaled_dot_product_attention)(q, k, v, m), F.scaled_dot_product_attention(q, k, v, m)
        assert torch.equal(out.isnan(), want.isnan()) and torch.equal(out.isinf(), want.isinf())


def test_bfloat16_scores_far_apart():
    """Exponentials that underflow are 0, a masked key counts for nothing, and a NaN stays where it is."""
    q, k, v = (normal(2, 3, 40, 32, seed=i) for i in range(3))
    q = (q * 40).bfloat16()
    k, v = k.bfloat16(), v.bfloat16()
    k[1, 2, 7, 3] = float("nan")
    mask = torch.zeros(2, 1, 1, 40, dtype=torch.bfloat16)
    mask[0, ..., 5:] = float("-inf")

    def attention(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask)

    actual = compile_fresh(attention)(q, k, v, mask)
    expected = attention(*(x.double() for x in (q, k, v, mask)))
    assert torch.equal(actual.isnan(), expected.isnan())
    finite = ~expected.isnan()
    assert finite.any() and not finite.all()
    error = (actual.double() - expected)[finite].abs().max()
    assert error <= 2**-7 * v.double().abs().max()
