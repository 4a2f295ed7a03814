"""Parts of a function that are slower compiled run uncompiled; the parts around them stay compiled."""

from __future__ import annotations

import statistics
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vesta
from tests.capture.random_functions import Batch, run
from tests.capture.test_step_aside import report
from tests.programs.threads import in_threads
from vesta import _C

big, small = torch.randn(256, 64), torch.randn(4)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


class State:
    def __init__(self) -> None:
        self.count = 0
        self.items: dict[int, torch.Tensor] = {}
        self.trail: list[int] = []

    def seen(self) -> tuple[Any, ...]:
        return self.count, {k: v.tolist() for k, v in self.items.items()}, list(self.trail)


def heavy(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.nn.functional.gelu(x * 2 + 1) * x.sigmoid() - x.tanh(), -1)


def one_large_and_many_tiny(x: torch.Tensor, s: torch.Tensor, state: State) -> torch.Tensor:
    y = heavy(x)
    for i in range(20):
        print(end="")
        state.count += 1
        state.items[i % 3] = s.view(2, 2)
        state.trail.append(i)
        if len(state.trail) > 8:
            state.trail.clear()
    return y.sum()


def _large(compiled: object) -> Any:
    return max(report(compiled).graphs, key=lambda g: g.op_count)


@pytest.mark.kernels
def test_the_tiny_parts_run_uncompiled_and_the_large_one_compiled() -> None:
    compiled = vesta.compile(one_large_and_many_tiny)
    ours, theirs = State(), State()
    for _ in range(80):
        torch.testing.assert_close(
            compiled(big, small, ours), one_large_and_many_tiny(big, small, theirs), rtol=1e-4, atol=1e-3
        )
        assert ours.seen() == theirs.seen()
    before, large = report(compiled).hits, _large(compiled).hits
    for _ in range(20):
        compiled(big, small, ours)
    seen = report(compiled)
    assert seen.hits - before <= 20 * 20  # of more than 40 parts in each call
    assert _large(compiled).hits >= large + 10  # all but those that measure the whole call
    assert seen.slower and all("us uncompiled" in part.reason and part.runs > 0 for part in seen.slower)
    assert "Left to Python: parts that are slower compiled" in str(seen)


@pytest.mark.parametrize("options", [{"only_if_faster": False}, {"strict": True}])
def test_it_is_not_measured(options: dict[str, object]) -> None:
    compiled = vesta.compile(one_large_and_many_tiny, options=options)
    for _ in range(40):
        compiled(big, small, State())
    assert not report(compiled).slower and report(compiled).hits >= 39 * 20


def _left(f: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]) -> vesta.Compiled:
    """The function after so many calls that what is slower compiled runs uncompiled."""
    compiled = vesta.compile(f)
    for _ in range(40):
        compiled(*arguments())
    assert report(compiled).slower
    return compiled


def test_errors_are_handled_and_raised_where_eager_does() -> None:
    def f(s: torch.Tensor, log: list[Any], fails: int) -> torch.Tensor:
        y = heavy(big)
        for i in range(6):
            print(end="")
            try:
                log.append({"index": i, "twice": [i, i]})
                if i == fails % 10:
                    raise ValueError(i)
            except ValueError as error:
                log.append(str(error))
                if fails >= 10:
                    raise KeyError(fails) from error
            finally:
                log.append(len(log))
        return y.sum() + s.sum()

    compiled = _left(f, lambda: (small, [], 99))

    def outcome(function: Callable[..., Any], fails: int) -> tuple[Any, ...]:
        log: list[Any] = []
        try:
            function(small, log, fails)
        except KeyError as error:
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.name == "f"]
            return log, repr(error), repr(error.__cause__), lines
        return (log,)

    for fails in (99, 3, 99, 13, 0, 10, 99):
        assert outcome(compiled, fails) == outcome(f, fails), fails


