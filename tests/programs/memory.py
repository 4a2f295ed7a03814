"""Programs whose compiles take more or less memory, for tests/programs/test_compile_memory.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Program = tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]


def repeated(body: Callable[[torch.Tensor], torch.Tensor], n: int, x: torch.Tensor) -> Program:
    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(n):
            x = body(x)
        return x

    return f, x


def one_kernel() -> Program:
    def f(x: torch.Tensor) -> torch.Tensor:
        outputs = [x.select(1, i).sin().tan().lgamma().atan() for i in range(28)]
        return torch.stack([o.digamma().asin() for o in outputs]).sum(0)

    return f, torch.randn(4096, 28)


def resnet() -> Program:
    import torchvision

    return torchvision.models.resnet18().eval(), torch.randn(1, 3, 64, 64)


def encoder() -> Program:
    layer: Any = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 4).eval(), torch.randn(2, 16, 64)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "chain": lambda: repeated(lambda x: torch.sin(x) + 1, 1000, torch.randn(64)),
    "pointwise": lambda: repeated(lambda x: torch.sin(x) + 1, 9_900, torch.randn(64)),  # 20,000 is the most of a trace
    "products": lambda: repeated(lambda x: x @ x, 400_000, torch.eye(4)),
    "one kernel": one_kernel,
    "resnet": resnet,
    "encoder": encoder,
}
