#!/usr/bin/env python3
# bench/architectures.py: whole architectures of transformers and timm against eager PyTorch, in one process
"""Builds each architecture with random weights, compiles it, checks its results against eager, and times both sides in turns;
prints the ratio of the best times (above 1: ours is faster), the largest difference and what fell back to PyTorch.

    python bench/architectures.py [--threads 2] [--seconds 1] [--only bert,vit] [--train] [--package transformers]

Text and speech models are small versions (4 layers of 256 features, 2 × 64 tokens); timm's are as published, one image each.
With --train the gradients of all parameters are compared instead, and nothing is timed. Packages that are missing are left out.
"""

import argparse
import importlib
import logging
import math
import sys
import time
import warnings

import torch

import hologram_torch
from turns import take_turns

TOKENS, VOCABULARY = (2, 64), 1000
_TEXT = dict(vocab_size=VOCABULARY, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512,
             max_position_embeddings=128)  # fmt: skip
_GROUPED = dict(num_key_value_heads=2, head_dim=64)
_GPT = dict(n_embd=256, n_layer=4, n_head=4, n_positions=128)

# Name: (model, configuration, what it sets beside _TEXT)
TEXT = {
    "albert": ("AlbertModel", "AlbertConfig", dict(embedding_size=64)),
    "bert": ("BertModel", "BertConfig", {}),
    "bloom": ("BloomForCausalLM", "BloomConfig", dict(n_layer=4, n_head=4)),
    "cohere": ("CohereForCausalLM", "CohereConfig", dict(num_key_value_heads=2)),
    "deberta-v2": ("DebertaV2Model", "DebertaV2Config", dict(relative_attention=True, pos_att_type=["p2c", "c2p"])),
    "distilbert": ("DistilBertModel", "DistilBertConfig", dict(dim=256, n_layers=4, n_heads=4, hidden_dim=512)),
    "electra": ("ElectraModel", "ElectraConfig", dict(embedding_size=64)),
    "falcon": ("FalconForCausalLM", "FalconConfig", {}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", _GROUPED),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", dict(_GROUPED, sliding_window=16)),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", dict(_GROUPED, sliding_window=16)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", _GPT),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", dict(_GPT, rotary_dim=16)),
    "gpt-neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {}),
    "gpt-oss": ("GptOssForCausalLM", "GptOssConfig", dict(_GROUPED, num_local_experts=4, sliding_window=16)),
    "granite": ("GraniteForCausalLM", "GraniteConfig", dict(num_key_value_heads=2)),
    "llama": ("LlamaForCausalLM", "LlamaConfig", dict(num_key_value_heads=2)),
    "mamba": ("MambaForCausalLM", "MambaConfig", dict(state_size=16)),
    "mamba2": ("Mamba2ForCausalLM", "Mamba2Config", dict(state_size=16, num_heads=8, head_dim=64, n_groups=1, chunk_size=32)),
    "mistral": ("MistralForCausalLM", "MistralConfig", dict(num_key_value_heads=2, sliding_window=16)),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", dict(num_key_value_heads=2, num_local_experts=4)),
    "modernbert": ("ModernBertModel", "ModernBertConfig", dict(pad_token_id=0, local_attention=16)),
    "mpnet": ("MPNetModel", "MPNetConfig", {}),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", dict(num_key_value_heads=2)),
    "opt": ("OPTForCausalLM", "OPTConfig", dict(ffn_dim=512, word_embed_proj_dim=256)),
    "phi": ("PhiForCausalLM", "PhiConfig", {}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", dict(num_key_value_heads=2, pad_token_id=0)),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", dict(num_key_value_heads=2)),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", _GROUPED),
    "qwen3-moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig",
                  dict(_GROUPED, num_experts=4, moe_intermediate_size=128, num_experts_per_tok=2)),
    "roberta": ("RobertaModel", "RobertaConfig", {}),
    "rwkv": ("RwkvForCausalLM", "RwkvConfig", {}),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", dict(num_key_value_heads=2)),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", dict(num_key_value_heads=2)),
}  # fmt: skip

