"""Tensors with a border of zeros, as convolutions read them: the kernel that computes a tensor stores it inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import vesta

pytestmark = pytest.mark.kernels


class Around(nn.Module):
    """Products of pixels, what follows them, and convolutions that read the result with a border."""

    def __init__(self, after: Callable[[Tensor], Tensor], *readers: nn.Module) -> None:
        super().__init__()
        # Channels-last pays from three convolutions on.
        self.first = nn.Sequential(nn.Conv2d(16, 24, 1), nn.Conv2d(24, 32, 1))
        self.after = after
        self.readers = nn.ModuleList(readers)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.after(self.first(x))
        return tuple(reader(y) for reader in self.readers)


def depthwise(size: int, stride: int, padding: int | tuple[int, int]) -> nn.Conv2d:
    return nn.Conv2d(32, 32, size, stride, padding, groups=32)


def kernels_of(compiled: Any) -> list[str]:
    (graph,) = vesta.explain(compiled).explanation.graphs
    return [s.name for s in graph.steps if s.is_kernel]


def stored_inside(compiled: Any) -> list[str]:
    """The kernels of a product that store their results inside of a border."""
    return [name for name in kernels_of(compiled) if "linear" in name and "constant_pad_nd" in name]


def check(model: nn.Module, x: Tensor, **options: Any) -> Any:
    """Compiled as exact as eager, which is measured by the same program in float64."""
    compiled = vesta.compile(model.eval(), options={"only_if_faster": False, "cache": False}, **options)
    compare(compiled, model, x)
    return compiled


def compare(compiled: Any, model: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        results, eagers = compiled(x), model(x)
    for result, eager in zip(results, eagers, strict=True):
        assert result.dtype == eager.dtype and result.stride() == eager.stride()
        tolerance = 2e-2 if x.dtype == torch.bfloat16 else 1e-4
        torch.testing.assert_close(result, eager, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("after", [nn.Identity(), nn.ReLU(), nn.Hardswish(), nn.SiLU()])
@pytest.mark.parametrize(
    "reader",
    [
        depthwise(3, 1, 1),
        depthwise(5, 2, 2),
        depthwise(3, 1, (0, 1)),
        nn.Conv2d(32, 48, 3, 2, 1),
        nn.Conv2d(32, 24, (1, 3), padding=(0, 1)),
    ],
)
def test_the_product_stores_inside(dtype: torch.dtype, after: nn.Module, reader: nn.Module) -> None:
    torch.manual_seed(0)
    model = Around(after, reader).to(dtype)
    for batch, size in ((1, (14, 12)), (3, (7, 9))):
        compiled = check(model, torch.randn(batch, 16, *size).to(dtype))
        assert len(stored_inside(compiled)) == 1, kernels_of(compiled)


def test_several_readers() -> None:
    """A residual, a mean and the caller read the same tensor without a border."""
    torch.manual_seed(0)

    class Mean(nn.Module):
        def forward(self, y: Tensor) -> Tensor:
            return y.mean((2, 3))

    for others in ([nn.Identity()], [Mean()], [nn.Conv2d(32, 48, 1)], [depthwise(5, 1, 2)], [nn.Identity(), Mean()]):
        model = Around(nn.ReLU(), depthwise(3, 1, 1), *others)
        compiled = check(model, torch.randn(2, 16, 10, 9))
        assert len(stored_inside(compiled)) == 1, kernels_of(compiled)


def test_a_convolution_after_a_depthwise_one() -> None:
    torch.manual_seed(0)
    model = Around(nn.Sequential(depthwise(3, 1, 1), nn.Hardswish()), nn.Conv2d(32, 48, 3, padding=1))
    compiled = check(model, torch.randn(1, 16, 11, 10))
    inside = [k for k in kernels_of(compiled) if "depthwise_convolution" in k and "constant_pad_nd" in k]
    assert len(inside) == 1, kernels_of(compiled)


@pytest.mark.parametrize(
    "widths", [(2, 1, 0, 3), (0, 0, 1, 1), (0, 3, 0, 0), (1, 0, 2, 0), (-1, 2, 1, 1), (0, 0, 0, 0)]
)
@pytest.mark.parametrize("value", [0.0, -1.5, float("nan")])
def test_other_borders(widths: tuple[int, int, int, int], value: float) -> None:
    torch.manual_seed(0)

    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(32, 48, 3)

        def forward(self, y: Tensor) -> Tensor:
            y = F.pad(y, widths, value=value)
            return F.conv2d(y, self.convolution.weight, self.convolution.bias)

    check(Around(nn.ReLU(), Padded()), torch.randn(2, 16, 9, 8))


def test_not_a_number_and_infinities() -> None:
    torch.manual_seed(0)
    model = Around(nn.Hardswish(), depthwise(3, 1, 1), nn.Conv2d(32, 48, 3, padding=1))
    x = torch.randn(1, 16, 9, 9)
    x[0, 3, 0, 0], x[0, 5, 8, 8], x[0, 7, 4, 0] = float("nan"), float("inf"), -float("inf")
    check(model, x)


def test_any_number_of_images() -> None:
    torch.manual_seed(0)
    model = Around(nn.Hardswish(), depthwise(3, 2, 1))
    images = [torch.randn(n, 16, 12, 8) for n in (2, 3, 5, 1)]
    compiled = check(model, images[0], dynamic=True)
    for x in images:
        compare(compiled, model, x)


def test_a_tensor_that_no_kernel_computes_is_copied() -> None:
    torch.manual_seed(0)

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolutions = nn.ModuleList(nn.Conv2d(32, 48, 3, padding=1) for _ in range(3))

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return tuple(c(x.relu()) for c in self.convolutions)

    compiled = check(Plain(), torch.randn(1, 32, 9, 9))
    assert stored_inside(compiled) == []
    assert sum("constant_pad_nd" in k for k in kernels_of(compiled)) == 1, kernels_of(compiled)


def test_many_pieces_of_a_concatenation() -> None:
    """Kernels of products and of rows store their results where the whole has them."""
    torch.manual_seed(0)

    class Pieces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(32, n) for n in (16, 24, 40))

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            rows = [F.layer_norm(x, (32,)), x.softmax(-1)]
            return (torch.cat([*(layer(x) for layer in self.layers), *rows, x.exp()], -1) * 2,)

    compiled = check(Pieces(), torch.randn(5, 7, 32))
    assert sum("cat" in k for k in kernels_of(compiled)) >= 3, kernels_of(compiled)
