# bench/architecture_list.py: architectures of transformers, torchvision, timm and diffusers with random weights
"""`architectures(package)` maps each name to what builds it: (model in eval mode, arguments, keyword arguments).

Text and speech models are small versions (4 layers of 256 features, 2 × 64 tokens), diffusion models have a few narrow blocks; those of
torchvision and timm are as published, one image, clip or pair of frames each. Nothing is downloaded. Packages that are missing have none.
"""

import importlib

import torch

PACKAGES = ("transformers", "torchvision", "timm", "diffusers")

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


# Of timm: one or a few small models of each family, but of those without a small one (NASNet, PNASNet, DeepSeek-ViT, Gemma-ViT)
IMAGES = """
beit_base_patch16_224 halonet26t lambda_resnet26t repvgg_a0 mobileone_s0 cait_xxs24_224 coat_tiny coat_lite_tiny convit_tiny
convmixer_768_32 convnext_atto convnextv2_atto cpubone_t0 crossvit_tiny_240 csatv2 cs3darknet_s cspnext_tiny davit_tiny
deit_tiny_patch16_224 densenet121 dla34 dpn48b edgenext_xx_small efficientformer_l1 efficientformerv2_s0 efficientnet_b0 mixnet_s
tinynet_e efficientvim_m1 efficientvit_b0 efficientvit_m0 eva02_tiny_patch14_224 fasternet_t0 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny
ghostnet_100 ghostnetv3_050 hardcorenas_a hgnetv2_b0 hiera_tiny_224 sam2_hiera_tiny hrnet_w18_small iformer_s inception_next_atto
inception_resnet_v2 inception_v3 inception_v4 lcnetv2_small levit_128s lowformer_b0 mambaout_femto maxvit_pico_rw_256 caformer_s18
poolformer_s12 mixer_s32_224 gmlp_ti16_224 lcnet_050 mobilenetv2_100 mobilenetv3_small_100 mobilenetv4_conv_small mobilenetv5_300m
mobilevit_xxs mobilevitv2_050 mvitv2_tiny naflexvit_base_patch16_siglip nest_tiny nextvit_small nfnet_l0 nf_regnet_b0 pit_ti_224 pvt_v2_b0
qwen3_vit_88m rdnet_tiny regnety_002 repghostnet_050 repvit_m0_9 res2net50_26w_4s resnest26d resnet18 resnet50 resnext50_32x4d resnetv2_18
rexnet_100 selecsls42b seresnet18 legacy_seresnet18 sequencer2d_s shvit_s1 skresnet18 starnet_s1 swiftformer_xs
swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224 tiny_vit_5m_224 tnt_s_patch16_224 tresnet_m twins_svt_small
twins_pcpvt_small vgg11_bn visformer_tiny vit_tiny_patch16_224 vit_small_r26_s32_224 vit_relpos_small_patch16_224 samvit_base_patch16_224
vitamin_small_224 volo_d1_224 ese_vovnet19b_slim legacy_xception xception41 xcit_nano_12_p16_224""".split()
SIDES = {"mobilenetv5_300m": 256}  # pixels; eager takes minutes for its own 768


def optional(package):
    try:
        return importlib.import_module(package)
    except ImportError:
        return None


def of_transformers(transformers) -> dict:
    transformers.logging.set_verbosity_error()

    def text(model, config, extra):
        config = getattr(transformers, config)(**(_TEXT | extra))
        return getattr(transformers, model)(config), (), dict(input_ids=ids())

    def other(model, config, settings, inputs):
        return getattr(transformers, model)(getattr(transformers, config)(**settings)), (), inputs()

    return {name: lambda row=row: text(*row) for name, row in TEXT.items()} | {
        name: lambda row=row: other(*row) for name, row in OTHERS.items()
    }


def of_timm(timm) -> dict:
    def image(name):
        model = timm.create_model(name, pretrained=False)
        side = SIDES.get(name) or model.default_cfg["input_size"][-1]
        return model, (torch.randn(1, 3, side, side),), {}

    return {f"timm:{name}": lambda name=name: image(name) for name in IMAGES}


# Kind: (models, shape of the input)
VISION = {
    "classification": ("""alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t mnasnet1_0
mobilenet_v2 mobilenet_v3_large regnet_y_400mf resnet18 resnet50 resnext50_32x4d shufflenet_v2_x1_0 squeezenet1_1 swin_t swin_v2_t vgg11_bn
vit_b_32 wide_resnet50_2""", (1, 3, 224, 224)),
    "segmentation": ("deeplabv3_mobilenet_v3_large deeplabv3_resnet50 fcn_resnet50 lraspp_mobilenet_v3_large", (1, 3, 224, 224)),
    "video": ("mc3_18 r2plus1d_18 r3d_18", (1, 3, 8, 112, 112)),
    "long video": ("mvit_v1_b mvit_v2_s s3d swin3d_t", (1, 3, 16, 224, 224)),
    "detection": ("""fasterrcnn_mobilenet_v3_large_320_fpn fcos_resnet50_fpn keypointrcnn_resnet50_fpn maskrcnn_resnet50_fpn
retinanet_resnet50_fpn ssd300_vgg16 ssdlite320_mobilenet_v3_large""", (3, 320, 320)),
    "optical flow": ("raft_small raft_large", (1, 3, 128, 128)),
}  # fmt: skip


