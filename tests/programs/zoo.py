"""Small randomly initialised models of many families, with inputs of a given size. One builder a model."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tests.programs.torchvision_operators import declare_torchvision_operators

declare_torchvision_operators()  # transformers and timm both import torchvision

Inputs = Callable[[int, int], dict[str, torch.Tensor]]  # (seed, length) -> keyword arguments


@dataclass(frozen=True)
class Entry:
    """`build` gives the module in eval mode; `inputs` its arguments; `lengths` sizes to call it with."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Inputs
    lengths: tuple[int, ...] = (16,)
    short: bool = False  # in the list that `make test` runs
    trains: bool = True


ZOO: dict[str, Entry] = {}


def entry(
    name: str, build: Callable[[], nn.Module], inputs: Inputs, lengths: tuple[int, ...] = (16,), short: bool = False
) -> None:
    ZOO[name] = Entry(name, build, inputs, lengths, short)


# ---- transformers ----------------------------------------------------------------------------------------------------

_SIZES: dict[str, Any] = {
    "vocab_size": 199,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def quiet(config: Any) -> Any:
    """Every drop probability 0: a training step must be the same number twice."""
    for part in [config, *(v for v in vars(config).values() if hasattr(v, "to_dict"))]:
        for key, value in list(vars(part).items()):
            if isinstance(value, float) and ("drop" in key or key.startswith("mask_")):
                setattr(part, key, 0.0)
    return config


def transformer(model: str, config: str, **sizes: Any) -> nn.Module:
    transformers = importlib.import_module("transformers")
    torch.manual_seed(0)
    made = quiet(getattr(transformers, config)(**sizes))
    if getattr(made, "use_cache", None) is not None:
        made.use_cache = False
    return getattr(transformers, model)(made).eval()  # type: ignore[no-any-return]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tokens(seed: int, length: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(3, 199, (2, length), generator=generator(seed))}


def masked_tokens(seed: int, length: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length // 2 :] = 0
    return {**tokens(seed, length), "attention_mask": mask}


def two_sided(seed: int, length: int) -> dict[str, torch.Tensor]:
    return {**tokens(seed, length), "decoder_input_ids": tokens(seed + 1, length // 2)["input_ids"]}


def image(size: int) -> Inputs:
    def inputs(seed: int, _length: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": torch.randn(2, 3, size, size, generator=generator(seed))}

    return inputs


def text(name: str, model: str, config: str, inputs: Inputs = tokens, short: bool = False, **sizes: Any) -> None:
    build = functools.partial(transformer, model, config, **{**_SIZES, **sizes})
    entry(name, build, inputs, (16, 23), short)


text("llama", "LlamaForCausalLM", "LlamaConfig", short=True, num_key_value_heads=2)
text("mistral", "MistralForCausalLM", "MistralConfig", num_key_value_heads=2, sliding_window=8)
text("qwen2", "Qwen2ForCausalLM", "Qwen2Config", num_key_value_heads=2)
text("gemma2", "Gemma2ForCausalLM", "Gemma2Config", num_key_value_heads=2, head_dim=16, sliding_window=8)
text(
    "mixtral", "MixtralForCausalLM", "MixtralConfig", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2
)
text("bert", "BertModel", "BertConfig", masked_tokens, short=True)
text("roberta", "RobertaModel", "RobertaConfig", masked_tokens)
text("albert", "AlbertModel", "AlbertConfig", masked_tokens, embedding_size=32)
text("opt", "OPTForCausalLM", "OPTConfig", ffn_dim=128, word_embed_proj_dim=64)
text("mamba", "MambaForCausalLM", "MambaConfig", state_size=8)
entry(
    "distilbert",
    functools.partial(
        transformer,
        "DistilBertModel",
        "DistilBertConfig",
        vocab_size=199,
        dim=64,
        hidden_dim=128,
        n_layers=2,
        n_heads=4,
    ),
    masked_tokens,
    (16, 23),
)
entry(
    "gpt2",
    functools.partial(
        transformer, "GPT2LMHeadModel", "GPT2Config", vocab_size=199, n_embd=64, n_layer=2, n_head=4, n_positions=128
    ),
    tokens,
    (16, 23),
    short=True,
)
entry(
    "t5",
    functools.partial(
        transformer,
        "T5ForConditionalGeneration",
        "T5Config",
        vocab_size=199,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    ),
    two_sided,
    (16, 24),
    short=True,
)
entry(
    "bart",
    functools.partial(
        transformer,
        "BartForConditionalGeneration",
        "BartConfig",
        vocab_size=199,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=128,
        pad_token_id=0,
    ),
    two_sided,
    (16, 24),
)


def _whisper_inputs(seed: int, length: int) -> dict[str, torch.Tensor]:
    return {
        "input_features": torch.randn(2, 16, 64, generator=generator(seed)),
        "decoder_input_ids": tokens(seed, length)["input_ids"],
    }


entry(
    "whisper",
    functools.partial(
        transformer,
        "WhisperForConditionalGeneration",
        "WhisperConfig",
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
    ),
    _whisper_inputs,
    short=True,
)
_VISION: dict[str, Any] = {
    k: _SIZES[k] for k in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
}
entry(
    "vit",
    functools.partial(transformer, "ViTModel", "ViTConfig", **_VISION, image_size=32, patch_size=8),
    image(32),
    short=True,
)
entry(
    "dinov2",
    functools.partial(
        transformer,
        "Dinov2Model",
        "Dinov2Config",
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        mlp_ratio=2,
        image_size=28,
        patch_size=7,
    ),
    image(28),
)


def _clip_inputs(seed: int, length: int) -> dict[str, torch.Tensor]:
    return {
        **tokens(seed, length),
        **image(32)(seed, length),
        "attention_mask": torch.ones(2, length, dtype=torch.int64),
    }


entry(
    "clip",
    functools.partial(
        transformer,
        "CLIPModel",
        "CLIPConfig",
        text_config={**_SIZES, "eos_token_id": 198},
        vision_config={**_VISION, "image_size": 32, "patch_size": 8},
        projection_dim=32,
    ),
    _clip_inputs,
    short=True,
)
entry(
    "wav2vec2",
    functools.partial(
        transformer,
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        **{k: _SIZES[k] for k in _VISION},
        conv_dim=(32, 32),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        apply_spec_augment=False,
    ),
    lambda seed, length: {"input_values": torch.randn(2, 400, generator=generator(seed))},
)

# ---- timm ------------------------------------------------------------------------------------------------------------


def vision(name: str, model: str, size: int = 64, short: bool = False, **options: Any) -> None:
    def build() -> nn.Module:
        torch.manual_seed(0)
        made = importlib.import_module("timm").create_model(model, pretrained=False, num_classes=10, **options)
        return made.eval()  # type: ignore[no-any-return]

    def inputs(seed: int, _length: int) -> dict[str, torch.Tensor]:
        return {"x": torch.randn(2, 3, size, size, generator=generator(seed))}

    entry(name, build, inputs, (size,), short)


vision("resnet50", "resnet50", short=True)
vision("mobilenetv3", "mobilenetv3_large_100", short=True, drop_rate=0.0)
vision("convnext", "convnext_atto", short=True)
vision("efficientnet", "efficientnet_b0", short=True, drop_rate=0.0)
vision("swin", "swin_tiny_patch4_window7_224", 56, short=True, img_size=56, depths=(1, 1, 2, 1))
vision("regnet", "regnety_002")
vision("densenet", "densenet121", memory_efficient=False)
vision("vit_timm", "vit_tiny_patch16_224", img_size=64)
