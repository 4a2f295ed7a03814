"""Small libraries of layers: x-transformers, einops, rotary-embedding-torch, vector-quantize-pytorch, vit-pytorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.ecosystem.program import Built, Compile, integers, normal, program


@program("x-transformers", "decoder with rotary positions, RMSNorm, gated GELU")
def x_decoder(compile: Compile) -> Built:
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=256,
        max_seq_len=64,
        attn_layers=Decoder(dim=128, depth=2, heads=4, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True),
    ).eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": integers(n, 256, 2, 48)}, (model,))


@program("x-transformers", "`AutoregressiveWrapper.generate` of a compiled network, with its cache")
def x_generate(compile: Compile) -> Built:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    network = TransformerWrapper(num_tokens=256, max_seq_len=64, attn_layers=Decoder(dim=64, depth=2, heads=4))
    network.eval()
    model = AutoregressiveWrapper(network).eval()
    model.net = compile(model.net)

    def call(prompt: Tensor) -> Tensor:
        return model.generate(prompt, 16, temperature=0.0, cache_kv=True)

    return Built(call, lambda n: {"prompt": integers(n, 256, 2, 8)}, (network,))


@program("x-transformers", "encoder with ALiBi, normalised queries and keys, and a padding mask")
def x_encoder(compile: Compile) -> Built:
    from x_transformers import Encoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=256,
        max_seq_len=64,
        attn_layers=Encoder(dim=64, depth=2, heads=4, alibi_pos_bias=True, attn_qk_norm=True),
    ).eval()
    compiled = compile(model)

    def inputs(n: int) -> dict[str, Tensor]:
        return {"x": integers(n, 256, 2, 48), "mask": torch.arange(48)[None] < torch.tensor([[48], [30 - n]])}

    return Built(torch.no_grad()(lambda x, mask: compiled(x, mask=mask)), inputs, (model,))


@program("einops", "attention written with `rearrange`, `repeat` and `einsum`")
def einops_attention(compile: Compile) -> Built:
    from einops import einsum, rearrange, repeat

    class Attention(nn.Module):
        def __init__(self, dim: int = 128, heads: int = 4) -> None:
            super().__init__()
            self.heads = heads
            self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
            self.token = nn.Parameter(torch.randn(1, 1, dim))

        def forward(self, x: Tensor) -> Tensor:
            x = torch.cat([repeat(self.token, "1 1 d -> b 1 d", b=x.shape[0]), x], dim=1)
            q, k, v = rearrange(self.to_qkv(x), "b n (three h d) -> three b h n d", three=3, h=self.heads)
            weights = (einsum(q, k, "b h i d, b h j d -> b h i j") * q.shape[-1] ** -0.5).softmax(-1)
            return self.to_out(rearrange(einsum(weights, v, "b h i j, b h j d -> b h i d"), "b h n d -> b n (h d)"))

    model = Attention().eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": normal(n, 2, 40, 128)}, (model,))


@program("einops", "layers `Rearrange` and `Reduce` in a convolutional network")
def einops_layers(compile: Compile) -> Built:
    from einops.layers.torch import Rearrange, Reduce

    model = nn.Sequential(
        nn.Conv2d(3, 16, 5),
        nn.ReLU(),
        Reduce("b c (h h2) (w w2) -> b c h w", "max", h2=2, w2=2),
        nn.Conv2d(16, 32, 5),
        nn.ReLU(),
        Reduce("b c (h h2) (w w2) -> b c h w", "max", h2=2, w2=2),
        Rearrange("b c h w -> b (c h w)"),
        nn.Linear(32 * 5 * 5, 10),
    ).eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": normal(n, 4, 3, 32, 32)}, (model,))


@program("rotary-embedding-torch", "queries and keys rotated, attention")
def rotary(compile: Compile) -> Built:
    from rotary_embedding_torch import RotaryEmbedding

    embedding = RotaryEmbedding(dim=32)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = embedding.rotate_queries_or_keys(q)
        k = embedding.rotate_queries_or_keys(k)
        return nn.functional.scaled_dot_product_attention(q, k, v)

    compiled = compile(attend)

    def inputs(n: int) -> dict[str, Tensor]:
        return {name: normal(3 * n + i, 1, 8, 128, 64) for i, name in enumerate("qkv")}

    return Built(torch.no_grad()(lambda **given: compiled(**given)), inputs, (embedding,))


@program("vector-quantize-pytorch", "`VectorQuantize` with a commitment loss, evaluation")
def quantize(compile: Compile) -> Built:
    from vector_quantize_pytorch import VectorQuantize

    model = VectorQuantize(dim=64, codebook_size=128, decay=0.8, commitment_weight=1.0).eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": normal(n, 2, 256, 64)}, (model,))


@program("vector-quantize-pytorch", "`ResidualFSQ`")
def residual_fsq(compile: Compile) -> Built:
    from vector_quantize_pytorch import ResidualFSQ

    model = ResidualFSQ(dim=64, levels=[8, 5, 5, 3], num_quantizers=4).eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": normal(n, 2, 256, 64)}, (model,))


@program("vit-pytorch", "`ViT`")
def vit(compile: Compile) -> Built:
    from vit_pytorch import ViT

    model = ViT(image_size=64, patch_size=8, num_classes=10, dim=128, depth=3, heads=4, mlp_dim=256).eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": normal(n, 2, 3, 64, 64)}, (model,))


@program("vit-pytorch", "`SimpleViT` training step, AdamW", trains=True)
def simple_vit_training(compile: Compile) -> Built:
    from vit_pytorch import SimpleViT

    model = SimpleViT(image_size=64, patch_size=8, num_classes=10, dim=64, depth=2, heads=4, mlp_dim=128)
    compiled = compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def call(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(compiled(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Built(call, lambda n: {"x": normal(n, 2, 3, 64, 64), "y": integers(n, 10, 2)}, (model,))
