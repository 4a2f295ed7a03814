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


def _sums(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1)


def _joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y])


def _conjugated(z: torch.Tensor) -> torch.Tensor:
    return z.conj().resolve_conj()


def _as_real(z: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(z) + 0.0


SHOWN: dict[str, tuple[Callable[..., torch.Tensor], int, torch.dtype]] = {
    "copy": (lambda x: x.clone(), 1, torch.float32),
    "sum of two": (lambda x, y: x + y, 2, torch.float32),
    "joined": (_joined, 2, torch.float32),
    "stacked": (lambda x, y: torch.stack([x, y], 2), 2, torch.float32),
    "sum": (lambda x: x.sum(), 1, torch.float32),
    "sums of rows": (_sums, 1, torch.float32),
    "transposed": (lambda x: x.t().contiguous(), 1, torch.float32),
    "conjugated": (_conjugated, 1, torch.complex64),
    "as real": (_as_real, 1, torch.complex64),
}


@pytest.mark.parametrize("expanded", [False, True], ids=["dense", "expanded"])
@pytest.mark.parametrize("name", SHOWN)
def test_gradients_that_show_the_tangent(name: str, expanded: bool) -> None:
    """Values, strides and shared memory are eager's, and what backward() leaves in `.grad`."""
    program, count, dtype = SHOWN[name]
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(4, 5, dtype=dtype, generator=generator).requires_grad_() for _ in range(count)]
    found = []
    for call in (program, vesta.compile(program, options=OPTIONS)):
        y = call(*inputs)
        tangent = torch.full((), 2.0, dtype=y.dtype).expand(y.shape) if expanded else torch.ones_like(y) * 3
        gradients = torch.autograd.grad(y, inputs, tangent)
        shares = [g.untyped_storage().data_ptr() == tangent.untyped_storage().data_ptr() for g in gradients]
        call(*inputs).backward(tangent)
        leaves = [x.grad.clone() for x in inputs if x.grad is not None]
        for x in inputs:
            x.grad = None
        # Of an expanded tangent in another type, a copy is made.
        found.append(
            (gradients, leaves, None if expanded else shares, None if expanded else [g.stride() for g in gradients])
        )
    eager, ours = found
    for a, b in zip(eager[0] + tuple(eager[1]), ours[0] + tuple(ours[1]), strict=True):
        torch.testing.assert_close(b, a, rtol=0, atol=0)
    assert ours[2:] == eager[2:]


def test_results_that_save_nothing_have_passes_of_their_own() -> None:
    """Those of unbind share a node of autograd's graph, which no pass frees."""
    found = []
    for call in (lambda x: torch.unbind_copy(x), vesta.compile(lambda x: torch.unbind_copy(x), options=OPTIONS)):
        x = torch.ones(4, 3, requires_grad=True)
        rows = call(x)
        first = [torch.autograd.grad(row.sum(), x)[0] for row in rows[:2]]
        last = torch.autograd.grad([row.square().sum() for row in rows[2:]], x, create_graph=True)[0]
        found.append([*first, last.detach(), torch.autograd.grad(sum(row.sum() for row in rows), x)[0]])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=0, atol=0)
