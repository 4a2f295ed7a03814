"""The workloads: models (batch 1, fp32), and single kernels with the bytes that they must move."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

Built = tuple[Callable[..., Any], tuple[Any, ...]]  # what is compiled, and its arguments


@dataclass(frozen=True)
class Model:
    """`aim`: the project's goal for the ratio eager / Vesta (1: not slower)."""

    build: Callable[[], Built]
    about: str
    aim: float = 1.0
    compile_ms: float = 300.0


@dataclass(frozen=True)
class Kernel:
    """A fused loop. `moved`: bytes per element of the input; `math`: the function per element that bounds it."""

    function: Callable[..., Any]
    inputs: Callable[[torch.dtype], tuple[torch.Tensor, ...]]
    written: Callable[[tuple[torch.Tensor, ...]], int]
    math: str = ""
    aim: float = 1.3
    extra: dict[str, Any] = field(default_factory=dict)


def transformer(model: str, config: str, **sizes: Any) -> torch.nn.Module:
    transformers = importlib.import_module("transformers")
    torch.manual_seed(0)
    made = getattr(transformers, config)(**sizes)
    if getattr(made, "use_cache", None) is not None:
        made.use_cache = False
    return getattr(transformers, model)(made).eval()  # type: ignore[no-any-return]


def tokens(length: int, vocabulary: int = 1000) -> torch.Tensor:
    return torch.randint(3, vocabulary, (1, length), generator=torch.Generator().manual_seed(1))


def llama() -> Built:
    model = transformer(
        "LlamaForCausalLM",
        "LlamaConfig",
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=8,
        vocab_size=32000,
        max_position_embeddings=512,
    )
    return model, (tokens(128),)


def minilm() -> Built:
    model = transformer(
        "BertModel",
        "BertConfig",
        hidden_size=384,
        intermediate_size=1536,
        num_hidden_layers=6,
        num_attention_heads=12,
        vocab_size=30522,
    )
    return model, (tokens(128), torch.ones(1, 128, dtype=torch.int64))


def bert() -> Built:
    model = transformer("BertModel", "BertConfig", num_hidden_layers=6)
    return model, (tokens(128), torch.ones(1, 128, dtype=torch.int64))


def gpt2() -> Built:
    return transformer("GPT2LMHeadModel", "GPT2Config"), (tokens(64),)


