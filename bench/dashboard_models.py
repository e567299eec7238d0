# bench/dashboard_models.py: the models of PyTorch's performance dashboard, made here with random weights
"""`SUITES`: suite → model → batch, in the order and with the batches of the dashboard's own lists; `build(suite, name, size, batch)` →
(model, arguments, keyword arguments). Hugging Face's have their configuration's default sizes, as there, and those that the dashboard
takes from a hub's repository the sizes that it names; `size="small"` makes them narrow: two layers of 128 features, 1,000 words, 2 × 64
tokens, and of timm's one image. Nothing is downloaded."""

import torch

SUITES = {
    "huggingface": dict(
        pair.split(":")
        for pair in """
AlbertForMaskedLM:8 AlbertForQuestionAnswering:8 AllenaiLongformerBase:8 BartForCausalLM:8 BartForConditionalGeneration:4 BertForMaskedLM:32
BertForQuestionAnswering:32 BlenderbotForCausalLM:32 BlenderbotForConditionalGeneration:16 BlenderbotSmallForCausalLM:256
BlenderbotSmallForConditionalGeneration:128 CamemBert:32 DebertaV2ForMaskedLM:8 DebertaV2ForQuestionAnswering:8 DistilBertForMaskedLM:256
DistilBertForQuestionAnswering:512 DistillGPT2:32 ElectraForCausalLM:64 ElectraForQuestionAnswering:128 GPT2ForSequenceClassification:8
GPTJForCausalLM:1 GPTJForQuestionAnswering:1 GPTNeoForCausalLM:32 GPTNeoForSequenceClassification:32 GoogleFnet:32 LayoutLMForMaskedLM:32
LayoutLMForSequenceClassification:32 M2M100ForConditionalGeneration:64 MBartForCausalLM:8 MBartForConditionalGeneration:4
MT5ForConditionalGeneration:32 MegatronBertForCausalLM:16 MegatronBertForQuestionAnswering:16 MobileBertForMaskedLM:256
MobileBertForQuestionAnswering:256 OPTForCausalLM:4 PLBartForCausalLM:16 PLBartForConditionalGeneration:8 PegasusForCausalLM:128
PegasusForConditionalGeneration:64 RobertaForCausalLM:32 RobertaForQuestionAnswering:32 T5ForConditionalGeneration:8 T5Small:8
TrOCRForCausalLM:64 XGLMForCausalLM:32 XLNetLMHeadModel:16 YituTechConvBert:32 Llama-3.2-1B:8 gemma-2-2b:8 gemma-3-4b-it:8 whisper-tiny:8
Qwen3-0.6B:8 Mistral-7B-Instruct-v0.3:8 gpt-oss-20b:8""".split()
    ),
    "timm": dict(
        pair.split(":")
        for pair in """
adv_inception_v3:128 beit_base_patch16_224:64 convnextv2_nano.fcmae_ft_in22k_in1k:128 deit_base_distilled_patch16_224:64
deit_tiny_patch16_224.fb_in1k:128 dm_nfnet_f0:128 ghostnet_100:512 inception_v3:128 mobilenetv2_100:128 mobilenetv3_large_100:512
mobilevit_s:64 nfnet_l0:128 repvgg_a2:128 swin_base_patch4_window7_224:64 tf_efficientnet_b0:128 visformer_small:128
vit_base_patch14_dinov2.lvd142m:128 vit_base_patch16_siglip_256:128""".split()
    ),
}

# Name: (class, sizes that are not its configuration's own)
NAMED = {
    "AllenaiLongformerBase": ("LongformerForMaskedLM", dict(vocab_size=50265, max_position_embeddings=4098, attention_window=[512] * 12)),
    "CamemBert": ("CamembertForMaskedLM", dict(vocab_size=32005, max_position_embeddings=514)),
    "DistillGPT2": ("GPT2LMHeadModel", dict(n_layer=6)),
    "GoogleFnet": ("FNetForMaskedLM", {}),
    "T5Small": ("T5ForConditionalGeneration", dict(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8)),
    "YituTechConvBert": ("ConvBertForMaskedLM", {}),
    "Llama-3.2-1B": ("LlamaForCausalLM", dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                     num_attention_heads=32, num_key_value_heads=8, head_dim=64, tie_word_embeddings=True)),
    "gemma-2-2b": ("Gemma2ForCausalLM", {}),
    "gemma-3-4b-it": ("Gemma3ForCausalLM", {}),
    "whisper-tiny": ("WhisperForConditionalGeneration", {}),
    "Qwen3-0.6B": ("Qwen3ForCausalLM", dict(vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
                   num_attention_heads=16, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True)),
    "Mistral-7B-Instruct-v0.3": ("MistralForCausalLM", dict(vocab_size=32768)),
    "gpt-oss-20b": ("GptOssForCausalLM", dict(num_local_experts=32, num_hidden_layers=24)),
}  # fmt: skip

