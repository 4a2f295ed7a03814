"""Recompiles take a share of the time of a function's calls; a call whose compile would exceed it runs eager."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import vesta
from tests.capture.test_step_aside import report
from vesta import _C

SLOW = 2.1  # seconds that the second compile takes: more than what is not counted
REASON = "the option recompile_share"
WAYS: dict[str, dict[str, Any]] = {
    "large share": {"options": {"recompile_share": 40}},
    "no bound": {"options": {"recompile_share": -1}},
    "fullgraph": {"fullgraph": True},
    "strict": {"options": {"strict": True}},
    "warm-up": {},
    "background": {"options": {"background": True}},
    "reset": {},
}


def program(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() + 1).sum(-1)


def check(compiled: vesta.Compiled, size: int) -> None:
    x = torch.randn(size, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), program(x))


def put_off(compiled: vesta.Compiled) -> int:
    return sum(f.count for f in report(compiled).fallbacks if REASON in f.reason)


def graphs(compiled: vesta.Compiled) -> int:
    return len(report(compiled).graphs)


def twice(compiled: vesta.Compiled, size: int) -> None:
    for _ in range(2):  # a compile in the background serves the second call
        check(compiled, size)
        assert vesta.wait(compiled)


@pytest.fixture(scope="module")
def compiled() -> Iterator[dict[str, vesta.Compiled]]:
    """Functions that have two graphs: the first was compiled in milliseconds, the second slowly, and at once."""
    made = {name: vesta.compile(program, dynamic=False, **how) for name, how in WAYS.items()}
    for c in made.values():
        twice(c, 1)
    _C.inject_fault("plan", "delay", SLOW)
    threads = [threading.Thread(target=twice, args=(c, 2)) for c in made.values()]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    _C.inject_fault("plan", "none")
    for c in made.values():
        assert graphs(c) == 2 and put_off(c) == 0
    yield made
    assert vesta.wait(timeout=60)


def test_a_recompile_waits_until_calls_have_taken_enough_time(compiled: dict[str, vesta.Compiled]) -> None:
    f = compiled["large share"]
    for _ in range(3):
        check(f, 3)
    assert graphs(f) == 2 and put_off(f) == 3
    assert "4000 % of the time of its calls" in str(report(f))
    assert any(REASON in reason for reason in vesta.stats().as_dict()["fallbacks"])
    check(f, 2)  # calls of this size find a variant
    assert put_off(f) == 3
    end = time.perf_counter() + 0.5
    x = torch.randn(2, 8)
    with torch.no_grad():
        while time.perf_counter() < end:
            f(x)
    check(f, 3)
    assert graphs(f) == 3 and put_off(f) == 3


@pytest.mark.parametrize("way", ["no bound", "fullgraph", "strict"])
def test_without_a_bound(compiled: dict[str, vesta.Compiled], way: str) -> None:
    check(compiled[way], 3)
    assert graphs(compiled[way]) == 3 and put_off(compiled[way]) == 0


def test_a_warm_up_has_no_bound(compiled: dict[str, vesta.Compiled]) -> None:
    f = compiled["warm-up"]
    with torch.no_grad():
        vesta.warm(f, [torch.randn(3, 8)])
    check(f, 3)
    assert graphs(f) == 3 and put_off(f) == 0
    check(f, 4)
    assert put_off(f) == 1


def test_compiles_in_the_background_count(compiled: dict[str, vesta.Compiled]) -> None:
    check(compiled["background"], 3)
    assert graphs(compiled["background"]) == 2 and put_off(compiled["background"]) == 1


def test_reset_forgets_the_account(compiled: dict[str, vesta.Compiled]) -> None:
    f = compiled["reset"]
    check(f, 3)
    assert put_off(f) == 1
    object.__getattribute__(f, "_vesta_call").reset()
    check(f, 1)
    check(f, 3)
    assert graphs(f) == 2 and put_off(f) == 0
