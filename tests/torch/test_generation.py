# tests/torch/test_generation.py: generate() beside eager, and archives for generation
import asyncio
import copy
import json
import pickle
import threading
from pathlib import Path

import generation_families
import hologram
import hologram_torch
import numpy as np
import pytest
import torch
from hologram_torch import counters
from hologram_torch.generation import _KEPT, tokens
from hologram_torch.generation.steps import Steps

pytest.importorskip("transformers")
PROMPT = torch.randint(1, 99, (2, 7), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["gemma2", "gpt2", "mixtral"])
def test_greedy_tokens_are_eagers(name):
    """`generation_families.py` tries all."""
    assert generation_families.compare(name, layers=1) == []


@pytest.fixture(scope="module")
def model():
    return generation_families.made("llama", layers=1)


@pytest.fixture(scope="module")
def archive(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("generation") / "model.holo"
    report = hologram_torch.export_generation(model, path, batch=1, length=64, isas=())
    weights = sum(p.nbytes for p in model.parameters())
    cache = 2 * 2 * 64 * 8 * 4  # keys and values, heads, places, width, float32
    assert weights + cache <= report.tensor_bytes < weights + cache + 4096, "the methods share weights"
    return hologram.load(path)


def test_an_archive_generates_alone(model, archive):
    prompt = PROMPT[:1]
    expected = model.generate(prompt, max_new_tokens=9, do_sample=False).numpy()
    np.testing.assert_array_equal(hologram.generate(archive, prompt.numpy(), max_new_tokens=9), expected)
    session = archive.session()
    for first in (7, 3, 1):  # the same session again, and a prompt of one token
        expected = model.generate(prompt[:, :first], max_new_tokens=4, do_sample=False).numpy()
        np.testing.assert_array_equal(hologram.generate(session, prompt[:, :first].numpy(), max_new_tokens=4), expected)
    with pytest.raises(ValueError, match="it has 64"):
        hologram.generate(archive, prompt.numpy(), max_new_tokens=59)


def test_steps_ask_dynamo_once_a_prompt(model, monkeypatch):
    made = hologram_torch.generation.compiled(model, 1, 64)
    asked, inner = [], made._decode._compiled
    monkeypatch.setattr(made._decode, "_compiled", lambda ids: asked.append(0) or inner(ids))
    for count in (1, 2):
        wanted = model.generate(PROMPT[:1], max_new_tokens=20, do_sample=False)
        assert torch.equal(hologram_torch.generate(model, PROMPT[:1], max_new_tokens=20, length=64), wanted)
        assert len(asked) == count
    assert made._decode._graph is None, "holds the model's tensors no longer"


def test_the_cache_stays_where_it_is(model):
    """Steps write one place of it, by a kernel each for keys and values, and there is no other memory of its size."""
    with counters.capture() as compiled:
        hologram_torch.generate(model, PROMPT, max_new_tokens=2, length=4096)
    steps = next(reversed(getattr(model, _KEPT).values())).steps
    before = {name: (t.data_ptr(), t.clone()) for name, t in steps.named_buffers() if name in ("keys0", "values0")}
    position = int(steps.position)
    hologram_torch.generate(model, PROMPT, max_new_tokens=8, length=4096)
    for name, (address, old) in before.items():
        now = steps.get_buffer(name)
        assert now.data_ptr() == address
        assert torch.equal(now[:, :, :position], old[:, :, :position]) and not now[:, :, position + 6 :].any()
        assert now[:, :, position : position + 6].any(-1).all()
    plan = compiled[-1][1].describe()  # of decode
    slots, size = plan["slots"], str(steps.get_buffer("keys0").nbytes)
    assert [slot["kind"] for slot in slots if slot["bytes"] == size] == ["input"] * 2
    writers = [step["slots"] for step in plan["steps"] if "scatter" in step["name"]]
    assert len(writers) == 2 and all(any(slots[number]["bytes"] == size for number in buffers) for buffers in writers)
    assert int(plan["arena_bytes"]) < int(size) // 8, "no copy of the cache"


def test_a_cache_is_one_block_on_huge_pages():
    steps = Steps(generation_families.made("gpt2", layers=2), 8, 4096)
    together = [steps.get_buffer(name) for name in ("keys0", "values0", "keys1", "values1")]
    places = [t.data_ptr() for t in together]
    assert places[0] % (2 << 20) == 0 and sum(t.nbytes for t in together) >= 2 << 20
    assert places == [places[0] + sum(t.nbytes for t in together[:n]) for n in range(4)]
    assert all(t.untyped_storage().nbytes() == t.nbytes and not t._is_view() and not t.any() for t in together)


def test_draws_are_those_of_the_archive(model, archive):
    """The same seed draws the same tokens; the graph's choice is eager's."""
    choices = {"do_sample": True, "temperature": 1.5, "top_k": 20, "top_p": 0.9, "max_new_tokens": 6}
    drawn = [hologram.generate(archive, PROMPT[0].numpy(), seed=seed, **choices) for seed in (1, 1, 2)]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])
    logits, numbers = torch.randn(1, 99, generator=torch.Generator().manual_seed(2)), np.random.default_rng(3).random((40, 1), np.float32)
    arrays = np.float32(1.5), np.int64(20), np.float32(0.9)
    session = archive.session()
    for uniform in numbers:
        wanted = Steps.sample(None, logits, *map(torch.tensor, arrays), torch.from_numpy(uniform))
        np.testing.assert_array_equal(session.methods["sample"](logits.numpy(), *arrays, uniform), wanted.numpy())


