"""The workloads of `python -m bench.cuda`: kernels, with the bytes that they move, and models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Arguments = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class Kernel:
    """`target_us`: goal in microseconds on an H200; 0: none."""

    name: str
    function: Callable[..., Any]
    arguments: Arguments
    target_us: float = 0.0


def _x(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda", dtype=dtype)


def _entropy(x: torch.Tensor) -> torch.Tensor:
    return -(F.softmax(x, -1) * F.log_softmax(x, -1)).sum(-1)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return F.softmax(x, -1)


def _add_and_norm(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> Any:
    h = x + y
    return h, (h.float() * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(h.dtype) * w


def _gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.gelu(x) * y + x


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


def _columns(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0)


def _columns_so_far(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(0)


def _copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def _norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def _product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w)


def _quantised_rows(x: torch.Tensor) -> Any:
    scale = x.abs().amax(-1, keepdim=True).float() / 448
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def _scaled_gate(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor) -> Any:
    gate = torch._scaled_mm(a, b.t(), sa, sb, out_dtype=torch.bfloat16)
    return F.silu(gate) * torch._scaled_mm(a, c.t(), sa, sb, out_dtype=torch.bfloat16)


def _embedding(w: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return F.embedding(i, w)


def _embedding_gradient(g: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.embedding_dense_backward(g, i, 32000, -1, False)


def _running_sum(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(-1)


def _float8(rows: int, columns: int) -> torch.Tensor:
    return _x(rows, columns, torch.float32).to(torch.float8_e4m3fn)


def _perceptron(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    return F.linear(F.gelu(F.linear(x, w1, b1), approximate="tanh"), w2)


def named() -> Iterator[Kernel]:
    f32, bf16 = torch.float32, torch.bfloat16
    yield Kernel("entropy f32", _entropy, lambda: (_x(8192, 4096, f32),), 34)
    yield Kernel("softmax bf16", _softmax, lambda: (_x(8192, 4096, bf16),), 36)
    yield Kernel(
        "add and norm bf16",
        _add_and_norm,
        lambda: (_x(8192, 4096, bf16), _x(8192, 4096, bf16), torch.ones(4096, device="cuda", dtype=bf16)),
        68,
    )
    yield Kernel(
        "cross-entropy bf16",
        F.cross_entropy,
        lambda: (_x(4096, 32000, bf16), torch.randint(0, 32000, (4096,), device="cuda")),
        68,
    )
    yield Kernel("gated gelu bf16", _gated, lambda: (_x(8192, 4096, bf16), _x(8192, 4096, bf16)), 50)
    yield Kernel("column sum f32", _columns, lambda: (_x(8192, 4096, f32),))
    yield Kernel("transposed f32", _transposed, lambda: (_x(8192, 4096, f32),))
    yield Kernel("transposed bf16", _transposed, lambda: (_x(8192, 4096, bf16),))
    yield Kernel("copy f32", _copy, lambda: (_x(8192, 4096, f32),))
    for kind, function, rows in (
        ("embedding", _embedding, 32000),
        ("gradient of an embedding", _embedding_gradient, 16384),
    ):
        yield Kernel(
            f"{kind} f32",
            function,
            lambda r=rows: (_x(r, 1024, f32), torch.randint(0, 32000, (16384,), device="cuda")),  # type: ignore[misc]
        )
    yield Kernel("running sum of rows f32", _running_sum, lambda: (_x(8192, 4096, f32),))
    yield Kernel("running sum of columns f32", _columns_so_far, lambda: (_x(8192, 4096, f32),))
    yield Kernel("one row times 14336x4096 bf16", _product, lambda: (_x(1, 4096, bf16), _x(14336, 4096, bf16)))
    yield Kernel("one row times 4096x14336 bf16", _product, lambda: (_x(1, 14336, bf16), _x(4096, 14336, bf16)))
    yield Kernel("quantised rows bf16 to float8", _quantised_rows, lambda: (_x(8192, 4096, bf16),))
    for kind, a, b in (("a matrix", (), ()), ("rows", (256, 1), (1, 7168))):
        yield Kernel(
            f"gate of float8 products, scales of {kind}",
            _scaled_gate,
            lambda a=a, b=b: (  # type: ignore[misc]
                *(_float8(rows, 4096) for rows in (256, 7168, 7168)),
                *(torch.full(size, 0.1, device="cuda") for size in (a, b)),
            ),
        )
    yield Kernel(
        "gelu perceptron bf16",
        _perceptron,
        lambda: (_x(2048, 1024, bf16), _x(4096, 1024, bf16), _x(1, 4096, bf16)[0], _x(1024, 4096, bf16)),
    )


def grid() -> Iterator[Kernel]:
    kinds = {"softmax": _softmax, "norm": _norm, "sum": _sum, "gelu": F.gelu}
    for dtype in (torch.float32, torch.bfloat16):
        for rows in (1, 7, 1000, 8192):
            for columns in (33, 4096, 32000, 131072):
                if rows * columns * dtype.itemsize > 2**31:
                    continue
                for kind, function in kinds.items():
                    name = f"{kind} {rows}x{columns} {str(dtype).removeprefix('torch.')}"
                    yield Kernel(name, function, lambda r=rows, c=columns, t=dtype: (_x(r, c, t),))  # type: ignore[misc]


def _gate_and_up(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def _rotated(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def _projections(x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return _rotated(F.linear(x, q)), _rotated(F.linear(x, k)), _rotated(F.linear(x, v))


def products() -> Iterator[Kernel]:
    """Products of few rows with the weights of a layer of Llama-8B."""

    def weights(rows: int, inner: int, *columns: int) -> tuple[torch.Tensor, ...]:
        return _x(rows, inner, torch.bfloat16), *(_x(n, inner, torch.bfloat16) for n in columns)

    for rows in (2, 8, 16, 32, 64, 96, 128):
        for kind, function, inner, columns in (
            ("output", _product, 4096, (4096,)),
            ("down", _product, 14336, (4096,)),
            ("keys", _product, 4096, (1024,)),
            ("gate and up", _gate_and_up, 4096, (14336, 14336)),
            ("queries, keys, values", _projections, 4096, (4096, 1024, 1024)),
            ("logits", _product, 4096, (128256,)),
        ):
            yield Kernel(f"{kind}, {rows} rows", function, lambda r=rows, i=inner, c=columns: weights(r, i, *c))  # type: ignore[misc]


def llama(layers: int, hidden: int, inner: int, heads: int, groups: int, vocabulary: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        vocab_size=vocabulary,
        max_position_embeddings=2048,
    )
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        try:
            return LlamaForCausalLM(config).eval()
        finally:
            torch.set_default_dtype(torch.float32)


def _prefill(layers: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    model = llama(layers, 4096, 14336, 32, 8, 128256)
    ids = torch.randint(0, 1000, (1, 128), device="cuda")

    def call(compiled: Callable[..., Any]) -> Any:
        return compiled(ids, use_cache=False).logits

    return model, (call,)


def _decode(layers: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from transformers import StaticCache

    model = llama(layers, 4096, 14336, 32, 8, 128256)
    cache = StaticCache(config=model.config, max_cache_len=1024)
    ids = torch.randint(0, 1000, (1, 600), device="cuda")
    model(ids, past_key_values=cache, cache_position=torch.arange(600, device="cuda"))
    token = ids[:, :1]
    position = torch.tensor([600], device="cuda")

    def call(compiled: Callable[..., Any]) -> Any:
        return compiled(token, past_key_values=cache, cache_position=position).logits

    return model, (call,)


def _encoder() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    model = BertModel(config).eval().cuda()
    ids = torch.randint(0, 1000, (8, 128), device="cuda")

    def call(compiled: Callable[..., Any]) -> Any:
        return compiled(ids).last_hidden_state

    return model, (call,)


def _bert(batch: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig()).eval().cuda().bfloat16()
    ids = torch.randint(0, 1000, (batch, 128), device="cuda")

    def call(compiled: Callable[..., Any]) -> Any:
        return compiled(ids).last_hidden_state

    return model, (call,)


def _image(name: str, batch: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    import timm

    model = timm.create_model(name, pretrained=False).eval().cuda().bfloat16()
    image = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.bfloat16)

    def call(compiled: Callable[..., Any]) -> Any:
        return compiled(image)

    return model, (call,)


def _unet(batch: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The network of Stable Diffusion 1.5, for images of 512x512."""
    from diffusers import UNet2DConditionModel  # type: ignore[import-not-found]  # install it to run this model

    model = UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
    model = model.eval().cuda().bfloat16()
    latents = torch.randn(batch, 4, 64, 64, device="cuda", dtype=torch.bfloat16)
    text = torch.randn(batch, 77, 768, device="cuda", dtype=torch.bfloat16)
    step = torch.tensor(500, device="cuda")

    def call(compiled: Callable[..., Any]) -> Any:
        return compiled(latents, step, text, return_dict=False)[0]

    return model, (call,)


# Name -> a function that makes the module and its arguments.
MODELS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "encoder": _encoder,
    "llama-2": lambda: _prefill(2),
    "llama-32": lambda: _prefill(32),
    "decode-2": lambda: _decode(2),
    "decode-32": lambda: _decode(32),
    "resnet50-1": lambda: _image("resnet50", 1),
    "resnet50-32": lambda: _image("resnet50", 32),
    "vit-1": lambda: _image("vit_base_patch16_224", 1),
    "vit-32": lambda: _image("vit_base_patch16_224", 32),
    "bert-1": lambda: _bert(1),
    "bert-32": lambda: _bert(32),
    "unet-1": lambda: _unet(1),
    "unet-32": lambda: _unet(32),
}
