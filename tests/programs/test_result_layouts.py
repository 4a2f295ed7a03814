"""Gradients of results whose elements share memory or lie apart: each element has a gradient of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import vesta

OPTIONS = {"only_if_faster": False}

PROGRAMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "windows": (lambda x: x.sin().unfold(0, 3, 1), (8,)),
    "windows-of-an-input": (lambda x: x.unfold(0, 3, 1), (8,)),
    "expanded": (lambda x: x.sin()[:, None].expand(-1, 3), (8,)),
    "expanded-rows": (lambda x: x.sin().expand(4, -1, -1), (2, 3)),
    "expanded-number": (lambda x: x.sin().sum().expand(3), (8,)),
    "expanded-input": (lambda x: x[:, None].expand(-1, 3), (8,)),
    "overlapping": (lambda x: x.sin().as_strided((3, 3), (1, 1)), (8,)),
    "broadcast": (lambda x: torch.broadcast_tensors(x.sin(), torch.zeros(3, 8))[0], (8,)),
    "columns": (lambda x: x.sin()[:, ::2], (4, 6)),
    "transposed-columns": (lambda x: x.sin()[:, 1:4].t(), (4, 6)),
    "diagonal": (lambda x: x.sin().diagonal(), (5, 5)),
}


def gradients(call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, kind: str) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    y = call(x)
    g = torch.Generator().manual_seed(4)
    tangent = torch.randn(y.shape, generator=g)
    if kind == "expanded":
        tangent = torch.randn((), generator=g).expand(y.shape)
    if kind == "laid-out-as-the-result":
        tangent = torch.empty_strided(y.size(), y.stride()).copy_(tangent) if kind_fits(y) else tangent
    y.backward(tangent)
    assert x.grad is not None
    return [y.detach(), x.grad]


def kind_fits(y: torch.Tensor) -> bool:
    return all(stride > 0 for stride in y.stride())


@pytest.mark.parametrize("kind", ["contiguous", "expanded", "laid-out-as-the-result"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient(name: str, kind: str) -> None:
    program, size = PROGRAMS[name]
    compiled = vesta.compile(program, options=OPTIONS)
    for seed in range(2):
        x = torch.randn(size, generator=torch.Generator().manual_seed(seed))
        for ours, eager in zip(gradients(compiled, x, kind), gradients(program, x, kind), strict=True):
            assert ours.stride() == eager.stride()
            torch.testing.assert_close(ours, eager)
    assert vesta.explain(compiled).explanation.breaks == []


SIZED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expanded": lambda x: x.sin()[:, None].expand(-1, 3, -1),
    "permuted": lambda x: x.sin().view(1, -1, 2, 2).transpose(1, 2),
    "permuted-from-columns": lambda x: x.sin().t()[None],
    "one-row": lambda x: x.sin()[:, None, :].transpose(0, 1),
    "columns": lambda x: x.sin()[:, 1:],
    "rows": lambda x: x.sin()[1:].t(),
    "two-results": lambda x: torch.stack([x.sin(), x.cos()]).permute(1, 0, 2),
}


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("name", SIZED)
def test_gradient_with_other_sizes(name: str, dynamic: bool | None) -> None:
    compiled = vesta.compile(SIZED[name], dynamic=dynamic, options=OPTIONS)
    for rows in (4, 5, 6, 2, 1):
        x = torch.randn(rows, 4)
        for kind in ("contiguous", "expanded", "laid-out-as-the-result"):
            for ours, eager in zip(gradients(compiled, x, kind), gradients(SIZED[name], x, kind), strict=True):
                torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("dynamic", [True, None])
def test_heads_after_a_break_with_other_sizes(dynamic: bool | None) -> None:
    """The tangents of a graph come from the next graph: those of attention's permuted queries and keys."""
    weight = torch.randn(16, 16, generator=torch.Generator().manual_seed(5)) * 0.2

    def program(x: torch.Tensor) -> torch.Tensor:
        q, k = ((x @ w).view(1, -1, 4, 4).transpose(1, 2) for w in (weight, weight.t()))
        if float(q.detach().sum()) > 1e9:  # a graph break
            return q
        scores = (q @ k.transpose(-1, -2)).softmax(-1)
        return (scores @ k).transpose(1, 2).reshape(-1, 16)

    compiled = vesta.compile(program, dynamic=dynamic, options=OPTIONS)
    for rows in (4, 5, 7, 3):
        x = torch.randn(rows, 16)
        for ours, eager in zip(gradients(compiled, x, ""), gradients(program, x, ""), strict=True):
            torch.testing.assert_close(ours, eager)
    assert vesta.explain(compiled).explanation.breaks


def test_an_expanded_result_goes_into_a_loss_outside() -> None:
    """F.ctc_loss is a call outside of the graph; its argument is expanded inside."""

    def scores(x: torch.Tensor) -> torch.Tensor:
        return x.log_softmax(-1)[:, None].expand(-1, 2, -1)

    targets = torch.tensor([[1, 2], [3, 1]])
    found = []
    for call in (scores, vesta.compile(scores, options=OPTIONS)):
        x = torch.randn(6, 6, generator=torch.Generator().manual_seed(2)).requires_grad_()
        F.ctc_loss(call(x), targets, (6, 6), (2, 2)).backward()
        found.append(x.grad)
    torch.testing.assert_close(found[1], found[0])