@pytest.mark.parametrize(
    "temperature, top_k, top_p", [(1.0, 0, 1.0), (0.7, 0, 1.0), (1.0, 3, 1.0), (1.0, 0, 0.6), (2.0, 5, 0.5), (1.0, 1, 1.0)]
)
def test_draws_are_distributed_as_transformers_says(temperature, top_k, top_p):
    """All that may be drawn is, as often as its probability says: by numbers that lie evenly in [0, 1)."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = torch.randn(1, 12, generator=torch.Generator().manual_seed(4)) * 2
    kept = TemperatureLogitsWarper(temperature)(None, logits)
    kept = TopKLogitsWarper(top_k)(None, kept) if top_k else kept
    wanted = torch.softmax(TopPLogitsWarper(top_p)(None, kept) if top_p < 1 else kept, -1)[0]
    count = 4000
    uniform = (torch.arange(count) / count).float()
    scalars = torch.tensor(temperature), torch.tensor(top_k), torch.tensor(top_p)
    drawn = Steps.sample(None, logits.expand(count, 12), *scalars, uniform)[:, 0]
    torch.testing.assert_close(torch.bincount(drawn, minlength=12) / count, wanted, atol=2 / count, rtol=0)
    last = torch.tensor([1 - 2**-24])
    assert wanted[Steps.sample(None, logits, *scalars, last)[0, 0]] > 0


def test_the_command(archive, capsys):
    from hologram import cli

    assert cli.main(["generate", archive.path, "5", "6", "7", "--tokens", "4", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["ids"] == hologram.generate(archive, [5, 6, 7], max_new_tokens=4)[0].tolist()
    assert shown["new"] == 4 and shown["tokens_per_second"] > 0 and shown["first_token_ms"] > 0
    assert cli.main(["generate", archive.path, *map(str, range(64)), "--json"]) == 1
    assert "it has 64" in capsys.readouterr().out


def test_a_module_with_its_own_cache():
    """As gpt-fast's: forward(ids, positions) writes into its buffers."""
    from zoo import Gpt2Cached

    model = Gpt2Cached(layers=1).eval()
    ids = torch.randint(0, 199, (1, 5))
    expected, own = ids, copy.deepcopy(model)
    with torch.no_grad():
        for _ in range(6):
            fresh = own(expected, torch.arange(expected.shape[1]))
            expected = torch.cat([expected, fresh[:, -1:].argmax(-1)], 1)
    made = hologram_torch.generate(model, ids, max_new_tokens=6, length=64)
    assert torch.equal(made, expected)
    assert torch.equal(torch.stack(list(tokens(model, ids[0], max_new_tokens=6, length=64)), 1), expected[:, 5:])
    assert getattr(model, _KEPT) and not getattr(copy.deepcopy(model), _KEPT) and not getattr(pickle.loads(pickle.dumps(model)), _KEPT)


def test_weights_that_change_are_seen_and_stay_packed(model):
    settings = {"max_new_tokens": 3, "length": 4096}
    made = hologram_torch.generate(model, PROMPT, **settings)
    with torch.no_grad():
        model.lm_head.weight.neg_()
    changed = hologram_torch.generate(model, PROMPT, **settings)
    assert torch.equal(changed, model.generate(PROMPT, max_new_tokens=3, do_sample=False)) and not torch.equal(changed, made)
    with torch.profiler.profile() as profile:
        hologram_torch.generate(model, PROMPT, **settings)
    with torch.no_grad():
        model.lm_head.weight.neg_()
    names = {event.key for event in profile.key_averages()}
    assert any("dot_general" in name for name in names) and not any("pack" in name for name in names)


