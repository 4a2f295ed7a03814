"""Compiled optimizer steps: numbers, graph breaks, recompiles."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vesta
from tests.programs.optimizer_steps import OPTIMIZERS, Pair, grid, has_foreach, measure, parameters

# RAdam branches on the value that it computes of its step counter; ASGD, tensor by tensor, on its coefficient.
BREAKS = {("RAdam", False): {"tensor-value", "outer-iterator"}, ("RAdam", True): {"tensor-value", "outer-iterator"}}
BREAKS["ASGD", False] = {"tensor-value", "outer-iterator"}
CASES = [(name, foreach) for name in OPTIMIZERS for foreach in ((False, True) if has_foreach(name) else (False,))]


@pytest.mark.parametrize(("name", "foreach"), CASES)
def test_steps_are_eagers(name: str, foreach: bool) -> None:
    """Steps by the number rule, then 45 with other learning rates: the first change of the rate compiles once more."""
    within = torch.bfloat16 if name == "Muon" else None
    pair = Pair(OPTIMIZERS[name], 3, within, **({"foreach": foreach} if has_foreach(name) else {}))
    for _ in range(5):
        pair.run()
        assert pair.differences() == []
    seen = len(vesta.explain(pair.step).explanation.recompiles)
    for i in range(3):
        pair.set_lr(0.01 * 0.9**i)
        pair.run()
    assert pair.differences() == []
    for i in range(45):
        pair.set_lr(0.01 * 0.99**i)
        pair.step()
    explanation = vesta.explain(pair.step).explanation
    allowed = BREAKS.get((name, foreach), set())
    assert {b.name for b in explanation.breaks} == allowed
    if not allowed:
        assert seen <= 1  # the first step makes the states
        assert len(explanation.recompiles) - seen <= 1
        assert explanation.fallbacks == []


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_step_is_slower_than_eager(name: str) -> None:
    """Over each number of tensors. A ratio below 0.9 counts if a second measurement shows it too."""
    for row in grid([name]):
        again = row if row.ratio >= 0.9 else measure(row.name, row.count, row.foreach)
        assert again.ratio >= 0.9, f"{row}; {again}"


def test_a_thousand_steps_with_a_scheduler() -> None:
    pair = Pair(OPTIMIZERS["AdamW"], 2)
    schedulers = [torch.optim.lr_scheduler.CosineAnnealingLR(o, 1000) for o in pair.all]
    for o in pair.all:
        o.step()
    for i in range(1000):
        pair.step()
        pair.eager.step()
        for s in schedulers:
            s.step()
        if i == 3:
            seen = len(vesta.explain(pair.step).explanation.recompiles)
    assert len(vesta.explain(pair.step).explanation.recompiles) == seen
    for a, b in zip(pair.eager.param_groups[0]["params"], pair.compiled.param_groups[0]["params"], strict=True):
        torch.testing.assert_close(a, b)


def training_objects() -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return model, average, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def clip_and_step(model: Any, average: Any, optimizer: Any, scheduler: Any) -> torch.Tensor:
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    scheduler.step()
    with torch.no_grad():
        for a, p in zip(average.parameters(), model.parameters(), strict=True):
            a.lerp_(p, 0.1)
    optimizer.zero_grad()
    return norm


@torch.no_grad()
def clip_values_and_keep_gradients(model: Any, average: Any, optimizer: Any, scheduler: Any) -> torch.Tensor:
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad(set_to_none=False)
    return next(average.parameters()).sum()


@pytest.mark.parametrize("function", [clip_and_step, clip_values_and_keep_gradients])
def test_the_end_of_a_training_step(function: Callable[..., Any]) -> None:
    eager, compiled = training_objects(), training_objects()
    finish = vesta.compile(function, options={"only_if_faster": False})
    x = torch.randn(32, 8)
    for _ in range(8):
        for objects in (eager, compiled):
            objects[0](x).square().mean().backward()
        torch.testing.assert_close(finish(*compiled), function(*eager))
        for i in (0, 1):
            for p, q in zip(eager[i].parameters(), compiled[i].parameters(), strict=True):
                torch.testing.assert_close(q, p)
                torch.testing.assert_close(q.grad, p.grad)
        assert compiled[3].get_last_lr() == pytest.approx(eager[3].get_last_lr(), rel=1e-12)
    explanation = vesta.explain(finish).explanation
    assert explanation.breaks == []
    assert len(explanation.recompiles) <= 4


def test_gradients_are_read_again_in_each_call() -> None:
    """A new tensor, None, and a tensor again."""
    p = torch.nn.Parameter(torch.zeros(3))

    def double(p: torch.Tensor) -> torch.Tensor | None:
        return None if p.grad is None else p.grad.detach() * 2

    compiled = vesta.compile(double)
    for grad in (torch.ones(3), torch.full((3,), 2.0), None, torch.ones(3), None):
        p.grad = grad
        result = compiled(p)
        assert (result is None) == (grad is None)
        if grad is not None:
            torch.testing.assert_close(result, grad * 2)


def test_a_gradient_that_a_call_takes_away_is_there_while_it_is_traced_again() -> None:
    """The write is undone after the trace, and done once by the call."""
    p, x = torch.nn.Parameter(torch.zeros(3)), torch.ones(3)

    def take(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = x + p.grad
        p.grad = None
        return y if p.grad is None else x

    compiled = vesta.compile(take)
    for i in range(4):
        p.grad = torch.full((3,), float(i))
        torch.testing.assert_close(compiled(p, x), x + i)
        assert p.grad is None
    assert vesta.explain(compiled).explanation.breaks == []


@pytest.mark.parametrize(
    "scaled",
    [
        lambda x, y, s: x.add_(y, alpha=s),
        lambda x, y, s: torch.sub(x, y, alpha=s),
        lambda x, y, s: x.addcmul_(y, y, value=s),
        lambda x, y, s: torch.addcdiv(x, y, y + 2, value=s),
        lambda x, y, s: x.lerp_(y, s),
        lambda x, y, s: torch._foreach_mul([x, y], s),
        lambda x, y, s: torch._foreach_add([x, y], [y, x], alpha=s),
        lambda x, y, s: torch._foreach_addcdiv([x, y], [y, x], [y + 3, y + 4], [s, s * 2]),
        lambda x, y, s: torch._foreach_lerp([x, y], [y, x], s),
        lambda x, y, s: s ** x.sum(),
        lambda x, y, s: x.sum() * s,
    ],
)
def test_a_number_that_changes_is_an_operand(scaled: Callable[..., Any]) -> None:
    compiled = vesta.compile(scaled, options={"only_if_faster": False})
    for i in range(12):
        x, y, other = torch.rand(5), torch.rand(5), torch.rand(5)
        other.copy_(x)
        torch.testing.assert_close(compiled(other, y, 0.3 + 0.01 * i), scaled(x, y, 0.3 + 0.01 * i))
    explanation = vesta.explain(compiled).explanation
    assert explanation.breaks == []
    assert len(explanation.recompiles) == 1


def test_an_update_with_a_break_runs_as_a_whole() -> None:
    """No part of the function is a graph: its parts are small, and there may be hundreds."""
    step = vesta.compile(OPTIMIZERS["RAdam"](parameters(3)).step, options={"only_if_faster": False})
    for _ in range(3):
        step()
    functions = {graph.where.function for graph in vesta.explain(step).explanation.graphs}
    assert not any("tensor_radam" in f for f in functions), functions


def test_a_closure_of_an_optimizer_that_breaks_is_compiled() -> None:
    p = torch.nn.Parameter(torch.ones(64))
    optimizer = torch.optim.RAdam([p], lr=0.1)

    def closure() -> torch.Tensor:
        p.grad = torch.ones(64)
        return ((p.detach() * 2 + 1).sin() * 3).cos().sum()

    step = vesta.compile(lambda: optimizer.step(closure), options={"only_if_faster": False})
    for _ in range(3):
        step()
    explanation = vesta.explain(step).explanation
    assert any("aten::sin" in graph.ops for graph in explanation.graphs), [graph.ops for graph in explanation.graphs]


def test_after_dynamo_was_used() -> None:
    """The first use of torch.compile disables parts of optimizers for Dynamo."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    pair = Pair(OPTIMIZERS["SGD"], 3, None)
    for _ in range(4):
        pair.run()
    assert not vesta.explain(pair.step).explanation.breaks
    assert pair.differences() == []
