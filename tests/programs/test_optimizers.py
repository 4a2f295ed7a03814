"""Compiled optimizer steps: numbers, graph breaks, recompiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vesta
from tests.programs.optimizer_steps import OPTIMIZERS, Pair, grid, has_foreach

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
