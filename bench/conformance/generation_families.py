#!/usr/bin/env python3
# bench/conformance/generation_families.py: decoders of transformers, tiny and with random weights, whose greedy tokens must be eager's
"""`generation_families.py [NAME…]`: of all families, or of these, whether generate() gives eager's tokens for a batch of two prompts
of unequal length and for a longer one, without operators of PyTorch. Status 1 where one does not."""

import sys
import time

import torch

_TEXT = dict(vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=8,
             max_position_embeddings=128)  # fmt: skip
_GROUPED = dict(num_key_value_heads=2)
_GPT = dict(n_embd=32, n_layer=2, n_head=4, n_positions=128)
_EXPERTS = dict(_GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)

# Name: (what classes of transformers begin with, what the configuration sets beside _TEXT)
FAMILIES = {
    "bloom": ("Bloom", dict(n_layer=2, n_head=4)),
    "codegen": ("CodeGen", dict(_GPT, rotary_dim=8)),
    "cohere": ("Cohere", _GROUPED),
    "deepseek-v3": ("DeepseekV3", dict(num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
                    moe_intermediate_size=32, kv_lora_rank=16, q_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8,
                    first_k_dense_replace=1)),
    "falcon": ("Falcon", dict(alibi=False, head_dim=None)),
    "gemma": ("Gemma", _GROUPED),
    "gemma2": ("Gemma2", dict(_GROUPED, sliding_window=8)),
    "gemma3": ("Gemma3", dict(_GROUPED, sliding_window=8)),
    "glm": ("Glm", _GROUPED),
    "gpt2": ("GPT2", _GPT),
    "gpt-bigcode": ("GPTBigCode", _GPT),
    "gpt-neo": ("GPTNeo", dict(num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=8)),
    "gpt-neox": ("GPTNeoX", {}),
    "gpt-oss": ("GptOss", dict(_GROUPED, num_local_experts=4, num_experts_per_tok=2, sliding_window=8)),
    "gptj": ("GPTJ", dict(_GPT, rotary_dim=8)),
    "granite": ("Granite", _GROUPED),
    "helium": ("Helium", _GROUPED),
    "llama": ("Llama", _GROUPED),
    "mistral": ("Mistral", dict(_GROUPED, sliding_window=8)),
    "mixtral": ("Mixtral", dict(_GROUPED, num_local_experts=4)),
    "olmo": ("Olmo", _GROUPED),
    "olmo2": ("Olmo2", _GROUPED),
    "olmoe": ("Olmoe", _EXPERTS),
    "opt": ("OPT", dict(ffn_dim=64, word_embed_proj_dim=32)),
    "persimmon": ("Persimmon", {}),
    "phi": ("Phi", {}),
    "phi3": ("Phi3", _GROUPED),
    "qwen2": ("Qwen2", _GROUPED),
    "qwen2-moe": ("Qwen2Moe", dict(_EXPERTS, shared_expert_intermediate_size=32)),
    "qwen3": ("Qwen3", _GROUPED),
    "qwen3-moe": ("Qwen3Moe", _EXPERTS),
    "smollm3": ("SmolLM3", _GROUPED),
    "stablelm": ("StableLm", _GROUPED),
    "starcoder2": ("Starcoder2", _GROUPED),
}  # fmt: skip


def made(name, layers=2):
    import transformers

    kind, settings = FAMILIES[name]
    settings = settings | {key: layers for key in ("num_hidden_layers", "n_layer") if key in _TEXT | settings}
    config = getattr(transformers, f"{kind}{'Text' if kind == 'Gemma3' else ''}Config")
    model = getattr(transformers, f"{kind}{'LMHeadModel' if kind == 'GPT2' else 'ForCausalLM'}")
    torch.manual_seed(0)
    settings = {key: value for key, value in {**_TEXT, **settings}.items() if value is not None}
    return model(config(**settings, bos_token_id=1, eos_token_id=None, pad_token_id=0)).eval()


def compare(name, layers=2, new=12):
    """Problems in words; none where all tokens are eager's."""
    import hologram_torch

    model, problems = made(name, layers), []
    hologram_torch.reset_stats()
    for length in (7, 19):
        ids = torch.randint(1, 99, (2, length), generator=torch.Generator().manual_seed(length))
        mask = torch.ones_like(ids)
        mask[0, :3] = 0
        expected = model.generate(ids, attention_mask=mask, max_new_tokens=new, do_sample=False)
        actual = hologram_torch.generate(model, ids, attention_mask=mask, max_new_tokens=new, length=64)
        if not torch.equal(actual, expected):
            problems.append(f"other tokens after {length}: {(actual != expected).nonzero()[0].tolist()}")
    stats = hologram_torch.stats()
    if stats["fallback_ops"] or stats["failed_graphs"]:
        problems.append(f"left to PyTorch: {stats['fallback_ops']}, {stats['failed_graphs']} graphs")
    if stats["graphs"] != 2:
        problems.append(f"{stats['graphs']} graphs in place of 2")
    return problems


def main(names):
    failed = 0
    for name in names or FAMILIES:
        begin = time.process_time()
        try:
            problems = compare(name)
        except Exception as error:
            problems = [f"{type(error).__name__}: {error}"[:600]]
        failed += bool(problems)
        print(f"{name:<12} {time.process_time() - begin:5.1f} s  {'; '.join(problems) or 'tokens of eager'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
