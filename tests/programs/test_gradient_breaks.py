"""Programs whose gradients have no graph, or formulas of Vesta's own."""

from __future__ import annotations

import pytest
import torch

import vesta
from tests.programs.test_training_graphs import Program, loss_of, numbers, strictly


def products(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() * 2
    y = y.cumprod(1)
    return y.exp() * x.sum(0)


def products_in_a_function(x: torch.Tensor) -> torch.Tensor:
    def inner(t: torch.Tensor) -> torch.Tensor:
        return (t * 2).cumprod(0).cos()

    return inner(x.tanh()).exp()


def twice(x: torch.Tensor) -> torch.Tensor:
    return (x.cumprod(0) + 1).exp() * (x * 2).cumprod(0).sin()


@pytest.mark.parametrize("function", [products, products_in_a_function, twice])
def test_a_formula_that_needs_values_is_a_break(function: Program):
    compiled = vesta.compile(function)
    for _ in range(2):
        x, plain = (numbers(3, 4, dtype=torch.float64)() for _ in range(2))
        y, expected = compiled(x), function(plain)
        torch.testing.assert_close(y, expected)
        y.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(x.grad, plain.grad)
    (captured, *_) = vesta.explain(compiled).explanation.captures
    assert {b.name for b in captured.breaks} == {"operator-not-traced"}
    assert "aten::cumprod" in captured.breaks[0].reason and "needs the value" in captured.breaks[0].reason
    assert captured.graphs and not captured.skipped and not captured.fallbacks


def extremes(x: torch.Tensor) -> torch.Tensor:
    y = x.round()
    return (
        y.max() * x.min()
        + y.median()
        + torch.cat([x, x.detach() * torch.nan]).nanmedian()
        + x.abs().sqrt().mul(2).max()
    )


def factors(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    zeros = x * torch.tensor([[1.0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 0, 1]])
    return (
        zeros.prod(1),
        zeros.prod(),
        zeros[:2].prod(),
        x.prod(0, keepdim=True),
        x[:, :1].prod(1),
        x[:0].prod(0),
        x.sum().prod(),
    )


@pytest.mark.parametrize("function", [extremes, factors])
def test_formulas_of_ours(function: Program):
    """PyTorch's read values."""
    compiled = strictly(function)
    x, plain = (numbers(3, 4, dtype=torch.float64)() for _ in range(2))
    for t, f in ((x, compiled), (plain, function)):
        loss_of([*y] if isinstance(y := f(t), tuple) else [y]).backward()
    torch.testing.assert_close(x.grad, plain.grad)


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_the_gradient_of_a_product_has_a_gradient(zeros: int):
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * x.prod(1, keepdim=True)).sum()

    compiled = strictly(function)
    x, plain = (numbers(3, 4, dtype=torch.float64)() for _ in range(2))
    for t, f in ((x, compiled), (plain, function)):
        with torch.no_grad():
            t[1, :zeros] = 0
        (gradient,) = torch.autograd.grad(f(t), t, create_graph=True)
        (gradient * torch.arange(12.0, dtype=torch.float64).view(3, 4)).sum().backward()
    torch.testing.assert_close(x.grad, plain.grad)


def test_such_a_break_is_an_error_for_a_whole_graph():
    with pytest.raises(vesta.errors.GraphBreak, match="the gradient of aten::cumprod cannot be traced"):
        vesta.compile(products, fullgraph=True)(numbers(3, 4)())


def test_a_view_of_the_callers_that_is_written():
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = y.sin() * 2
        x.mul_(z)
        return (x * z).exp()

    found = []
    compiled = vesta.compile(function)
    for f in (function, compiled, compiled):
        leaf, y = numbers(2, 4)(), numbers(4, seed=1)()
        whole = leaf * 2
        out = f(whole[0], y)
        (out.sum() + (whole * whole).sum()).backward()
        found.append([out.detach(), leaf.grad, y.grad])
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])
    (captured, *_) = vesta.explain(compiled).explanation.captures
    assert "a view that the caller made is written" in captured.breaks[0].reason
