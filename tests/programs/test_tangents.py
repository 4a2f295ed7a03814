"""What a backward pass brings to a compiled program: sparse gradients, many at once, those of hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import vesta

OPTIONS = {"only_if_faster": False}
Program = Callable[[torch.Tensor], torch.Tensor]


def both(program: Program) -> tuple[Program, Program]:
    return program, vesta.compile(program, options=OPTIONS)


def table(seed: int = 0) -> torch.Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)).requires_grad_()


INDICES = torch.tensor([[1, 2], [3, 1]])


@pytest.mark.parametrize("program", [lambda w: w * 2, lambda w: w + 0.0], ids=["scaled", "copied"])
def test_sparse_gradients_stay_sparse(program: Program) -> None:
    found = []
    for call in both(program):
        w = table()
        F.embedding(INDICES, call(w), sparse=True).square().sum().backward()
        assert w.grad is not None and w.grad.layout == torch.sparse_coo
        found.append(w.grad.to_dense())
    torch.testing.assert_close(found[1], found[0])


def test_a_sparse_gradient_of_a_program_that_draws() -> None:
    """It cannot run again, so the gradient becomes dense: as numbers it is eager's."""

    def program(w: torch.Tensor) -> torch.Tensor:
        return w * torch.rand_like(w)

    found = []
    for call in both(program):
        w = table()
        torch.manual_seed(2)
        F.embedding(INDICES, call(w), sparse=True).square().sum().backward()
        assert w.grad is not None
        found.append(w.grad.to_dense())
    torch.testing.assert_close(found[1], found[0])


BATCHED: dict[str, Callable[[Program, torch.Tensor], Any]] = {
    "grad": lambda call, x: torch.autograd.grad(
        call(x), x, torch.eye(4)[:, None].expand(4, 6, 4), is_grads_batched=True
    ),
    "jacobian": lambda call, x: torch.autograd.functional.jacobian(call, x, vectorize=True),
    "jacrev": lambda call, x: torch.func.jacrev(call)(x),
    "grad-of-grad": lambda call, x: torch.autograd.functional.hessian(lambda t: call(t).sum(), x),
    "per-sample": lambda call, x: torch.func.vmap(torch.func.grad(lambda t: call(t).sum()))(x),
    "forward": lambda call, x: torch.func.jvp(call, (x,), (torch.ones_like(x),)),
}


@pytest.mark.parametrize("name", BATCHED)
def test_many_tangents_at_once(name: str) -> None:
    eager, ours = (BATCHED[name](call, table()) for call in both(lambda x: x.sin() * x.exp()))
    torch.testing.assert_close(ours, eager)


def test_many_tangents_of_a_program_that_draws_are_refused() -> None:
    compiled = vesta.compile(lambda x: x * torch.rand_like(x), options=OPTIONS)
    x = table()
    with pytest.raises(NotImplementedError, match="many tangents at once"):
        torch.autograd.grad(compiled(x), x, torch.ones(3, 6, 4), is_grads_batched=True)


def test_tangents_of_hooks() -> None:
    """Hooks outside change what comes in: its layout, its sign bit, its elements."""
    changes: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda g: g.t().contiguous().t() * 3,
        lambda g: torch._neg_view(g),
        lambda g: g[:1, :1].expand(6, 4),
        lambda g: torch.zeros_like(g),
    ]
    program, compiled = both(lambda x: x.sin() * 2)
    for change in changes:
        found = []
        for call in (program, compiled):
            x = table()
            y = call(x)
            y.register_hook(change)
            (y * y).sum().backward()
            found.append(x.grad)
        torch.testing.assert_close(found[1], found[0])