def test_a_model_with_other_state_is_refused():
    import transformers

    small = dict(vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    for kind, words in (("Mamba", "ForCausalLM keeps more than keys and values"), ("OpenAIGPT", "LMHeadModel keeps no keys"),
                        ("Bart", "ForConditionalGeneration has an encoder")):  # fmt: skip
        model = getattr(transformers, kind + words.split()[0])(getattr(transformers, f"{kind}Config")(**small))
        with pytest.raises(NotImplementedError, match=kind + words):
            hologram_torch.generate(model.eval(), PROMPT)
    with pytest.raises(TypeError, match="expected a torch.nn.Module, got str"):
        hologram_torch.generate("gpt2", PROMPT)


# --- hologram serve
@pytest.fixture(scope="module")
def served(model, tmp_path_factory):
    """An archive for two rows."""
    path = tmp_path_factory.mktemp("served") / "model.holo"
    hologram_torch.export_generation(model, path, batch=2, length=64, isas=())
    return path


async def _asked(path, talk, **settings):
    """What talk(client, service) does with an application that runs."""
    from hologram.serving import application

    httpx = pytest.importorskip("httpx")
    app = application(path, **settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60) as client:
            return await talk(client, app.state.service)


def test_a_server_joins_requests_for_tokens(model, served):
    """Of other lengths and counts, wrong ones among them; each gets what it gets alone."""
    prompts = [PROMPT[0, :5].tolist(), PROMPT[1].tolist(), [7], PROMPT[0].tolist()]
    asked = [{"ids": ids, "max_new_tokens": 3 + 2 * n} for n, ids in enumerate(prompts)]
    made = [model.generate(torch.tensor([a["ids"]]), max_new_tokens=a["max_new_tokens"], do_sample=False)[0] for a in asked]
    alone = [tokens[len(a["ids"]) :] for tokens, a in zip(made, asked)]
    wrong = [{"ids": [-1]}, {"ids": []}, {"ids": [1], "max_new_tokens": 99}, {"ids": [1], "temperatur": 1}, {"ids": [1], "top_p": 0}]
    others = ("top_p", "1"), ("temperature", None), ("eos", [[1], [2]]), ("eos", [1, [2]])
    wrong += [{"ids": [10**6]}, *({"ids": [1], name: value} for name, value in others)]
    async def talk(client, service):
        answers = await asyncio.gather(*[client.post("/generate", json=a) for a in [*asked, wrong[0]]])
        assert answers.pop().status_code == 422
        assert [a.json()["tokens"] for a in answers] == [a.tolist() for a in alone]
        for request in wrong[1:]:
            assert (await client.post("/generate", json=request)).status_code == 422, request
        lines = (await client.post("/generate", json={**asked[1], "eos": int(alone[1][2]), "stream": True})).text.splitlines()
        assert [json.loads(line)["token"] for line in lines] == alone[1][: alone[1].tolist().index(alone[1][2]) + 1].tolist()
        how = {"do_sample": True, "top_k": 9, "max_new_tokens": 6}
        drawn = [{"ids": prompts[seed], "seed": seed, "eos": None, **how} for seed in (0, 1)]
        together = await asyncio.gather(*[client.post("/generate", json=a) for a in drawn])
        one_by_one = [await client.post("/generate", json=a) for a in drawn]
        assert [a.json() for a in together] == [a.json() for a in one_by_one] and together[0].json() != together[1].json()
        text = service.metrics.text().decode()
        assert 'hologram_batch_requests_bucket{le="1.0",method="generate"}' in text and "hologram_tokens_total" in text
        assert 'hologram_requests_total{method="generate",status="422"}' in text
        return (await client.get("/v1/models")).json()

    assert asyncio.run(_asked(served, talk))["models"][0]["generate"]["rows"] == 2


def test_who_leaves_ends_the_row_and_full_queues_refuse(served):
    """Steps are counted: a batch ends when nobody waits for its rows any more."""

    async def talk(client, service):
        while not service.ready:
            await asyncio.sleep(0.01)
        generator, begun, go_on = service._generator, threading.Event(), threading.Event()
        steps = []

        class Slow:
            def __init__(self, inner):
                self.batch, self.length, self.prefill, self.sample = inner.batch, inner.length, inner.prefill, inner.sample
                self.inner = inner

            def decode(self, ids):
                steps.append(1)
                begun.set()
                assert go_on.wait(30)
                return self.inner.decode(ids)

        generator._steps = Slow(generator._steps)
        first = asyncio.create_task(client.post("/generate", json={"ids": [5], "max_new_tokens": 50}))
        await asyncio.to_thread(begun.wait, 30)
        waits = asyncio.create_task(client.post("/generate", json={"ids": [6], "max_new_tokens": 1}))
        while not generator.waiting():
            await asyncio.sleep(0.01)
        refused = await client.post("/generate", json={"ids": [7]})
        assert refused.status_code == 503 and "retry-after" in refused.headers
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        go_on.set()
        assert (await waits).status_code == 200
        return len(steps)

    assert asyncio.run(_asked(served, talk, queue=1)) < 4


def test_other_archives_do_not_generate():
    async def talk(client, service):
        return (await client.post("/generate", json={"ids": [1]})).status_code

    assert asyncio.run(_asked(Path(__file__).resolve().parents[2] / "examples/model.holo", talk)) == 404
