"""The peak of memory of a training step, forward and backward, is at most eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vesta
from tests.ecosystem.training import batches_of, lively, loss_of
from tests.programs.test_estimate import allocated, in_new_thread
from tests.programs.zoo import ZOO
from vesta.child_process import in_child

pytestmark = pytest.mark.kernels


def peaks(name: str) -> tuple[int, int]:
    """Bytes of tensors and arenas in the fifth step, beside weights and inputs: eager's, and those of compiled code."""
    module = lively(ZOO[name].build())
    batch = batches_of(ZOO[name], module, torch.float32)(0)
    compiled = vesta.compile(module, options={"cache": False, "only_if_faster": False, "deadline_ms": -1})

    def peak(model: Callable[..., Any]) -> int:
        def step() -> None:
            loss_of(model, batch).backward()

        def measured() -> int:
            for _ in range(4):
                module.zero_grad()
                step()
            module.zero_grad()
            return allocated(step)[1]

        most: int = in_new_thread(measured)  # a new thread has a new arena
        return most

    return peak(module), peak(compiled)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_peak(name: str) -> None:
    ended = in_child(lambda _: peaks(name), 300)
    assert ended.how == "done", ended.why
    eager, ours = ended.value
    assert ours <= eager, f"{name}: {eager / 1e6:.2f} MB in eager, {ours / 1e6:.2f} compiled"
