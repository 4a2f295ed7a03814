"""Models that `bench.cuda` trains: a call is a forward and a backward pass. Weights are in bf16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Built = tuple[torch.nn.Module, tuple[Callable[..., Any], ...]]


def _trained(model: torch.nn.Module, loss_of: Callable[[Callable[..., Any]], torch.Tensor]) -> Built:
    model = model.train()
    for m in model.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0

    def call(compiled: Callable[..., Any]) -> None:
        for p in model.parameters():
            p.grad = None
        loss_of(compiled).backward()

    return model, (call,)


def _language(kind: str, config: Any, batch: int, length: int) -> Built:
    import transformers

    torch.manual_seed(0)
    model = getattr(transformers, kind)(config).cuda().bfloat16()
    ids = torch.randint(0, 1000, (batch, length), device="cuda")

    def loss_of(compiled: Callable[..., Any]) -> torch.Tensor:
        out = compiled(ids, labels=ids) if "LM" in kind else compiled(ids)
        return out.loss if "LM" in kind else out.last_hidden_state.float().square().mean()

    return _trained(model, loss_of)


def _gpt2(batch: int) -> Built:
    from transformers import GPT2Config

    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return _language("GPT2LMHeadModel", config, batch, 512)


def _bert(batch: int) -> Built:
    from transformers import BertConfig

    config = BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return _language("BertModel", config, batch, 128)


def _llama(batch: int) -> Built:
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=8,
        vocab_size=32000,
        use_cache=False,
    )
    return _language("LlamaForCausalLM", config, batch, 512)


def _image(name: str, batch: int) -> Built:
    import timm

    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False).cuda().bfloat16()
    images = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    return _trained(model, lambda compiled: torch.nn.functional.cross_entropy(compiled(images).float(), labels))


MODELS: dict[str, Callable[[], Built]] = {
    f"{name}-train-{batch}": (lambda make=make, batch=batch: make(batch))  # type: ignore[misc]
    for name, make in {
        "gpt2": _gpt2,
        "bert": _bert,
        "llama": _llama,
        "vit": lambda batch: _image("vit_base_patch16_224", batch),
        "resnet50": lambda batch: _image("resnet50", batch),
    }.items()
    for batch in (1, 8, 32)
}