class _TwoSided(torch.nn.Module):
    """An encoder-decoder with positional arguments."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> Any:
        return self.model(input_ids=source, decoder_input_ids=target)


def t5() -> Built:
    model = transformer(
        "T5ForConditionalGeneration", "T5Config", num_layers=4, num_decoder_layers=4, decoder_start_token_id=0
    )
    return _TwoSided(model), (tokens(128), tokens(64))


def vision(name: str) -> Callable[[], Built]:
    def build() -> Built:
        torch.manual_seed(0)
        model = importlib.import_module("timm").create_model(name, pretrained=False).eval()
        return model, (torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(1)),)

    return build


def chain(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = F.layer_norm(F.gelu(x), (1024,), w, b)
    return torch.softmax(y, -1) * torch.sigmoid(y)


def chain_built() -> Built:
    torch.manual_seed(0)
    return chain, (torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024))


def tiny(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * y + 1).sin()


def tiny_built() -> Built:
    torch.manual_seed(0)
    return tiny, (torch.randn(8, 8), torch.randn(8, 8))


def optimizer_step(make: Callable[..., torch.optim.Optimizer]) -> Callable[[], Built]:
    """A step over 150 tensors of 25 million parameters."""

    def build() -> Built:
        generator = torch.Generator().manual_seed(0)
        parameters = []
        for sizes in [(576, 576), (576,), (288, 576)] * 50:
            p = torch.nn.Parameter(torch.randn(sizes, generator=generator) * 0.02)
            p.grad = torch.randn(sizes, generator=generator)
            parameters.append(p)
        return make(parameters).step, ()

    return build


def adamw(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def sgd(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


MODELS: dict[str, Model] = {
    "llama": Model(llama, "Llama, 8 layers, 512 wide, 128 tokens", 1.25),
    "minilm": Model(minilm, "MiniLM: BERT, 6 layers, 384 wide, 128 tokens", 1.3),
    "bert": Model(bert, "BERT, 6 layers, 768 wide, 128 tokens", 1.3),
    "gpt2": Model(gpt2, "GPT-2, 12 layers, 64 tokens", 1.5),
    "t5": Model(t5, "T5, 4+4 layers, 128 and 64 tokens", 1.25),
    "vit": Model(vision("vit_small_patch16_224"), "ViT-small, 224x224", 1.2),
    "resnet50": Model(vision("resnet50"), "resnet50, 224x224", 1.7),
    "mobilenetv3": Model(vision("mobilenetv3_large_100"), "mobilenetv3_large_100, 224x224", 2.2),
    "convnext": Model(vision("convnext_tiny"), "convnext_tiny, 224x224", 1.0),
    "chain": Model(chain_built, "gelu, LayerNorm, softmax * sigmoid, 4096x1024", 6.0),
    "tiny": Model(tiny_built, "relu(x*y+1).sin(), 8x8", 1.0),
    "adamw": Model(optimizer_step(adamw), "AdamW step, 150 tensors, 25 M parameters", 1.3),
    "sgd": Model(optimizer_step(sgd), "SGD step with momentum, 150 tensors, 25 M parameters", 1.3),
}

# ---- kernels ---------------------------------------------------------------------------------------------------------

ROWS, COLUMNS = 8192, 2048


def matrix(*count_and_vectors: int) -> Callable[[torch.dtype], tuple[torch.Tensor, ...]]:
    """(matrices, vectors of a row's length)"""
    matrices, vectors = count_and_vectors

    def inputs(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(0)
        made = [torch.randn(ROWS, COLUMNS).to(dtype) for _ in range(matrices)]
        return (*made, *(torch.randn(COLUMNS).to(dtype) for _ in range(vectors)))

    return inputs


def same(inputs: tuple[torch.Tensor, ...]) -> int:
    return inputs[0].nbytes


def row(inputs: tuple[torch.Tensor, ...]) -> int:
    return inputs[0].shape[0] * inputs[0].element_size()


def column(inputs: tuple[torch.Tensor, ...]) -> int:
    return inputs[0].shape[1] * inputs[0].element_size()


def probabilities(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return (torch.softmax(torch.randn(ROWS, COLUMNS), -1).to(dtype),)


def logits(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return torch.randn(1024, ROWS * COLUMNS // 1024).to(dtype), torch.randint(0, 1000, (1024,))


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x.float()
    return w * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def transpose_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y.t()


def transposed(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    side = math.isqrt(ROWS * COLUMNS)
    return torch.randn(side, side).to(dtype), torch.randn(side, side).to(dtype)


KERNELS: dict[str, Kernel] = {
    "softmax": Kernel(lambda x: torch.softmax(x, -1), matrix(1, 0), same, "exp"),
    "LayerNorm": Kernel(lambda x, w, b: F.layer_norm(x, (COLUMNS,), w, b), matrix(1, 2), same),
    "RMSNorm": Kernel(rms_norm, matrix(1, 1), same),
    "cross-entropy": Kernel(lambda x, t: F.cross_entropy(x, t), logits, lambda i: 4, "exp"),
    "entropy": Kernel(lambda p: -(p * p.log()).sum(-1), probabilities, row, "log"),
    "gelu*mul+add": Kernel(lambda x, y, z: F.gelu(x) * y + z, matrix(3, 0), same, "erf"),
    "sum of rows": Kernel(lambda x: x.sum(-1), matrix(1, 0), row),
    "sum of columns": Kernel(lambda x: x.sum(0), matrix(1, 0), column),
    "transpose+add": Kernel(transpose_add, transposed, same),
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