def test_warnings_are_those_of_eager() -> None:
    def f(s: torch.Tensor) -> int:
        heavy(big)
        for i in range(6):
            print(end="")
            entry = {"index": i, "twice": [i, i]}
            warnings.warn(f"number {entry['index']}", stacklevel=1)
        return len(entry)

    compiled = _left(f, lambda: (small,))
    found = []
    for function in (compiled, f):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            function(small)
        found.append([(str(w.message), w.lineno) for w in given])
    assert found[0] == found[1] and len(found[0]) == 6


def test_threads_and_recursion() -> None:
    def f(s: torch.Tensor, log: list[Any], depth: int) -> torch.Tensor:
        for i in range(6):
            print(end="")
            log.append({"index": i, "twice": [i, i]})
        return compiled(s, log, depth - 1) if depth else s + len(log)

    compiled = vesta.compile(f)
    wrong = []

    def work(_: int) -> None:
        for _ in range(40):
            log: list[Any] = []
            with torch.no_grad():
                if not torch.equal(compiled(small, log, 2), small + 18):
                    wrong.append(True)

    in_threads(3, work)
    assert not wrong


def test_what_gains_for_other_sizes_stays_compiled_for_them() -> None:
    """Runs are measured apart by the signature of the local variables."""

    def f(x: torch.Tensor) -> torch.Tensor:
        print(end="")
        y = x.view(2, -1) if x.numel() < 100 else heavy(heavy(x))
        print(end="")
        return y.sum()

    compiled = vesta.compile(f)
    for _ in range(60):
        for x in (small, big):
            torch.testing.assert_close(compiled(x), f(x), rtol=1e-4, atol=1e-3)
    before = _large(compiled).hits
    for _ in range(20):
        compiled(big)
    assert _large(compiled).hits >= before + 10


def with_uncompiled_parts(function: Any) -> Any:
    """Compiled, but that each part runs uncompiled from its second run on, if the function has several."""
    _C.spoil("segment")
    return vesta.compile(function)


def differences(seeds: range) -> list[str]:
    """From eager, except for columns of tracebacks: where CPython has joined two instructions into one, its traceback
    has the column of the first, and ours that of the one that raised."""
    batches = [
        Batch(tuple(seeds[at : at + 50]), f"{__name__}:with_uncompiled_parts") for at in range(0, len(seeds), 50)
    ]
    return [
        f"seed {batch.program(at).seed}: {text}"
        for batch, at, text in run(batches, jobs=2)
        if text and ": exception: columns" not in text
    ]


def test_random_functions_whose_parts_run_uncompiled() -> None:
    assert not differences(range(20))


@pytest.mark.slow
def test_many_random_functions_whose_parts_run_uncompiled() -> None:
    assert not differences(range(5000, 6000))


def test_random_functions_have_parts_that_run_uncompiled() -> None:
    def f(s: torch.Tensor) -> torch.Tensor:
        s = heavy(s)
        print(end="")
        return s + 1

    compiled = with_uncompiled_parts(f)
    try:
        for _ in range(4):
            torch.testing.assert_close(compiled(small), f(small))
    finally:
        _C.spoil("segment", False)
    assert report(compiled).hits == 0 and report(compiled).misses == 2


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.kernels
def test_it_gains() -> None:
    """Calls of both kinds in turn: where tiny parts run uncompiled, calls take less time than where all is compiled."""
    whole = vesta.compile(one_large_and_many_tiny, options={"only_if_faster": False})
    parts = vesta.compile(one_large_and_many_tiny)
    functions: list[Callable[..., Any]] = [one_large_and_many_tiny, whole, parts]
    times: list[list[float]] = [[], [], []]
    states = [State() for _ in functions]
    for k in range(500):
        for f, taken, state in zip(functions, times, states, strict=True):
            start = time.perf_counter()
            f(big, small, state)
            if k >= 200:
                taken.append(time.perf_counter() - start)
    eager, compiled, left = (1e6 * statistics.median(t) for t in times)
    print(f"eager {eager:.0f} us, all compiled {compiled:.0f} us, with parts uncompiled {left:.0f} us")
    assert left < 0.97 * compiled and left < eager
