"""Optimizers with fused=True: PyTorch's operator is part of the graph, and gives eager's numbers and states."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest
import torch
from torch import nn

import vesta

OPTIONS = {"only_if_faster": False}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "betas": (0.4, 0.9)}),
    ("Adam", {"maximize": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"amsgrad": True, "maximize": True, "weight_decay": 0.2}),
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("SGD", {"momentum": 0.8, "dampening": 0.3}),
    ("Adagrad", {}),
    ("Adagrad", {"weight_decay": 0.1, "lr_decay": 0.1, "maximize": True, "initial_accumulator_value": 0.1}),
]


class Training:
    """A training whose whole step is one function."""

    def __init__(self, kind: str, dtype: torch.dtype, tensor_rate: bool = False, scaled: bool = False, **options: Any):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 3)).to(dtype)
        self.rate = torch.tensor(0.01) if tensor_rate else 0.01
        self.optimizer = getattr(torch.optim, kind)(self.model.parameters(), lr=self.rate, fused=True, **options)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2) if scaled else None
        self.step = self.train

    def compile(self) -> Training:
        self.step = vesta.compile(self.train, options=OPTIONS)
        return self

    def train(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return loss.detach()

    def set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def told(self) -> Any:
        parameters = list(self.model.parameters())
        states = [{k: v for k, v in self.optimizer.state[p].items() if v is not None} for p in parameters]
        return parameters, [p.grad for p in parameters], states, self.scaler and self.scaler.state_dict()

    def explanation(self) -> Any:
        return vesta.explain(self.step).explanation


def batch(turn: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(5, 9, generator=torch.Generator().manual_seed(turn)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tensor_rate", [False, True])
@pytest.mark.parametrize(("kind", "options"), CASES)
def test_steps_are_eagers(kind: str, options: dict[str, Any], tensor_rate: bool, dtype: torch.dtype) -> None:
    """Also with other learning rates, whose first change compiles once more."""
    eager = Training(kind, dtype, tensor_rate, **options)
    compiled = Training(kind, dtype, tensor_rate, **options).compile()
    for turn in range(8):
        for each in (eager, compiled):
            if turn >= 3:
                each.set_rate(0.01 * 0.9**turn)
            each.step(batch(turn, dtype))
        torch.testing.assert_close(compiled.told(), eager.told())
    explanation = compiled.explanation()
    assert not explanation.breaks
    assert len(explanation.recompiles) <= (1 if tensor_rate else 2)  # the first step makes the states


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_the_scaler_skips_steps_inside_of_the_graph(kind: str) -> None:
    """The operator itself divides by the scale and skips a step with an infinite gradient; the counters tell."""
    momentum = {"momentum": 0.9} if kind == "SGD" else {}
    eager = Training(kind, torch.float32, scaled=True, **momentum)
    compiled = Training(kind, torch.float32, scaled=True, **momentum).compile()
    for turn in range(8):
        x = batch(turn, torch.float32)
        if turn in (3, 6):
            x[0, 0] = math.inf
        for each in (eager, compiled):
            each.step(x)
        torch.testing.assert_close(compiled.told(), eager.told(), equal_nan=True)
    assert not compiled.explanation().breaks


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Adagrad"])
def test_half_types_round_once_for_each_value(kind: str) -> None:
    torch.manual_seed(0)
    start, grads = torch.randn(50, dtype=torch.bfloat16), torch.randn(4, 50).bfloat16()

    def run(compiled: bool) -> Any:
        p = nn.Parameter(start.clone())
        optimizer = getattr(torch.optim, kind)([p], lr=0.1, weight_decay=0.1, fused=True)
        step = vesta.compile(optimizer.step, options=OPTIONS) if compiled else optimizer.step
        for g in grads:
            p.grad = g.clone()
            step()
        if compiled:
            assert not vesta.explain(step).explanation.breaks
        return p, [v for v in optimizer.state[p].values() if v is not None]

    torch.testing.assert_close(run(compiled=True), run(compiled=False))


def test_sgd_in_half_types_runs_eager() -> None:
    """PyTorch's kernel for a CPU gives other numbers than its formula from a vector's length on."""
    told = []
    for compiled in (False, True):
        torch.manual_seed(0)
        p = nn.Parameter(torch.randn(50, dtype=torch.bfloat16))
        optimizer = torch.optim.SGD([p], lr=0.1, fused=True)
        step = vesta.compile(optimizer.step, options=OPTIONS) if compiled else optimizer.step
        for _ in range(3):
            p.grad = torch.ones_like(p)
            step()
        told.append(p.detach())
    assert torch.equal(*told)
    assert any("half types on a CPU" in b.reason for b in vesta.explain(step).explanation.breaks)


def test_a_gradient_in_another_layout_runs_eager() -> None:
    """PyTorch's kernel goes through the memory of a parameter and its gradient side by side."""
    told = []
    for compiled in (False, True):
        torch.manual_seed(0)
        p = nn.Parameter(torch.randn(4, 5))
        p.grad = torch.randn(5, 4).t()
        optimizer = torch.optim.SGD([p], lr=0.1, fused=True)
        step = vesta.compile(optimizer.step, options=OPTIONS) if compiled else optimizer.step
        step()
        told.append(p.detach())
    assert torch.equal(*told)
    assert any("another type or layout" in b.reason for b in vesta.explain(step).explanation.breaks)