_SEQUENCES = dict(d_model=256, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                  encoder_ffn_dim=512, decoder_ffn_dim=512)  # fmt: skip


def ids(*shape):
    return torch.randint(5, VOCABULARY - 5, shape or TOKENS)


# Name: (model, configuration, its settings, what makes the inputs)
OTHERS = {
    "bart": ("BartForConditionalGeneration", "BartConfig", dict(_SEQUENCES, vocab_size=VOCABULARY, max_position_embeddings=128),
             lambda: dict(input_ids=ids(), decoder_input_ids=ids(2, 16))),
    "t5": ("T5ForConditionalGeneration", "T5Config",
           dict(vocab_size=VOCABULARY, d_model=256, d_kv=64, d_ff=512, num_layers=4, num_heads=4),
           lambda: dict(input_ids=ids(), decoder_input_ids=ids(2, 16))),
    "wav2vec2": ("Wav2Vec2Model", "Wav2Vec2Config", dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                 intermediate_size=512, conv_dim=[128] * 3, conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3]),
                 lambda: dict(input_values=torch.randn(1, 8000))),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig",
                dict(_SEQUENCES, vocab_size=VOCABULARY, num_mel_bins=80, max_source_positions=200, max_target_positions=64,
                     pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
                lambda: dict(input_features=torch.randn(1, 80, 400), decoder_input_ids=ids(1, 16))),
}  # fmt: skip

IMAGES = """beit_base_patch16_224 cait_xxs24_224 coat_tiny convnext_atto crossvit_tiny_240 davit_tiny deit_tiny_patch16_224
densenet121 dla34 edgenext_xx_small efficientformer_l1 efficientnet_b0 eva02_tiny_patch14_224 fastvit_t8 gcvit_xxtiny
ghostnet_100 hiera_tiny_224 hrnet_w18_small inception_v3 lcnet_050 levit_128s maxvit_pico_rw_256 mixer_s32_224
mobilenetv2_100 mobilenetv3_small_100 mobilevit_xxs mvitv2_tiny nfnet_l0 pit_ti_224 poolformer_s12 regnety_002 repvgg_a0
repvit_m0_9 res2net50_26w_4s resnet18 resnet50 resnext50_32x4d rexnet_100 selecsls42b shvit_s1 starnet_s1
swin_tiny_patch4_window7_224 tinynet_e vgg11_bn vit_tiny_patch16_224 vitamin_small_224 volo_d1_224 xception41
xcit_nano_12_p16_224""".split()


def optional(package):
    try:
        return importlib.import_module(package)
    except ImportError:
        return None


def architectures(package: str) -> dict:
    """Name: what builds (model, arguments, keyword arguments)."""
    found = {}
    if package != "timm" and (transformers := optional("transformers")):
        transformers.logging.set_verbosity_error()

        def text(model, config, extra):
            config = getattr(transformers, config)(**(_TEXT | extra))
            return getattr(transformers, model)(config), (), dict(input_ids=ids())

        def other(model, config, settings, inputs):
            return getattr(transformers, model)(getattr(transformers, config)(**settings)), (), inputs()

        found |= {name: lambda row=row: text(*row) for name, row in TEXT.items()}
        found |= {name: lambda row=row: other(*row) for name, row in OTHERS.items()}
    if package != "transformers" and (timm := optional("timm")):

        def image(name):
            model = timm.create_model(name, pretrained=False)
            side = model.default_cfg["input_size"][-1]
            return model, (torch.randn(1, 3, side, side),), {}

        found |= {name: lambda name=name: image(name) for name in IMAGES}
    return found


def tensors(output) -> list:
    if isinstance(output, torch.Tensor):
        return [output]
    values = output.values() if hasattr(output, "values") else output if isinstance(output, (list, tuple)) else ()
    return [t for value in values for t in tensors(value)]


