"""Interpolation of images whose sizes change from call to call: one graph serves them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import vesta

OPTIONS = {"cache": False, "only_if_faster": False}
MODES = {  # by the dimensions of an image
    1: ("nearest", "nearest-exact", "linear"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
    3: ("nearest", "nearest-exact", "trilinear"),
}
SIZES: list[tuple[int, ...]] = [(2, 3, 8, 9, 6), (4, 3, 10, 11, 5), (5, 6, 7, 12, 9)]


def graphs_of(f: Callable[..., Any], images: list[torch.Tensor], gradients: bool) -> int:
    """How many graphs serve calls with these images, whose results and gradients are eager's."""
    compiled = vesta.compile(f, dynamic=True, options=OPTIONS)
    for image in images:
        ours, theirs = image.clone().requires_grad_(gradients), image.clone().requires_grad_(gradients)
        result, expected = compiled(ours), f(theirs)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
        assert result.stride() == expected.stride()
        if gradients:
            result.square().sum().backward()
            expected.square().sum().backward()
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    explained = vesta.explain(compiled).explanation
    assert not any(c.breaks for c in explained.captures)
    return len(explained.graphs)


def images(dims: int) -> list[torch.Tensor]:
    return [torch.randn(*sizes[: dims + 2], generator=torch.Generator().manual_seed(0)) for sizes in SIZES]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize(("dims", "mode"), [(dims, mode) for dims, modes in MODES.items() for mode in modes])
def test_one_graph_for_all_sizes(dims: int, mode: str, gradients: bool) -> None:
    given = images(dims)
    fixed, scales = (7, 16, 5)[:dims], [2.0, 0.5, 1.75][:dims]
    assert graphs_of(lambda x: functional.interpolate(x, size=fixed, mode=mode), given, gradients) == 1
    if mode != "area":  # for "area", F.interpolate computes the sizes in Python, as floats
        assert graphs_of(lambda x: functional.interpolate(x, scale_factor=scales, mode=mode), given, gradients) == 1
    twice = lambda x: functional.interpolate(x, size=[n * 2 for n in x.shape[2:]], mode=mode)  # noqa: E731
    assert graphs_of(twice, given, gradients) == 1


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_with_an_antialias(mode: str) -> None:
    smaller = lambda x: functional.interpolate(x, scale_factor=0.5, mode=mode, antialias=True)  # noqa: E731
    assert graphs_of(smaller, images(2), False) == 1


def test_aligned_corners() -> None:
    f = lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)  # noqa: E731
    assert graphs_of(f, images(2), True) == 1


@pytest.mark.parametrize("scale", [1 / 3, 0.7])
def test_a_scale_that_rounds_needs_the_sizes(scale: float) -> None:
    """The size times the scale is rounded as the number that it is."""
    given = [torch.randn(2, 3, n, n + 1) for n in (9, 10, 21)]
    assert graphs_of(lambda x: functional.interpolate(x, scale_factor=scale), given, False) <= 3


def test_wrong_sizes_raise_as_in_eager() -> None:
    x = torch.randn(2, 3, 8, 9)
    for wrong in ({"size": (4, 4, 4)}, {"scale_factor": [2.0, 2.0, 2.0]}, {"size": (0, 3)}):
        f = lambda x, wrong=wrong: functional.interpolate(x, **wrong)  # noqa: E731
        with pytest.raises((RuntimeError, ValueError)) as theirs:
            f(x)
        with pytest.raises(type(theirs.value)) as ours:
            vesta.compile(f, dynamic=True, options=OPTIONS)(x)
        assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]
