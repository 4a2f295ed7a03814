"""Several threads that call and compile at once, and processes that fork in the middle of it."""

from __future__ import annotations

import itertools
import math
import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import vesta
from tests.capture.test_lifetime import Branching, no_logs

__all__ = ["no_logs"]  # a fixture

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")


def test_eight_threads() -> None:
    """Call and compile the same functions and their own."""

    def make(k: int) -> Callable[..., Any]:
        def f(x, n, table):
            y = x * k
            for i in range(n):
                y = torch.sin(y) + i
            table[n] = y
            if k % 2:
                print(end="")
            if k % 3 == 1 and y.sum() > 0:
                raise ValueError(n)
            return y, [y.sum(), table]

        return f

    def outcome(f: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return f(*arguments)
        except ValueError as error:
            return error.args

    functions = [make(k) for k in range(6)]
    shared = [vesta.compile(f) for f in functions]
    model = Branching().eval()
    compiled_model = vesta.compile(model)
    errors: list[str] = []
    barrier = threading.Barrier(8)

    def work(seed: int) -> None:
        draw = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        own = [(f, vesta.compile(f)) for f in (make(k) for k in range(6))]
        own += zip(functions, shared, strict=True)
        barrier.wait(60)
        for at in range(60):
            f, compiled = draw.choice(own)
            x = torch.randn(draw.randrange(2, 6), 3, generator=generator)
            arguments = x, draw.randrange(1, 4)
            torch.testing.assert_close(outcome(compiled, *arguments, {}), outcome(f, *arguments, {}))
            if at % 10 == 0:
                y = torch.randn(3, 16, generator=generator)
                with torch.set_grad_enabled(at % 20 == 0):
                    torch.testing.assert_close(compiled_model(y), model(y))
            if at == 30 and seed % 4 == 0:
                vesta.reset()

    def guarded(seed: int) -> None:
        try:
            work(seed)
        except BaseException:
            errors.append(traceback.format_exc())
            barrier.abort()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=guarded, args=(seed,), daemon=True) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    finally:
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads)
    assert not errors, errors[0]


def test_no_other_thread_sees_a_trace() -> None:
    """Temporary writes of a trace."""
    place = SimpleNamespace(value=0)

    def function(x, k):
        for i in range(60):
            place.value = x + i
            x = torch.sin(place.value) * k
        place.value = 0
        return math.prod([1, 2]) * F.pad(x, (1, 1))

    seen: list[Any] = []
    looked, stop = [0, 0], threading.Event()

    def watch(n: int) -> None:
        while not stop.is_set():
            looked[n] += 1
            if (value := place.value) != 0 or type(value) is not int:
                seen.append(value)

    x = torch.randn(3)
    scales = [0.1, 0.2, 0.3, 0.4]  # contractions
    expected = [function_without_writes(x, scale) for scale in scales]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=watch, args=(n,), daemon=True) for n in range(2)]
    try:
        for thread in threads:
            thread.start()
        for scale, wanted in zip(scales, expected, strict=True):
            torch.testing.assert_close(vesta.compile(function)(x, scale), wanted)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
        sys.setswitchinterval(interval)
    assert all(n > 100 for n in looked)
    assert not seen, [type(value) for value in seen[:3]]


def function_without_writes(x: torch.Tensor, k: float) -> torch.Tensor:
    for i in range(60):
        x = torch.sin(x + i) * k
    return 2 * F.pad(x, (1, 1))


def in_a_child(work: Callable[[], None], limit_s: int = 60) -> None:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(limit_s)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("others", [0, 2])
def test_fork(others: int) -> None:
    """A child calls what its parent compiled, and compiles, while `others` threads of the parent do, too."""

    def make(k: int) -> Callable[..., Any]:
        def f(x):
            y = torch.sin(x) * k
            print(end="")
            return y + x.shape[0], torch.relu(x).sum() * k, x.softmax(0)

        return f

    functions = [make(k) for k in range(1, 6)]
    given = [torch.randn(k + 1, 4) for k in range(5)]
    # The parent's: eager operators that wait for threads of OpenMP wait for ever in a child.
    expected = [f(x) for f, x in zip(functions, given, strict=True)]
    compiled = vesta.compile(functions[0])

    def call_and_compile() -> None:
        torch.testing.assert_close(compiled(given[0]), expected[0])
        compiled(given[1])
        for f, x, y in zip(functions, given, expected, strict=True):
            torch.testing.assert_close(vesta.compile(f)(x), y)

    stop = threading.Event()
    numbers = itertools.count(100)

    def work() -> None:
        while not stop.is_set():
            k = next(numbers)
            vesta.compile(make(k))(torch.randn(2 + k % 3, 4 + k % 50))

    torch.testing.assert_close(compiled(given[0]), expected[0])
    threads = [threading.Thread(target=work, daemon=True) for _ in range(others)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10 if others else 1):
            in_a_child(call_and_compile)
    finally:
        stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    torch.testing.assert_close(compiled(given[0]), expected[0])
