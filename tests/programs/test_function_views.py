"""A torch.autograd.Function that returns a view of its input keeps its backward, whatever else the program returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import vesta

OPTIONS = {"only_if_faster": False}


class Reverse(torch.autograd.Function):
    """As for adversarial domain adaptation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        ctx.share = share
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return -ctx.share * g, None


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x[1:]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return torch.cat([g[:1] * 7, g * 5])


def reverse(x: Tensor, share: float = 0.5) -> Tensor:
    return Reverse.apply(x, share)  # type: ignore[no-any-return, no-untyped-call]


def rows(x: Tensor) -> Tensor:
    return Rows.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def beside_its_input(w: Tensor) -> tuple[Tensor, ...]:
    h = w * 2
    return h, reverse(h)


def view_beside_its_input(w: Tensor) -> tuple[Tensor, ...]:
    h = w * 2
    return h, reverse(h)[1:]


def of_a_view(w: Tensor) -> tuple[Tensor, ...]:
    h = w * 2
    return h, reverse(h[1:])


def with_a_view(w: Tensor) -> tuple[Tensor, ...]:
    y = reverse(w * 2)
    return y, y[1:]


def twice(w: Tensor) -> tuple[Tensor, ...]:
    h = w * 2
    y = reverse(h)
    return y, reverse(y, 0.25), h


PROGRAMS: dict[str, tuple[Callable[[Tensor], tuple[Tensor, ...]], bool]] = {
    "beside-its-input": (beside_its_input, False),
    "of-an-argument": (lambda w: (reverse(w), w * 2), False),
    "rows-of-an-argument": (lambda w: (rows(w), w * 2), False),
    "rows-beside-their-input": (lambda w: (lambda h: (h, rows(h)))(w * 2), False),
    "of-a-view": (of_a_view, False),
    "view-beside-its-input": (view_beside_its_input, False),
    "with-a-view": (with_a_view, False),
    "twice": (twice, False),
    "alone": (lambda w: (reverse(w * 2),), True),
    "view-alone": (lambda w: (reverse(w * 2)[1:],), True),
    "inside": (lambda w: ((reverse(w * 2) ** 2).sum(), w + 1), True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_the_function(name: str) -> None:
    program, whole = PROGRAMS[name]
    compiled = vesta.compile(program, options=OPTIONS)
    for _ in range(2):
        found = []
        for call in (program, compiled):
            w = torch.arange(1.0, 5.0).requires_grad_()
            results = call(w)
            slopes = [torch.autograd.grad(r.square().sum(), w, retain_graph=True)[0] for r in results]
            found.append(([r.detach() for r in results], slopes, [r._is_view() for r in results]))
        torch.testing.assert_close(found[1][:2], found[0][:2])
    breaks = vesta.explain(compiled).explanation.breaks
    assert bool(breaks) != whole, breaks


def test_a_share_that_grows() -> None:
    """Its value is another one in each step, so that the call ends up as a graph break."""

    def loss(z: Tensor, w: Tensor, share: float) -> Tensor:
        return (reverse(z * w, share) ** 2).sum()

    compiled = vesta.compile(loss, options={**OPTIONS, "recompile_share": -1.0})
    for n in range(9):
        z, w = torch.randn(4, 3), torch.randn(3)
        slopes = []
        for call in (loss, compiled):
            leaf = w.clone().requires_grad_()
            slopes.append(torch.autograd.grad(call(z, leaf, 0.1 * n + 0.05), leaf)[0])
        torch.testing.assert_close(slopes[1], slopes[0])
