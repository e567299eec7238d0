# tests/torch/test_transformers.py: generate() and the exporters of Hugging Face's transformers
import pytest
import torch
from harness import BACKEND, backend_stats, compile_fresh, module

transformers = pytest.importorskip("transformers")


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64, bos_token_id=1, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64
    )
    return BertModel(config).eval()


def test_generate_with_a_static_cache(exporters):
    """The recipe of docs/pytorch.md."""
    model = llama()
    prompt = torch.randint(1, 64, (1, 5))
    settings = {"max_new_tokens": 6, "do_sample": False, "cache_implementation": "static"}
    expected = model.generate(prompt, **settings, disable_compile=True)
    compile_fresh(model)  # counters from zero
    with torch.no_grad():
        actual = model.generate(prompt, **settings, compile_config=exporters.compile_config(backend=BACKEND))
    assert torch.equal(actual, expected)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0 and backend_stats()["failed_graphs"] == 0


@module(inner=lambda: torch.nn.Embedding(64, 8), outer=lambda: torch.nn.Linear(8, 64))
def Words(self, input_ids, labels):
    logits = self.outer(torch.nn.functional.gelu(self.inner(input_ids)))
    return {"loss": torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def losses_by_trainer(model, folder):
    from transformers import Trainer, TrainingArguments

    tokens = torch.randint(1, 64, (8, 6), generator=torch.Generator().manual_seed(1))
    settings = TrainingArguments(folder, num_train_epochs=1, per_device_train_batch_size=4, use_cpu=True, seed=1, report_to=[],
                                 disable_tqdm=True, save_strategy="no", logging_steps=1)  # fmt: skip
    trainer = Trainer(model, settings, train_dataset=[{"input_ids": row, "labels": row} for row in tokens])
    trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


def losses_by_accelerate(model, folder):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-2))
    losses = []
    for seed in range(2):
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed))
        loss = model(x).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def losses_by_lightning(model, folder):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.losses = model, []

        def training_step(self, batch, number):
            loss = self.model(batch).square().mean()
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-2)

    module, rows = Module(), torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", default_root_dir=folder, **quiet)
    trainer.fit(module, torch.utils.data.DataLoader(rows, batch_size=4))
    return module.losses


def numbers():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))


@pytest.mark.parametrize("losses, make, package", [
    (losses_by_trainer, Words, "accelerate"),
    (losses_by_accelerate, numbers, "accelerate"),
    (losses_by_lightning, numbers, "lightning"),
])  # fmt: skip
def test_trainers_of_compiled_models(losses, make, package, tmp_path):
    """As docs/pytorch.md says: the model is told before the trainer gets it."""
    pytest.importorskip(package)
    model = make().train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    expected = losses(model, tmp_path)
    model.load_state_dict(state)
    compile_fresh(model)  # counters from zero
    model.compile(backend=BACKEND)
    assert losses(model, tmp_path) == pytest.approx(expected, rel=1e-5) and len(expected) == 2
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1 and backend_stats()["failed_graphs"] == 0


def test_a_pipeline_of_a_compiled_model(tmp_path):
    """As docs/pytorch.md says: its model is told."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "very"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizerFast.from_pretrained(tmp_path)
    config = transformers.BertConfig(vocab_size=8, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4)
    classify = transformers.pipeline(
        "text-classification", model=transformers.BertForSequenceClassification(config).eval(), tokenizer=tokenizer, device="cpu"
    )
    texts = ["good", "very very bad"]
    expected = classify(texts)
    compile_fresh(classify.model)  # counters from zero
    classify.model.compile(backend=BACKEND)
    for actual, wanted in zip(classify(texts), expected, strict=True):
        assert actual["label"] == wanted["label"] and actual["score"] == pytest.approx(wanted["score"], rel=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0 and backend_stats()["failed_graphs"] == 0


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = T5Config(**sizes, decoder_start_token_id=0, pad_token_id=0, eos_token_id=None)
    return T5ForConditionalGeneration(config).eval()


def test_generate_with_a_growing_cache():
    """Keys and values of T5's cache come with symbols of their own."""
    model, prompt = t5(), torch.randint(1, 64, (2, 7))
    expected = model.generate(prompt, max_new_tokens=5, do_sample=False)
    model.forward = compile_fresh(model.forward)
    assert torch.equal(model.generate(prompt, max_new_tokens=5, do_sample=False), expected)
    stats = backend_stats()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 3
    assert stats["failed_graphs"] == 0 and stats["fallback_ops"] == {}


@pytest.fixture
def exporters():
    if not hasattr(pytest.importorskip("transformers.exporters", exc_type=ImportError), "register_backend"):
        pytest.skip("this version of transformers has no register_backend")
    if BACKEND != "hologram":
        pytest.skip("tests our exporter")
    from hologram_torch import huggingface

    return huggingface


def test_exported_encoder(exporters, tmp_path):
    from transformers.exporters import AutoHfExporter, ExportedModel

    model = bert()
    inputs = {"input_ids": torch.randint(1, 64, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    inputs["attention_mask"][1, 5:] = 0
    shapes = {name: {0: torch.export.Dim("batch", min=1, max=64), 1: torch.export.Dim("length", min=2, max=64)} for name in inputs}
    exporter = AutoHfExporter.from_config(exporters.HologramConfig())
    exported = exporter.export(model, inputs, exporters.HologramConfig(dynamic_shapes=shapes))
    exported.save_pretrained(tmp_path)
    assert (tmp_path / "model.holo").is_file()
    loaded = ExportedModel.from_pretrained(tmp_path)
    longer = {name: value.repeat(2, 3) for name, value in inputs.items()}
    with torch.no_grad():
        for given in (inputs, longer):
            expected, actual = model(**given), loaded(**given)
            assert type(actual) is type(expected)
            torch.testing.assert_close(actual.last_hidden_state, expected.last_hidden_state)
            torch.testing.assert_close(actual.pooler_output, expected.pooler_output)
    with pytest.raises(TypeError, match="got no attention_mask"):
        loaded.runners["model"](input_ids=inputs["input_ids"])
    with pytest.raises(ValueError, match="runs on the CPU"):
        loaded.to("cuda")
