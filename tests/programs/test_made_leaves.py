"""Leaves that a compiled function makes and returns: a later backward pass accumulates into them, as into eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

import vesta

OPTIONS = {"only_if_faster": False}


def net() -> Any:
    torch.manual_seed(0)
    return nn.Linear(8, 4)


def with_its_gradient(model: Any, x: torch.Tensor) -> Any:
    w = torch.full((8,), 2.0, requires_grad=True)
    model(x * w).square().mean().backward()
    return w, w.grad


def its_gradient_alone(model: Any, x: torch.Tensor) -> Any:
    w = torch.full((8,), 2.0, requires_grad=True)
    model(x * w).square().mean().backward()
    return w


def for_a_later_pass(model: Any, x: torch.Tensor) -> Any:
    w = torch.full((8,), 2.0).requires_grad_()
    return w, model(x * w).square().mean()


def for_a_pass_inside_and_a_later_one(model: Any, x: torch.Tensor) -> Any:
    w = torch.linspace(0, 1, 8).requires_grad_()
    model(x * w).sum().backward()
    return w, (w.sin() * x).sum()


def with_a_view(model: Any, x: torch.Tensor) -> Any:
    w = torch.full((8,), 2.0).requires_grad_()
    return w, w[:4], model(x * w).sum()


def without_the_model(model: Any, x: torch.Tensor) -> Any:
    w = x.detach().clone().requires_grad_()
    return w, (w.exp() * 2).sum()


def behind_a_hook(model: Any, x: torch.Tensor) -> Any:
    w = torch.full((8,), 2.0).requires_grad_()
    h = w * 3
    h.register_hook(lambda g: g * 5)
    return w, model(x * h).sum()


def one_that_nobody_sees(model: Any, x: torch.Tensor) -> Any:
    w = torch.full((8,), 2.0).requires_grad_()
    return model(x * w).square().mean()


def after(result: Any, model: Any) -> Any:
    """Runs the passes that are left, from all results together."""
    results = result if isinstance(result, tuple) else (result,)
    losses = [t.sum() for t in results if t.requires_grad and not t.is_leaf]
    if losses:
        torch.stack(losses).sum().backward()
    facts = [(t.requires_grad, t.is_leaf, t.grad_fn is None, t._version) for t in results]
    found = [results, [t.grad for t in results if t.is_leaf], [p.grad for p in model.parameters()], facts]
    return tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, found)


@pytest.mark.parametrize(
    "program",
    [
        with_its_gradient,
        its_gradient_alone,
        for_a_later_pass,
        for_a_pass_inside_and_a_later_one,
        with_a_view,
        without_the_model,
        behind_a_hook,
        one_that_nobody_sees,
    ],
)
def test_is_eagers_leaf(program: Callable[[Any, torch.Tensor], Any]) -> None:
    found = []
    for call in (program, vesta.compile(program, options=OPTIONS, fullgraph=True)):
        model = net()
        told = []
        for turn in range(3):
            model.zero_grad()
            x = torch.randn(5, 8, generator=torch.Generator().manual_seed(turn))
            told.append(after(call(model, x), model))
        found.append(told)
    torch.testing.assert_close(found[1], found[0])


def test_an_optimizer_of_the_leaf() -> None:
    """The adversary of a batch: made by the compiled function, and improved outside of it."""
    model = net()

    def make(x: torch.Tensor) -> Any:
        delta = torch.zeros_like(x).requires_grad_()
        return delta, model(x + delta).square().sum()

    told = []
    for call in (make, vesta.compile(make, options=OPTIONS, fullgraph=True)):
        for turn in range(2):
            x = torch.randn(5, 8, generator=torch.Generator().manual_seed(turn))
            delta, loss = call(x)
            optimizer = torch.optim.SGD([delta], lr=0.1)
            loss.backward()
            optimizer.step()
            told.append(delta.detach().clone())
    torch.testing.assert_close(told[2:], told[:2])