_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads", "attention_heads")
_WIDTHS = ("hidden_size", "d_model", "n_embd", "dim", "embedding_size")
_INNER = ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "ffn_dim", "d_ff", "d_inner")
NARROW = {"vocab_size": 1000, "head_dim": 32, "d_kv": 32, "num_key_value_heads": 2, **dict.fromkeys(_LAYERS, 2),
          **dict.fromkeys(_HEADS, 4), **dict.fromkeys(_WIDTHS, 128), **dict.fromkeys(_INNER, 256)}  # fmt: skip
# What a class needs beside that when it is narrow.
NEEDS = {
    "GPTJ": dict(rotary_dim=16), "GPTNeo": dict(attention_types=[[["global", "local"], 1]]), "Longformer": dict(attention_window=[16, 16]),
    "MobileBert": dict(true_hidden_size=64, intra_bottleneck_size=64), "DebertaV2": dict(pooler_hidden_size=128),
    "Blenderbot": dict(max_position_embeddings=128), "OPT": dict(word_embed_proj_dim=128), "Gemma3": dict(sliding_window=16),
    "Whisper": dict(num_mel_bins=80, max_source_positions=50, max_target_positions=64), "GptOss": dict(num_local_experts=4),
}  # fmt: skip
_IDS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)  # within 1,000 words


def build(suite: str, name: str, size: str, batch: int):
    """`batch`: 0 is the list's, or with size="small" two sentences or one image."""
    torch.manual_seed(0)
    full = int(SUITES[suite][name])
    if suite == "timm":
        import timm

        model = timm.create_model(name, pretrained=False).eval()
        side = model.default_cfg["input_size"][-1]
        return model, (torch.randn(batch or (full if size == "full" else 1), 3, side, side),), {}
    return _text(name, size, batch or (full if size == "full" else 2))


def _text(name: str, size: str, batch: int):
    import transformers

    transformers.logging.set_verbosity_error()
    word, sizes = NAMED.get(name, (name, {}))
    made = getattr(transformers, word)
    config = made.config_class
    if size == "small":
        known = config().to_dict()
        needs = next((v for k, v in NEEDS.items() if word.startswith(k)), {})
        sizes = {k: v for k, v in NARROW.items() if k in known} | {k: v for k, v in _IDS.items() if known.get(k) is not None} | needs
    if "SequenceClassification" in name or name.startswith("Roberta"):
        sizes = sizes | dict(pad_token_id=0)
    config = config(**sizes)
    config.use_cache = False
    model = made(config).eval()
    return model, (), _inputs(name, model, batch, _length(name) if size == "full" else 64)


def _length(name: str) -> int:
    """Tokens, as the dashboard has them."""
    if name.startswith(("GPT2", "Bart", "T5", "PLBart", "MBart", "AllenaiLongformer")):
        return 1024
    if name.startswith("OPT"):
        return 2048
    if name.startswith(("Albert", "Deberta", "Layout", "Electra", "XLNet", "MegatronBert", "Bert", "Roberta")):
        return 512
    return 512 if name in ("DistillGPT2", "GoogleFnet", "YituTechConvBert") else 256 if name.startswith("TrOCR") else 128


def _inputs(name: str, model, batch: int, length: int) -> dict:
    words = model.config.vocab_size
    ids = torch.randint(3, words - 1, (batch, length))
    if name.startswith("whisper"):
        frames = 2 * model.config.max_source_positions
        return {"input_features": torch.randn(batch, model.config.num_mel_bins, frames), "decoder_input_ids": ids[:, :32]}
    given = {"input_ids": ids}
    if "Bart" in name:
        ids[:, -1] = model.config.eos_token_id
    if name.startswith(("T5", "M2M100", "MT5")):
        given["decoder_input_ids"] = ids
    if name.endswith("QuestionAnswering"):
        place = lambda: torch.randint(0, length, (batch,))
        return given | {"start_positions": place(), "end_positions": place()}
    if name.endswith("SequenceClassification"):
        return given | {"labels": torch.randint(0, model.config.num_labels, (batch,))}
    return given | {"labels": torch.randint(3, words - 1, (batch, length))}