def of_torchvision(torchvision) -> dict:
    def build(name, kind, shape):
        settings = dict(weights=None, weights_backbone=None) if kind in ("segmentation", "detection") else dict(weights=None)
        if name in ("googlenet", "inception_v3"):
            settings |= dict(init_weights=False, aux_logits=True)
        model = torchvision.models.get_model(name, **settings)
        image = torch.rand(shape)
        if kind == "optical flow":
            return model, (image, torch.rand(shape)), dict(num_flow_updates=2)
        if kind == "detection":
            return model, ([image],), {}
        return model, (image,), {}

    return {
        f"torchvision:{name}": lambda row=(name, kind, shape): build(*row)
        for kind, (names, shape) in VISION.items() for name in names.split()
    }  # fmt: skip


def of_diffusers(diffusers) -> dict:
    blocks = dict(block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8)

    def latent(*shape):
        return torch.randn(shape), torch.tensor([7])

    def unet():
        model = diffusers.UNet2DModel(sample_size=32, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                      up_block_types=("AttnUpBlock2D", "UpBlock2D"), **blocks)  # fmt: skip
        return model, latent(1, 3, 32, 32), dict(return_dict=False)

    def conditioned():
        model = diffusers.UNet2DConditionModel(
            sample_size=32, cross_attention_dim=64, attention_head_dim=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), **blocks)  # fmt: skip
        return model, (*latent(2, 4, 32, 32), torch.randn(2, 77, 64)), dict(return_dict=False)

    def vae():
        model = diffusers.AutoencoderKL(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                                        latent_channels=4, **blocks)  # fmt: skip
        return model, (torch.randn(1, 3, 64, 64),), dict(return_dict=False)

    def vq():
        model = diffusers.VQModel(block_out_channels=(32,), latent_channels=3, num_vq_embeddings=64, norm_num_groups=8)
        return model, (torch.randn(1, 3, 32, 32),), dict(return_dict=False)

    def dit():
        model = diffusers.DiTTransformer2DModel(num_attention_heads=4, attention_head_dim=32, in_channels=4, out_channels=8, num_layers=3,
                                                sample_size=16, num_embeds_ada_norm=100)  # fmt: skip
        return model, (torch.randn(1, 4, 16, 16),), dict(timestep=torch.tensor([7]), class_labels=torch.tensor([3]), return_dict=False)

    def pixart():
        model = diffusers.PixArtTransformer2DModel(
            num_attention_heads=4, attention_head_dim=32, in_channels=4, out_channels=8, num_layers=3, cross_attention_dim=128,
            sample_size=16, caption_channels=64, use_additional_conditions=False)  # fmt: skip
        return model, (torch.randn(1, 4, 16, 16),), dict(
            encoder_hidden_states=torch.randn(1, 20, 64), timestep=torch.tensor([7]), return_dict=False,
            added_cond_kwargs={"resolution": None, "aspect_ratio": None})  # fmt: skip

    def sd3():
        model = diffusers.SD3Transformer2DModel(
            sample_size=16, in_channels=4, num_layers=3, attention_head_dim=32, num_attention_heads=4, joint_attention_dim=64,
            caption_projection_dim=128, pooled_projection_dim=64, out_channels=4, pos_embed_max_size=32)  # fmt: skip
        return model, (torch.randn(1, 4, 16, 16), torch.randn(1, 20, 64), torch.randn(1, 64), torch.tensor([7])), dict(return_dict=False)

    def flux():
        model = diffusers.FluxTransformer2DModel(
            in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=32, num_attention_heads=4, joint_attention_dim=64,
            pooled_projection_dim=64, axes_dims_rope=(8, 12, 12))  # fmt: skip
        return model, (torch.randn(1, 64, 16), torch.randn(1, 20, 64), torch.randn(1, 64), torch.tensor([0.5])), dict(
            img_ids=torch.zeros(64, 3), txt_ids=torch.zeros(20, 3), return_dict=False)  # fmt: skip

    builders = {"unet": unet, "unet-text": conditioned, "vae": vae, "vq": vq, "dit": dit, "pixart": pixart, "sd3": sd3, "flux": flux}
    return {f"diffusers:{name}": build for name, build in builders.items()}


_OF = {"transformers": of_transformers, "torchvision": of_torchvision, "timm": of_timm, "diffusers": of_diffusers}


def architectures(package: str = "") -> dict:
    """Name: what builds (model, arguments, keyword arguments), of one package or of all that are installed."""
    found = {}
    for name in [package] if package else PACKAGES:
        if module := optional(name):
            found |= _OF[name](module)
    return found
