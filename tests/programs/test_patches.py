"""The first layer of a vision transformer: a convolution of patches that is a product of ours on a CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import vesta

pytestmark = pytest.mark.kernels


class Patches(nn.Module):
    def __init__(self, channels: int, width: int, patch: tuple[int, int], bias: bool = True) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, stride=patch, bias=bias)
        self.place = nn.Parameter(torch.randn(1, 1, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.proj(x).flatten(2).transpose(1, 2)
        first = torch.zeros(x.shape[0], 1, tokens.shape[2])
        return self.norm(torch.cat([first.to(x.dtype), tokens], dim=1) + self.place)


def calls_of(compiled: Any) -> list[str]:
    (graph,) = vesta.explain(compiled).explanation.graphs
    return [s.name for s in graph.steps if not s.is_kernel]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("batch", "channels", "size", "patch"),
    [(1, 3, (64, 48), (16, 16)), (3, 4, (12, 20), (4, 2)), (2, 1, (33, 24), (11, 8))],
)
def test_is_a_product(batch: int, channels: int, size: tuple[int, int], patch: tuple[int, int], bias: bool) -> None:
    torch.manual_seed(0)
    model = Patches(channels, 48, patch, bias).eval()
    x = torch.randn(batch, channels, *size)
    compiled = vesta.compile(model, options={"cache": False, "only_if_faster": False})
    with torch.no_grad():
        for _ in range(2):
            result, eager = compiled(x), model(x)
            torch.testing.assert_close(result, eager, rtol=1e-4, atol=1e-5)
            assert result.stride() == eager.stride()
        assert calls_of(compiled) == []
        model.proj.weight.mul_(2)  # a changed weight is laid out again
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_other_sizes_and_results() -> None:
    """Pixels that no window has, a result that the caller sees, and training."""
    model = Patches(3, 48, (16, 16)).eval()
    options = {"cache": False, "only_if_faster": False}
    sequence = vesta.compile(lambda x: model.proj(x).flatten(2).transpose(1, 2), options=options)
    compiled = vesta.compile(model, options=options)
    with torch.no_grad():
        x = torch.randn(1, 3, 50, 64)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        x = torch.randn(2, 3, 32, 64)
        expected = model.proj(x).flatten(2).transpose(1, 2)
        result = sequence(x)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
        assert result.stride() == expected.stride()
    compiled(x).square().mean().backward()
    ours = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(x).square().mean().backward()
    for a, p in zip(ours, model.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad, rtol=1e-3, atol=1e-5)
