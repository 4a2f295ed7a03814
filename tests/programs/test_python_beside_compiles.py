"""A compile in the background leaves Python its speed: it takes one thread of a low priority, and no GIL."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest
import torch

import vesta

WINDOW_S, COMPILES, WINDOWS = 0.01, 6, 40


def loops() -> int:
    """How often a loop of Python code runs within a window."""
    end, count = time.perf_counter() + WINDOW_S, 0
    while time.perf_counter() < end:
        count += 1
    return count


def program(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Thirty kernels of its own."""

    def f(x: torch.Tensor) -> torch.Tensor:
        for i in range(30):
            x = (x * (100 * number + i + 0.5)).softmax(-1).sin()
        return x

    return f


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.kernels
def test_python_runs_at_95_percent_of_its_speed() -> None:
    x = torch.randn(64, 256)
    idle: list[int] = []
    busy: list[int] = []
    for i in range(COMPILES):
        idle += [loops() for _ in range(WINDOWS)]
        compiled = vesta.compile(program(i), options={"background": True, "cache": False})
        torch.testing.assert_close(compiled(x), program(i)(x))  # returns after the trace
        while not vesta.wait(timeout=0):
            busy.append(loops())
    assert len(busy) > 20, "the compiles were too short to be measured"
    ratio = statistics.median(busy) / statistics.median(idle)
    print(f"{ratio:.3f} of the speed without compiles, in {len(busy)} windows")
    assert ratio >= 0.95
