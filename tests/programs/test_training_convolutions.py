"""Training of convolutional networks on a CPU: convolutions of one pixel are matrix products, and where grouped ones
stand between them all run in channels-last. Results, gradients, their strides and buffers are eager's."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.numerics.compare import check
from tests.numerics.wide_runs import SHAKES, shaking, widened
from tests.programs.models import shaken_copy, wide_copy
from vesta import _C

Build = Callable[[], nn.Module]
WITH_AVX512 = _C.host_target()["vector_bytes"] == 64


class Residual(nn.Module):
    """A bottleneck of a ResNet."""

    def __init__(self, inner: int, channels: int, stride: int = 1, bias: bool = False):
        super().__init__()
        half = channels // 2
        self.body = nn.Sequential(
            *[nn.Conv2d(inner, half, 1, bias=bias), nn.BatchNorm2d(half), nn.ReLU()],
            *[nn.Conv2d(half, half, 3, stride, 1, bias=bias), nn.BatchNorm2d(half), nn.ReLU()],
            *[nn.Conv2d(half, channels, 1, bias=bias), nn.BatchNorm2d(channels)],
        )
        self.skip = nn.Conv2d(inner, channels, 1, stride, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.skip(x))


class Inverted(nn.Module):
    """A block of a MobileNet, with squeeze-and-excite."""

    def __init__(self, channels: int, groups: int | None = None, side: tuple[int, int] = (3, 3), stride: int = 1):
        super().__init__()
        wide, self.stride = 2 * channels, stride
        padding = (side[0] // 2, side[1] // 2)
        self.expand = nn.Sequential(nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish())
        self.mix = nn.Sequential(
            nn.Conv2d(wide, wide, side, stride, padding, groups=groups or wide), nn.BatchNorm2d(wide), nn.Hardswish()
        )
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, wide, 1), nn.Sigmoid())
        self.project = nn.Conv2d(wide, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mix(self.expand(x))
        y = self.project(y * self.gate(y))
        return x + y if self.stride == 1 else y


class Joined(nn.Module):
    """Grouped convolutions whose results are joined, pooled and interpolated, beside a mask in eager's order."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Inverted(16, groups=8) for _ in range(3))
        self.end = nn.Conv2d(32, 8, 1)
        self.register_buffer("mask", torch.rand(1, 16, 18, 18))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x) * self.mask
        small = nn.functional.max_pool2d(x, 2)
        large = nn.functional.interpolate(small, scale_factor=2.0, mode="bilinear")
        return self.end(torch.cat([x, large], 1)).flatten(2).transpose(1, 2).tanh()


