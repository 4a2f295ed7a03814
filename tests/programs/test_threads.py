"""Threads that run one compiled function, whose kernels are split over threads, while others are compiled."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.programs.threads import in_threads


def test_results_do_not_depend_on_who_else_runs_and_compiles():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64)).eval()
    x, index = torch.randn(512, 64), torch.randint(0, 50, (512,))
    large = torch.randn(1024, 512)

    # Kernels split over rows and over columns, a reduction in chunks, additions where places collide, a scratch row.
    def program(x: torch.Tensor, index: torch.Tensor, large: torch.Tensor) -> list[torch.Tensor]:
        rows = torch.softmax(model(x), -1)
        sums = torch.zeros(50, 64).index_add(0, index, rows)
        return [rows, sums, rows.sum(0) + rows.amax(0), large.square().sum(), large.cumsum(0), large.t() + 1]

    shared = vesta.trace_and_compile(program, strict=True)
    with torch.no_grad():
        alone = [t.clone() for t in shared(x, index, large)]
        for ours, eager in zip(alone, program(x, index, large), strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)

    def work(n: int) -> None:
        with torch.no_grad():
            for i in range(60):
                for together, before in zip(shared(x, index, large), alone, strict=True):
                    assert torch.equal(together, before)
                if i % 3 == n:
                    own = vesta.trace_and_compile(lambda t, k=2 * i + n: torch.relu(t).sum(-1) * k + n, strict=True)
                    y = torch.randn(300 + i, 64)
                    torch.testing.assert_close(own(y), torch.relu(y).sum(-1) * (2 * i + n) + n)

    in_threads(2, work)


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_threads_train_through_one_function(rounds: int):
    """Each has a model of its own; the first step of each may compile."""

    def function(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return m(x).tanh().square().sum()

    models = [nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)) for _ in range(6)]

    def train(call: Callable[..., Any], i: int) -> list[torch.Tensor]:
        m = copy.deepcopy(models[i])
        optimizer = torch.optim.SGD(m.parameters(), 0.05)
        for step in range(12):
            optimizer.zero_grad()
            call(m, torch.randn(6, 8, generator=torch.Generator().manual_seed(step))).backward()
            optimizer.step()
        return [p.detach() for p in m.parameters()]

    plain = [train(function, i) for i in range(6)]
    for _ in range(rounds):
        compiled = vesta.compile(function)
        found: dict[int, list[torch.Tensor]] = {}
        in_threads(6, lambda i, call=compiled, found=found: found.update({i: train(call, i)}))
        for i in range(6):
            torch.testing.assert_close(found[i], plain[i], rtol=1e-4, atol=1e-5)