CYCLES: list[tuple[str, dict[str, Any]]] = [
    ("AdamW", {"fused": True}),
    ("AdamW", {"foreach": True}),
    ("Adam", {"fused": True, "amsgrad": True, "weight_decay": 0.1}),
    ("SGD", {"fused": True, "momentum": 0.9}),
    ("SGD", {"fused": True, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"foreach": True, "momentum": 0.9}),
]


@pytest.mark.parametrize(("kind", "options"), CYCLES)
def test_a_thousand_steps_of_a_scheduler_that_changes_all_numbers(kind: str, options: dict[str, Any]) -> None:
    """OneCycleLR changes the learning rate and the momentum, or the first of the betas, with each step."""
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        parameters = [nn.Parameter(torch.randn(3, 4, dtype=torch.float64)) for _ in range(2)]
        optimizer = getattr(torch.optim, kind)(parameters, lr=0.01, **options)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=1001)
        step = vesta.compile(optimizer.step, options=OPTIONS) if compiled else optimizer.step
        at = []
        for turn in range(1000):
            for p in parameters:
                p.grad = torch.sin(p.detach() * 3 + turn)
            step()
            scheduler.step()
            if turn % 100 == 99:
                at.append([p.detach().clone() for p in parameters])
        found.append((at, [dict(optimizer.state[p]) for p in parameters]))
    torch.testing.assert_close(found[1], found[0])
    explanation = vesta.explain(step).explanation
    assert not explanation.breaks
    assert len(explanation.recompiles) <= 2  # the first step makes the states, and the second finds other numbers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_weight_decay_that_changes_and_becomes_zero(dtype: torch.dtype) -> None:
    """Then the operator leaves it out: 0 times infinity is no number."""
    decays = [0.3, 0.2, 0.1, 0.0, 0.0, 0.2, 0.4]
    told = []
    for compiled in (False, True):
        training = Training("AdamW", dtype, weight_decay=0.3)
        if compiled:
            training.compile()
        for turn, decay in enumerate(decays):
            for group in training.optimizer.param_groups:
                group.update(weight_decay=decay, eps=1e-8 * (1 + turn), betas=(0.9 - 0.1 * turn, 0.99 - 0.01 * turn))
            training.step(batch(turn, dtype))
        told.append(training.told())
    torch.testing.assert_close(told[1], told[0])
    assert not training.explanation().breaks
    assert len(training.explanation().recompiles) <= 3


def test_changing_numbers_under_a_scaler() -> None:
    told = []
    for compiled in (False, True):
        training = Training("Adam", torch.float32, scaled=True)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(training.optimizer, max_lr=0.1, total_steps=20)
        if compiled:
            training.compile()
        for turn in range(12):
            x = batch(turn, torch.float32)
            if turn == 7:
                x[0, 0] = math.inf
            training.step(x)
            scheduler.step()
        told.append(training.told())
    torch.testing.assert_close(told[1], told[0], equal_nan=True)
    assert not training.explanation().breaks


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_after_dynamo_was_used(kind: str) -> None:
    """The first use of torch.compile disables the functions that call the operators, for Dynamo."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    compiled = Training(kind, torch.float32).compile()
    for turn in range(3):
        compiled.step(batch(turn, torch.float32))
    assert not compiled.explanation().breaks


def test_what_a_program_disables_stays_a_break(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("torch.optim.sgd")
    monkeypatch.setattr(module, "_fused_sgd", torch.compiler.disable(module._fused_sgd))
    compiled = Training("SGD", torch.float32).compile()
    compiled.step(batch(0, torch.float32))
    assert {"compiling-disabled"} & {b.name for b in compiled.explanation().breaks}
