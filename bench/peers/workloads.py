"""What all engines run: models at several batch sizes, and one step of a decoder that has a cache."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from bench import workloads
from bench.workloads import Built, tokens, transformer, vision

DECODE = "decode"
PAST = 128  # tokens in the decoder's cache
CACHE = 256  # tokens for which it has room


@dataclass(frozen=True)
class Workload:
    """`rewind` undoes what a call wrote, so that each call is the same. It runs before a call and is not timed."""

    model: torch.nn.Module
    arguments: tuple[torch.Tensor, ...]
    rewind: Callable[[], Any] = lambda: None
    weight_bytes: int = 0  # of parameters that a call reads once


def minilm() -> Built:
    return workloads.minilm()[0], (tokens(64), torch.ones(1, 64, dtype=torch.int64))


def qwen3() -> Built:
    """Queries share keys and values in groups, and both are normalised."""
    model = transformer(
        "Qwen3ForCausalLM",
        "Qwen3Config",
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
        vocab_size=32000,
        max_position_embeddings=512,
    )
    return model, (tokens(64),)


MODELS: dict[str, Callable[[], Built]] = {
    "bert": workloads.bert,
    "minilm": minilm,
    "gpt2": workloads.gpt2,
    "llama": workloads.llama,
    "resnet50": vision("resnet50"),
    "mobilenetv3": vision("mobilenetv3_large_100"),
    "vit": vision("vit_small_patch16_224"),
    "convnext": vision("convnext_tiny"),
    "t5": workloads.t5,
    "efficientnet": vision("efficientnet_b0"),
    "qwen3": qwen3,
}


class OwnCache(torch.nn.Module):
    """A step with a cache that the model writes in place."""

    def __init__(self, model: torch.nn.Module, cache: Any) -> None:
        super().__init__()
        self.model = model
        self.cache = cache

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return self.model(  # type: ignore[no-any-return]
            token, position_ids=position, past_key_values=self.cache, use_cache=True
        ).logits


class GivenPast(torch.nn.Module):
    """A step that is given keys and values of the past. Engines whose programs write no argument have this one; it
    does less than a real step, because the caller gets no new keys and values."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: torch.Tensor, position: torch.Tensor, *past: torch.Tensor) -> torch.Tensor:
        cache = importlib.import_module("transformers").DynamicCache(config=self.model.config)
        for layer, keys, values in zip(cache.layers, past[::2], past[1::2], strict=True):
            # Not update(), which would join them to an empty tensor: not all engines convert that.
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
        return self.model(  # type: ignore[no-any-return]
            token, position_ids=position, past_key_values=cache, use_cache=True
        ).logits


def decoder() -> torch.nn.Module:
    """100 million parameters. The table of tokens is also the last product's weight: a step reads each once."""
    return transformer(
        "LlamaForCausalLM",
        "LlamaConfig",
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=12,
        vocab_size=20000,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )


def decode_step(writes: bool) -> Workload:
    """`writes`: the engine's programs may write to tensors that they are given."""
    model = decoder()
    weight_bytes = sum(p.nbytes for p in model.parameters())
    static_cache = importlib.import_module("transformers").StaticCache
    cache = static_cache(config=model.config, max_cache_len=CACHE)
    token, position = tokens(1), torch.tensor([[PAST]])
    with torch.no_grad():
        model(tokens(PAST), past_key_values=cache, use_cache=True)
    if writes:

        def rewind() -> None:
            for layer in cache.layers:
                layer.cumulative_length.fill_(PAST)

        return Workload(OwnCache(model, cache).eval(), (token, position), rewind, weight_bytes)
    past = [t[:, :, :PAST].clone() for layer in cache.layers for t in (layer.keys, layer.values)]
    return Workload(GivenPast(model).eval(), (token, position, *past), weight_bytes=weight_bytes)


def build(name: str, batch: int, writes: bool) -> Workload:
    if name == DECODE:
        return decode_step(writes)
    model, inputs = MODELS[name]()
    assert isinstance(model, torch.nn.Module)
    return Workload(model, tuple(t.repeat(batch, *[1] * (t.dim() - 1)) for t in inputs))
