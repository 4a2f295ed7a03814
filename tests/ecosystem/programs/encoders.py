"""Encoders of texts and images: open_clip, sentence-transformers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import Tensor

from tests.ecosystem.program import Built, Compile, integers, normal, program

SENTENCES = [
    "a cat sits on the table",
    "the big dog runs under the green table and looks at the cat",
    "a man looks at the sky",
    "the sun",
    "a woman and a man with a small red dog",
    "the dog sits on grass",
]
WORDS = sorted({word for sentence in SENTENCES for word in sentence.split()})


@program("open_clip_torch", "CLIP: image and text features, logits")
def clip(compile: Compile) -> Built:
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    model = CLIP(
        embed_dim=64,
        vision_cfg=CLIPVisionCfg(layers=3, width=128, head_width=32, patch_size=16, image_size=64),
        text_cfg=CLIPTextCfg(context_length=24, vocab_size=256, width=64, heads=2, layers=3),
    ).eval()
    compiled = compile(model)

    @torch.no_grad()
    def call(image: Tensor, text: Tensor) -> Tensor:
        image_features, text_features, scale = compiled(image, text)
        return (scale * image_features @ text_features.T).softmax(dim=-1)

    def inputs(n: int) -> dict[str, Tensor]:
        return {"image": normal(n, 2, 3, 64, 64), "text": integers(n, 256, 5, 24)}

    return Built(call, inputs, (model,))


@program("open_clip_torch", "CLIP: `encode_image` and `encode_text` of a compiled model")
def clip_encode(compile: Compile) -> Built:
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    model = CLIP(
        embed_dim=64,
        vision_cfg=CLIPVisionCfg(layers=3, width=128, head_width=32, patch_size=16, image_size=64),
        text_cfg=CLIPTextCfg(context_length=24, vocab_size=256, width=64, heads=2, layers=3),
    ).eval()
    compiled = compile(model)
    compiled.visual = compile(compiled.visual)

    @torch.no_grad()
    def call(image: Tensor, text: Tensor) -> Tensor:
        return compiled.encode_image(image, normalize=True) @ compiled.encode_text(text, normalize=True).T

    def inputs(n: int) -> dict[str, Tensor]:
        return {"image": normal(n, 2, 3, 64, 64), "text": integers(n, 256, 5, 24)}

    return Built(call, inputs, (model,))


@program("sentence-transformers", "`encode` of six sentences in batches, compiled model")
def encode(compile: Compile) -> Built:
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizer

    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocab.txt"
        vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
        BertTokenizer(str(vocabulary)).save_pretrained(folder)
        config = BertConfig(
            vocab_size=64, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256
        )
        BertModel(config).save_pretrained(folder)
        words = models.Transformer(folder, max_seq_length=64)
    model = SentenceTransformer(modules=[words, models.Pooling(128)], device="cpu").eval()
    compiled = compile(model)

    def call(count: int) -> Tensor:
        return compiled.encode(SENTENCES[:count], batch_size=4, convert_to_tensor=True, show_progress_bar=False)

    return Built(call, lambda n: {"count": 6 - n}, (model,))