def gradients(call, model) -> list:
    """Of a fixed random combination of the results, by parameter."""
    model.zero_grad()
    generator = torch.Generator().manual_seed(7)
    results = [t for t in tensors(call()) if t.requires_grad]
    sum((t.float() * torch.randn(t.shape, generator=generator)).mean() for t in results).backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def difference(ours, theirs) -> float:
    """The largest difference beside the largest element of each tensor; what is nearly zero counts beside the largest of all."""
    if [t.shape for t in ours] != [t.shape for t in theirs]:
        return math.inf
    pairs = [(a.double(), b.double()) for a, b in zip(ours, theirs) if b.is_floating_point() and b.numel() > 0]
    floor = 1e-4 * max((b.abs().max().item() for _, b in pairs), default=0.0)
    worst = 0.0
    for a, b in pairs:
        error = (a - b).abs().max().item() / max(b.abs().max().item(), floor, 1e-30)
        worst = max(worst, error if error == error else math.inf)
    return worst


def measure(name: str, build, train: bool, seconds: float) -> dict:
    torch.manual_seed(0)
    torch._dynamo.reset()
    hologram_torch.reset_stats()
    model, arguments, named = build()
    model.eval()  # random operators off
    compiled = torch.compile(model, backend=hologram_torch.hologram)

    def call(target):
        return target(*arguments, **named)

    row = {"name": name, "difference": math.inf, "error": None}
    with torch.set_grad_enabled(train):
        theirs = gradients(lambda: call(model), model) if train else tensors(call(model))
    try:
        compare(row, model, lambda: call(compiled), lambda: call(model), theirs, train, seconds)
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
    stats = hologram_torch.stats()
    row["graphs"], row["fallback"] = stats["graphs"], sorted(stats["fallback_ops"])
    row["right"] = row["difference"] < 1e-3 and not row["error"]
    return row


def compare(row, model, ours, eager, theirs, train, seconds) -> None:
    if train:
        row["difference"] = difference(gradients(ours, model), theirs)
        return
    with torch.no_grad():
        start = time.perf_counter()
        results = tensors(ours())
        row["first"] = time.perf_counter() - start
        row["difference"] = difference(results, theirs)
        turns = take_turns({"ours": ours, "eager": eager}, seconds / 2)
    row |= turns.fastest()
    row["ratio"] = turns.median(["eager"], "ours")


def line(row) -> str:
    times = ""
    if "ratio" in row:
        times = f"first {row['first']:5.1f} s {row['ours'] * 1e3:8.2f} ms {row['eager'] * 1e3:8.2f} ms  ratio {row['ratio']:5.2f}  "
    fallen = f"  calls {', '.join(row['fallback'])}" if row["fallback"] else ""
    wrong = "" if row["right"] else f"  WRONG {row['error'] or ''}"
    return f"{row['name']:28} {times}difference {row['difference']:.0e}  graphs {row['graphs']}{wrong}{fallen}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing per architecture")
    parser.add_argument("--only", default="", help="words of the names, with commas between them")
    parser.add_argument("--package", choices=["transformers", "timm"], default="", help="architectures of this package only")
    parser.add_argument("--train", action="store_true", help="compare gradients")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    torch.set_num_threads(options.threads)
    found = architectures(options.package)
    if not found:
        print("neither transformers nor timm is installed", file=sys.stderr)
        return 2
    rows, failed = [], []
    for name, build in found.items():
        if not any(word in name for word in options.only.split(",")):
            continue
        try:
            rows.append(measure(name, build, options.train, options.seconds))
            print(line(rows[-1]), flush=True)
        except Exception as error:  # its package cannot build it, or eager cannot run it
            failed.append(name)
            print(f"{name:28} n/a: {type(error).__name__}: {str(error).splitlines()[0][:150]}", flush=True)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0
    right = sum(row["right"] for row in rows)
    native = sum(not row["fallback"] for row in rows)
    print(f"{len(rows)} architectures, {right} right, {native} without a fallback, {len(failed)} n/a"
          + (f", geometric mean {mean:.2f}, least {min(ratios):.2f}" if ratios else ""))  # fmt: skip
    return 0 if right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
