"""Models of transformers for images, sound, several kinds of input, and series of numbers."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn

from tests.programs.zoo.entry import Inputs, entry, normal
from tests.programs.zoo.language import SIZES, hugging, tokens, transformer

VISION: dict[str, Any] = {
    k: SIZES[k] for k in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
}


def pixels(size: int) -> Inputs:
    return lambda seed, _length: {"pixel_values": normal(seed, 2, 3, size, size)}


def picture(name: str, model: str, config: str, size: int = 32, tests: tuple[str, ...] = (), **sizes: Any) -> None:
    hugging(name, model, config, pixels(size), (size,), tests, **sizes)


# ---- images ----------------------------------------------------------------------------------------------------------
_PATCHES: dict[str, Any] = {**VISION, "image_size": 32, "patch_size": 8}
picture("vit", "ViTModel", "ViTConfig", 32, ("inference", "training"), **_PATCHES)
picture("deit_hf", "DeiTModel", "DeiTConfig", **_PATCHES)
picture("beit", "BeitModel", "BeitConfig", **_PATCHES, use_relative_position_bias=True)
picture("siglip_vision", "SiglipVisionModel", "SiglipVisionConfig", **_PATCHES)
picture(
    "yolos", "YolosForObjectDetection", "YolosConfig", **{**_PATCHES, "image_size": (32, 32)}, num_detection_tokens=5
)
picture(
    "dinov2",
    "Dinov2Model",
    "Dinov2Config",
    28,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    mlp_ratio=2,
    image_size=28,
    patch_size=7,
)
picture(
    "segformer",
    "SegformerForSemanticSegmentation",
    "SegformerConfig",
    64,
    num_encoder_blocks=4,
    depths=[1, 1, 1, 1],
    hidden_sizes=[16, 32, 32, 64],
    num_attention_heads=[1, 2, 2, 4],
    decoder_hidden_size=32,
)
picture(
    "glpn",
    "GLPNForDepthEstimation",
    "GLPNConfig",
    64,
    depths=[1, 1, 1, 1],
    hidden_sizes=[16, 32, 32, 64],
    num_attention_heads=[1, 2, 2, 4],
    decoder_hidden_size=16,
)
picture("mobilevit_hf", "MobileViTForSemanticSegmentation", "MobileViTConfig", 64, image_size=64)
picture(
    "swin_hf",
    "SwinModel",
    "SwinConfig",
    32,
    image_size=32,
    patch_size=4,
    embed_dim=16,
    depths=[1, 2],
    num_heads=[2, 4],
    window_size=4,
)
picture(
    "swin2sr",
    "Swin2SRForImageSuperResolution",
    "Swin2SRConfig",
    32,
    image_size=32,
    patch_size=1,
    embed_dim=16,
    depths=[2],
    num_heads=[2],
    window_size=4,
    upscale=2,
    upsampler="pixelshuffle",
)
picture("convnextv2", "ConvNextV2Model", "ConvNextV2Config", 64, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1])
picture(
    "hiera_hf",
    "HieraModel",
    "HieraConfig",
    32,
    image_size=[32, 32],
    embed_dim=16,
    depths=[1, 1],
    num_heads=[1, 2],
    patch_stride=[4, 4],
    masked_unit_size=[4, 4],
    query_stride=[2, 2],
    num_query_pool=1,
)
_DETR: dict[str, Any] = {
    "d_model": 64,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "num_queries": 8,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
}


def _detr(name: str, model: str, config: str) -> None:
    def build() -> nn.Module:
        transformers = importlib.import_module("transformers")
        backbone = transformers.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", out_features=["stage2"]
        )
        return transformer(model, config, backbone_config=backbone, **_DETR)

    entry(name, build, pixels(64), (64,))


_detr("detr", "DetrForObjectDetection", "DetrConfig")
_detr("conditional_detr", "ConditionalDetrForObjectDetection", "ConditionalDetrConfig")

# ---- sound -----------------------------------------------------------------------------------------------------------


def _whisper_inputs(seed: int, length: int) -> dict[str, torch.Tensor]:
    return {"input_features": normal(seed, 2, 16, 64), "decoder_input_ids": tokens(seed, length)["input_ids"]}


hugging(
    "whisper",
    "WhisperForConditionalGeneration",
    "WhisperConfig",
    _whisper_inputs,
    tests=("inference", "training"),
    vocab_size=199,
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    num_mel_bins=16,
    max_source_positions=32,
    max_target_positions=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    begin_suppress_tokens=None,
    suppress_tokens=None,
)


def _speech(name: str, model: str, config: str, **sizes: Any) -> None:
    hugging(
        name,
        model,
        config,
        lambda seed, length: {"input_values": normal(seed, 2, length)},
        (400, 640),
        **{k: SIZES[k] for k in VISION},
        conv_dim=(32, 32),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        apply_spec_augment=False,
        **sizes,
    )


_speech("wav2vec2", "Wav2Vec2Model", "Wav2Vec2Config")
_speech("hubert", "HubertModel", "HubertConfig")
_speech("wavlm", "WavLMModel", "WavLMConfig")

# ---- several kinds ---------------------------------------------------------------------------------------------------


def _clip_inputs(seed: int, length: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(2, length, dtype=torch.int64)
    return {**tokens(seed, length), **pixels(32)(seed, length), "attention_mask": mask}


_CLIP_VISION: dict[str, Any] = {**VISION, "image_size": 32, "patch_size": 8}
hugging(
    "clip",
    "CLIPModel",
    "CLIPConfig",
    _clip_inputs,
    (16,),
    ("inference", "training"),
    text_config={**SIZES, "eos_token_id": 198},
    vision_config=_CLIP_VISION,
    projection_dim=32,
)
hugging(
    "siglip",
    "SiglipModel",
    "SiglipConfig",
    _clip_inputs,
    (16,),
    text_config={**SIZES, "projection_size": 64},
    vision_config=_CLIP_VISION,
)
hugging(
    "blip",
    "BlipModel",
    "BlipConfig",
    _clip_inputs,
    (16,),
    text_config={**SIZES, "encoder_hidden_size": 64},
    vision_config=_CLIP_VISION,
    projection_dim=32,
)
hugging("vilt", "ViltModel", "ViltConfig", _clip_inputs, (16,), **{**SIZES, **_CLIP_VISION})
hugging(
    "clipseg",
    "CLIPSegForImageSegmentation",
    "CLIPSegConfig",
    _clip_inputs,
    (16,),
    text_config={**SIZES, "eos_token_id": 198},
    vision_config=_CLIP_VISION,
    projection_dim=32,
    extract_layers=[0, 1],
    reduce_dim=16,
    decoder_num_attention_heads=2,
    decoder_intermediate_size=32,
)

# ---- series ----------------------------------------------------------------------------------------------------------
hugging(
    "patchtst",
    "PatchTSTForPrediction",
    "PatchTSTConfig",
    lambda seed, _length: {"past_values": normal(seed, 2, 32, 3)},
    (32,),
    trains=False,  # AOTAutograd's graph views what batch_norm returns as no eager kernel returns it
    num_input_channels=3,
    context_length=32,
    patch_length=8,
    patch_stride=8,
    d_model=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    ffn_dim=64,
    prediction_length=4,
    distribution_output="normal",
)
