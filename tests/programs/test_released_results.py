"""Results whose backward pass has run inside of the compiled function: a further pass raises as in eager, whatever asks
for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vesta

OPTIONS = {"only_if_faster": False}
TWICE = "Trying to backward through the graph a second time"


def one_loss(x: torch.Tensor, w: torch.Tensor) -> Any:
    loss = (x * w).exp().sum()
    loss.backward()
    return loss


def sum_of_losses(x: torch.Tensor, w: torch.Tensor) -> Any:
    first = (x * w).exp().sum()
    first.backward()
    second = (x * w).sin().sum()
    second.backward()
    return first + second


def with_an_intermediate_result(x: torch.Tensor, w: torch.Tensor) -> Any:
    hidden = x + w
    loss = (hidden * hidden).sum()
    loss.backward()
    return loss, hidden


def with_another_result(x: torch.Tensor, w: torch.Tensor) -> Any:
    hidden = (x * w).exp()
    loss = hidden.square().sum()
    loss.backward()
    return loss, hidden


def by_grad(x: torch.Tensor, w: torch.Tensor) -> Any:
    loss = (x * w).exp().sum()
    (g,) = torch.autograd.grad(loss, x)
    return loss, g


def with_a_leaf(x: torch.Tensor, w: torch.Tensor) -> Any:
    leaf = torch.ones(3, requires_grad=True)
    loss = (x * w * leaf).exp().sum()
    loss.backward()
    return loss, leaf


def view_of_one(x: torch.Tensor, w: torch.Tensor) -> Any:
    each = (x * w).exp()
    each.sum().backward()
    return each[1:], each


PROGRAMS = [
    one_loss,
    sum_of_losses,
    with_an_intermediate_result,
    with_another_result,
    by_grad,
    with_a_leaf,
    view_of_one,
]


def told(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except RuntimeError as error:
        return str(error).partition(" (or directly")[0]


def asked(results: tuple[Any, ...], x: torch.Tensor, w: torch.Tensor) -> list[Any]:
    """What each way to ask for a further pass from the first result gives."""
    loss = results[0].sum()
    out = [told(loss.backward)]
    others = [t for t in results[1:] if t.requires_grad]
    for to in (x, w, [x, w], *others):
        for unused in (False, True):
            out.append(told(lambda to=to, unused=unused: torch.autograd.grad(loss, to, allow_unused=unused)))
    return out


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_further_pass_raises_as_in_eager(program: Callable[..., Any]) -> None:
    compiled = vesta.compile(program, options=OPTIONS, fullgraph=True)
    for _ in range(2):
        found = []
        for call in (program, compiled):
            x = torch.arange(1.0, 4).requires_grad_()
            w = torch.arange(2.0, 5).requires_grad_()
            results = call(x, w)
            results = results if isinstance(results, tuple) else (results,)
            found.append([*asked(results, x, w), x.grad, w.grad])
        for ours, eager in zip(*reversed(found), strict=True):
            assert isinstance(ours, str) == isinstance(eager, str)
            if isinstance(ours, str):
                assert ours == eager
            else:
                torch.testing.assert_close(ours, eager)
        assert TWICE in found[1]


def test_what_the_loss_does_not_depend_on_is_unused() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> Any:
        loss = x.exp().sum()
        loss.backward()
        return loss, w * 2

    compiled = vesta.compile(program, options=OPTIONS, fullgraph=True)
    for call in (program, compiled):
        x, w = (torch.ones(3, requires_grad=True) for _ in range(2))
        loss, other = call(x, w)
        assert torch.autograd.grad(loss, w, allow_unused=True) == (None,)
        assert torch.autograd.grad(loss, other, allow_unused=True) == (None,)
        with pytest.raises(RuntimeError, match=TWICE):
            torch.autograd.grad(loss, x)


def test_a_pass_that_keeps_its_graph_may_be_repeated() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        loss = x.exp().sum()
        loss.backward(retain_graph=True)
        return loss

    compiled = vesta.compile(program, options=OPTIONS, fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    (g,) = torch.autograd.grad(compiled(x), x)
    torch.testing.assert_close(g, x.exp().detach())
