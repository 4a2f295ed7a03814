"""Losses that PyTorch computes by writing to a tensor whose size it changes."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import vesta

OPTIONS = {"only_if_faster": False}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("target_type", [torch.float32, torch.int64])
def test_soft_margin_is_one_graph_for_all_sizes(reduction: str, target_type: torch.dtype) -> None:
    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.soft_margin_loss(x, y, reduction=reduction)

    compiled = vesta.compile(loss, options=OPTIONS, fullgraph=True)
    for n in (4, 5, 6, 7, 9):
        x, y = torch.randn(n, 3) * 40, torch.randint(2, (n, 3)).mul(2).sub(1).to(target_type)
        found = []
        for call in (loss, compiled):
            z = x.clone().requires_grad_()
            result = call(z, y)
            result.sum().backward()
            found.append((result, z.grad))
        torch.testing.assert_close(found[1], found[0], equal_nan=True)
    graphs = vesta.explain(compiled).explanation.graphs
    assert sorted(g.hits for g in graphs) == [1, 4]  # the first call's sizes, and all others


def test_soft_margin_in_the_layout_of_its_arguments() -> None:
    compiled = vesta.compile(functional.soft_margin_loss, options=OPTIONS, fullgraph=True)
    x, y = torch.randn(3, 4, 5), torch.randn(5, 4, 3).sign().permute(2, 1, 0)
    for given in (x, x.transpose(0, 1).contiguous().transpose(0, 1), x.permute(2, 0, 1).contiguous().permute(1, 2, 0)):
        found = []
        for call in (functional.soft_margin_loss, compiled):
            z = given.clone().requires_grad_()
            each = call(z, y, reduction="none")
            each.square().sum().backward()
            found.append((each, z.grad))
        torch.testing.assert_close(found[1], found[0])
        assert [t.stride() for t in found[1]] == [t.stride() for t in found[0]]


def test_second_derivative_of_soft_margin() -> None:
    def penalty(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x.requires_grad_() if not x.requires_grad else x
        (g,) = torch.autograd.grad(functional.soft_margin_loss(z, y), z, create_graph=True)
        return g.square().sum()

    compiled = vesta.compile(penalty, options=OPTIONS, fullgraph=True)
    for n in (4, 5, 6):
        x, y = torch.randn(n, 3).double(), torch.randn(n, 3).sign().double()
        found = []
        for call in (penalty, compiled):
            z = x.clone().requires_grad_()
            call(z, y).backward()
            found.append(z.grad)
        torch.testing.assert_close(found[1], found[0])


def test_a_tensor_of_any_size_shrinks() -> None:
    def shrink(x: torch.Tensor) -> torch.Tensor:
        return x.exp().resize_(2, 1)

    compiled = vesta.compile(shrink, options=OPTIONS, fullgraph=True)
    for n in (4, 5, 6, 2):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), shrink(x))
    assert len(vesta.explain(compiled).explanation.graphs) == 2
