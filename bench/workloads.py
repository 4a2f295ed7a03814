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
    """`aim`: the project's goal for the ratio eager / Vesta (1: not slower).

    `trains`: calls record gradients, and the
    backward pass of a loss that is returned belongs to the call."""

    build: Callable[[], Built]
    about: str
    aim: float = 1.0
    compile_ms: float = 300.0
    trains: bool = False


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


class Loss(torch.nn.Module):
    """A model in training mode, without dropout, and what it is trained for."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model.train()
        for m in model.modules():
            if isinstance(m, torch.nn.Dropout):
                m.p = 0.0


class OfTokens(Loss):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, labels=ids).loss  # type: ignore[no-any-return]


class OfStates(Loss):
    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return states.square().mean()  # type: ignore[no-any-return]


class OfLabels(Loss):
    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(images), labels)


def trained(kind: type[Loss], build: Callable[[], Built], batch: int) -> Callable[[], Built]:
    def made() -> Built:
        model, inputs = build()
        assert isinstance(model, torch.nn.Module)
        given = [t.repeat(batch, *[1] * (t.dim() - 1)) for t in inputs]
        if kind is OfLabels:
            given.append(torch.arange(batch))
        return kind(model), tuple(given)

    return made


class SmallGpt(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(512, 128)
        layer = torch.nn.TransformerEncoderLayer(
            128, 4, 512, dropout=0.0, activation=F.gelu, batch_first=True, norm_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = torch.nn.Linear(128, 512, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = torch.nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.layers(self.embed(ids), mask=mask, is_causal=True))  # type: ignore[no-any-return]


def whole_step() -> Built:
    """zero_grad, forward, loss, backward, clipping and AdamW in one function."""
    torch.manual_seed(0)
    model = SmallGpt().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    generator = torch.Generator().manual_seed(1)
    return step, tuple(torch.randint(0, 512, (8, 64), generator=generator) for _ in range(2))


class TinyLoss(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(8, 8, generator=torch.Generator().manual_seed(0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.w + 1).sin().sum()


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
    **{
        f"{name}-train-{batch}": Model(trained(kind, build, batch), f"training, batch {batch}", 1.2, trains=True)
        for name, kind, build in (
            ("gpt2", OfTokens, gpt2),
            ("bert", OfStates, bert),
            ("llama", OfTokens, llama),
            ("vit", OfLabels, vision("vit_small_patch16_224")),
            ("resnet50", OfLabels, vision("resnet50")),
        )
        for batch in (1, 8)
    },
    "tiny-train": Model(lambda: (TinyLoss(), (torch.ones(8, 8),)), "training of relu(x*w+1).sin()", 1.0, trains=True),
    "step": Model(
        whole_step, "a whole training step of a small GPT: 4 layers, 128 wide, 8 x 64 tokens", 1.3, trains=True
    ),
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