class Next(nn.Module):
    """A block of a ConvNeXt, whose pixels lie in channels-last in eager, too."""

    def __init__(self, channels: int, side: int):
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, side, padding=side // 2, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.wide(self.norm(self.mix(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class OneChannel(nn.Module):
    """Sizes of 1, whose strides eager takes from channels-last."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 1), nn.Conv2d(6, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(memory_format=torch.channels_last)
        return self.second(self.first(x).tanh())


def frozen() -> nn.Module:
    net = nn.Sequential(Residual(8, 16), Residual(16, 16))
    net[0].body[0].weight.requires_grad_(False)
    net[1].skip.weight.requires_grad_(False)
    return net


# By name: a network, and the sizes of its input.
NETS: dict[str, tuple[Build, tuple[int, ...]]] = {
    "bottlenecks": (lambda: nn.Sequential(Residual(8, 16, 2), Residual(16, 32)), (2, 8, 34, 36)),
    "with biases": (lambda: nn.Sequential(Residual(8, 16, 1, True), Residual(16, 16, 2, True)), (3, 8, 37, 33)),
    "one image": (lambda: nn.Sequential(Residual(8, 16, 2), Residual(16, 16)), (1, 8, 40, 40)),
    "frozen weights": (frozen, (2, 8, 20, 20)),
    "a convolution alone": (lambda: nn.Conv2d(4, 3, 1), (2, 4, 16, 16)),
    "depthwise": (lambda: nn.Sequential(*[Inverted(8) for _ in range(3)], nn.Conv2d(8, 4, 3)), (2, 8, 18, 17)),
    "depthwise of other sides": (
        lambda: nn.Sequential(
            *[Inverted(8, side=(5, 5)), Inverted(8, side=(5, 5), stride=2), Inverted(8, side=(7, 7))],
            *[Inverted(8, side=(1, 5)), Inverted(8, side=(2, 3), stride=3)],
        ),
        (2, 8, 18, 17),
    ),
    "in channels-last": (lambda: nn.Sequential(Next(8, 7), Next(8, 5), nn.Conv2d(8, 4, 3)), (2, 8, 18, 17)),
    "one channel": (OneChannel, (2, 1, 20, 20)),
    "grouped": (lambda: nn.Sequential(*[Inverted(8, 4) for _ in range(3)]), (1, 8, 18, 18)),
    "joined": (Joined, (2, 16, 18, 18)),
}


def step(call: Any, net: nn.Module, x: torch.Tensor) -> dict[str, Any]:
    x = x.clone().requires_grad_()
    for p in net.parameters():
        p.grad = None
    y = call(x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    (y * weights).sum().backward()
    gradients = {name: p.grad for name, p in net.named_parameters()}
    return {"y": y.detach(), "x.grad": x.grad, **gradients, **{k: v.clone() for k, v in net.named_buffers()}}


def strides(result: dict[str, Any]) -> dict[str, Any]:
    return {k: v if v is None else v.stride() for k, v in result.items()}


def in_doubles(net: nn.Module, x: torch.Tensor) -> dict[str, Any]:
    wide = wide_copy(net)
    with widened():
        return step(wide, wide, x.double())


def shaken(net: nn.Module, x: torch.Tensor, seed: int) -> dict[str, Any]:
    wide = shaken_copy(net, torch.float32, seed)
    with widened(shaking(torch.float32, seed)):
        return step(wide, wide, x.double())


@pytest.mark.parametrize("name", NETS)
def test_a_step_is_eagers(name: str) -> None:
    build, sizes = NETS[name]
    torch.manual_seed(3)
    net, x = build().train(), torch.randn(sizes)
    plain = copy.deepcopy(net)
    compiled = vesta.compile(net, fullgraph=True, options={"strict": True})
    for _ in range(3):
        before = copy.deepcopy(plain)
        eager, ours = step(plain, plain, x), step(compiled, net, x)
        assert strides(ours) == strides(eager)
        check(
            ours,
            eager,
            partial(in_doubles, before, x),
            perturbed=[partial(shaken, before, x, n) for n in range(SHAKES)],
        )


def operators(net: nn.Module, x: torch.Tensor, **options: Any) -> Counter[str]:
    """How often both halves call an operator in one step."""
    compiled = vesta.compile(copy.deepcopy(net), fullgraph=True, options={"strict": True, **options})
    compiled(x).sum().backward()
    (graph,) = vesta.explain(compiled).explanation.graphs
    halves = [graph.compiled, *graph.backward]
    calls: Counter[str] = Counter()
    for half in halves:
        calls.update({e.op.removeprefix("aten::"): e.count for e in half.externs})
    return calls


@pytest.mark.kernels
def test_convolutions_of_one_pixel_are_products() -> None:
    torch.manual_seed(0)
    net, x = nn.Sequential(Residual(8, 16), Residual(16, 32)).train(), torch.randn(2, 8, 24, 24)
    calls = operators(net, x)
    # Those of 3 x 3 pixels are left, and without AVX-512 all.
    left = 2 if WITH_AVX512 else 8
    assert calls["convolution"] == calls["convolution_backward"] == left
    assert ("bmm" in calls) == WITH_AVX512
    for options in ({"skip_passes": ["convolution-products"]}, {"numerics": "eager"}):
        calls = operators(net, x, **options)
        assert calls["convolution"] == calls["convolution_backward"] == 8
        assert "bmm" not in calls


@pytest.mark.kernels
@pytest.mark.parametrize("skipped", [False, True])
def test_grouped_convolutions_run_in_channels_last(skipped: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*[Inverted(8) for _ in range(3)]).train()
    skip = ["channels-last", "convolution-products"] if skipped else []
    operators(net, torch.randn(2, 8, 18, 18), dump_dir=str(tmp_path), skip_passes=skip)
    graphs = [path.read_text() for path in tmp_path.rglob("*graph_traced.txt")]
    results = [
        r for g in graphs for r in re.findall(r"f32\[2, 16, 18, 18\](\{[^}]*\})?[^=\n]*= aten::convolution\(", g)
    ]
    assert len(results) == 6
    assert all(r == ("" if skipped else "{5184, 1, 288, 16}") for r in results)


@pytest.mark.kernels
@pytest.mark.parametrize("skipped", [False, True])
def test_gradients_of_depthwise_weights_are_not_padded(skipped: bool) -> None:
    """The library would take 64 times the memory of a weight, and 256 times with AVX-512."""
    torch.manual_seed(0)
    net, x = nn.Sequential(*[Inverted(32, side=(5, 5)) for _ in range(3)]).train(), torch.randn(1, 32, 9, 9)
    skip = ["convolution-products"] if skipped else []
    compiled = vesta.compile(net, fullgraph=True, options={"strict": True, "skip_passes": skip})
    compiled(x).sum().backward()
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        compiled(x).sum().backward()
    most = max(e.nbytes() for e in profile.kineto_results.events() if e.name() == "[memory]")
    lanes = 16 if WITH_AVX512 else 8
    padded = 64 * 25 * lanes * lanes * 4
    assert (most >= padded) == skipped


def test_second_derivatives() -> None:
    """Where the first derivative is differentiated, too, the program runs again as it is."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(4, 8, 1), nn.Softplus(), nn.Conv2d(8, 8, 3), nn.Softplus(), nn.Conv2d(8, 2, 1))
    plain = copy.deepcopy(net)

    def penalty(call: Any, x: torch.Tensor) -> torch.Tensor:
        (g,) = torch.autograd.grad(call(x).square().sum(), x, create_graph=True)
        g.square().sum().backward()
        return x.grad

    x = torch.randn(1, 4, 24, 24)
    compiled = vesta.compile(net, fullgraph=True, options={"strict": True})
    ours, eager = (penalty(call, x.clone().requires_grad_()) for call in (compiled, plain))
    torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
    for p, q in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4)
