"""Breaks inside of a loop over a dict: the loop is left where the break is, also at the last item."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import vesta


class ReadsAValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()


@pytest.mark.parametrize("at", [0, 1, 2])
def test_sequential_is_left_in_the_layer_that_breaks(at: int) -> None:
    layers: list[Any] = [nn.Linear(4, 4), nn.Linear(4, 4)]
    layers.insert(at, ReadsAValue())
    model = nn.Sequential(*layers).eval()
    explainer = vesta.explain(vesta.compile(model))
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(2):
            explainer(x)
            torch.testing.assert_close(explainer.result, model(x))
    assert not [b.reason for b in explainer.explanation.breaks if b.name == "not-rebuilt"]
    # The layers before the one that breaks are one graph with what this one does before it breaks, or with the loop.
    assert any(g.ops.get("aten::linear", 0) == at for g in explainer.explanation.graphs)
