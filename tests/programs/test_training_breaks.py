"""What ends graphs in the steps of a training: the results are eager's, and each break says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

import vesta

OPTIONS = {"only_if_faster": False}
Step = Callable[[torch.Tensor], Any]


def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def assigned_data() -> tuple[Any, Step]:
    model = net()
    weight = model[0].weight

    def step(x: torch.Tensor) -> torch.Tensor:
        weight.data = weight.detach() * 0.9
        return model(x).sum()

    return model, step


def scaled_gradients() -> tuple[Any, Step]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return model, step


def outcome(model: Any, step: Step) -> Any:
    told = []
    for turn in range(4):
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(turn))
        result = step(x)
        leaves = [(p, p.grad, p.requires_grad) for p in (x, *model.parameters())]
        told.append(tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, (result, leaves)))
    return told


CASES = [
    (assigned_data, "gradients are recorded for a tensor whose data the program has replaced", 1),
    (scaled_gradients, "aten::item needs the value of a tensor", 1),
]


@pytest.mark.parametrize(("make", "why", "count"), CASES, ids=[make.__name__ for make, _, _ in CASES])
def test_is_eagers(make: Callable[[], tuple[Any, Step]], why: str, count: int) -> None:
    expected = outcome(*make())
    model, step = make()
    compiled = vesta.compile(step, options=OPTIONS)
    torch.testing.assert_close(outcome(model, compiled), expected)
    breaks = vesta.explain(compiled).explanation.breaks
    places = {(b.where.file, b.where.line) for b in breaks if why in b.reason}
    assert len(places) == count, [b.reason for b in breaks]
    assert all(why in b.reason for b in breaks), [b.reason for b in breaks]


def test_a_break_in_a_loop_over_parameters_leaves_what_comes_before_whole() -> None:
    """The generator of zero_grad() is gone when the loop makes its own, which may be at the same address."""

    def make() -> tuple[Any, Step]:
        model = net()

        def step(x: torch.Tensor) -> torch.Tensor:
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            for p in model.parameters():
                if p.grad.norm() > 0.1:
                    p.grad.mul_(0.5)
            return loss.detach()

        return model, step

    expected = outcome(*make())
    model, step = make()
    compiled = vesta.compile(step, options=OPTIONS)
    torch.testing.assert_close(outcome(model, compiled), expected)
    explanation = vesta.explain(compiled).explanation
    assert {b.where.text for b in explanation.breaks} == {"for p in model.parameters():", "if p.grad.norm() > 0.1:"}
    assert any("aten::mm" in g.ops and g.where.text.startswith("def step") for g in explanation.graphs)


def test_the_scale_is_a_number() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(()))
    scale = vesta.compile(lambda: (scaler.get_scale(), scaler.state_dict()), options=OPTIONS)
    for _ in range(2):
        assert type(scale()[0]) is float
        assert scale() == (8.0, scaler.state_dict())
