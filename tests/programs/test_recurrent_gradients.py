"""Gradients of weights that a loop uses in each step are one product, not one for each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.programs.test_estimate import allocated, in_new_thread

STEPS, BATCH, WIDTH = 12, 4, 96
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}

pytestmark = pytest.mark.kernels


class Loop(nn.Module):
    def __init__(self, cell: str) -> None:
        super().__init__()
        self.cell = CELLS[cell](WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state: Any = None
        for step in x:
            state = self.cell(step, state)
        return (state[0] if isinstance(state, tuple) else state).square().mean()


def gradients(model: nn.Module, f: Callable[..., torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    f(x).backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradients_are_eagers(cell: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Loop(cell).to(dtype), torch.randn(STEPS, BATCH, WIDTH, dtype=dtype)
    compiled = vesta.compile(model, options={"cache": False})
    expected = gradients(model, model, x)
    exact = Loop(cell).to(torch.float64)
    exact.load_state_dict(model.state_dict())
    best = gradients(exact, exact, x.double())
    for _ in range(3):
        for ours, eager, right in zip(gradients(model, compiled, x), expected, best, strict=True):
            error, allowed = ((t - right).abs().max() for t in (ours, eager))
            scale = right.abs().max() * torch.finfo(dtype).eps
            assert error <= 2 * allowed + 8 * scale


@pytest.mark.parametrize("cell", CELLS)
def test_no_product_for_each_step(cell: str) -> None:
    model, x = Loop(cell), torch.randn(STEPS, BATCH, WIDTH)
    compiled = vesta.compile(model, options={"cache": False, "only_if_faster": False})
    for _ in range(2):
        gradients(model, compiled, x)
    (graph,) = vesta.explain(compiled).explanation.captures[0].graphs
    (backward,) = graph.backward
    ops = [e.op for e in backward.externs] + [op for k in backward.kernels for op in k.ops]
    products = sum(op in ("aten::linear", "aten::mm", "aten::addmm", "mkldnn::_linear_pointwise") for op in ops)
    assert products < 2 * STEPS + 4  # two of each step give the gradients of its inputs, and one that of each weight


@pytest.mark.parametrize("cell", CELLS)
def test_the_peak_is_not_above_eagers(cell: str) -> None:
    model, x = Loop(cell), torch.randn(STEPS, BATCH, WIDTH)
    compiled = vesta.compile(model, options={"cache": False, "only_if_faster": False})

    def peak(f: Callable[..., torch.Tensor]) -> int:
        def measured() -> int:
            for _ in range(3):
                gradients(model, f, x)
            model.zero_grad()
            return allocated(lambda: gradients(model, f, x))[1]

        most: int = in_new_thread(measured)
        return most

    assert peak(compiled) <= peak(model)
