"""Runs single operators, eager and compiled in turn. Reads commands from stdin and prints JSON lines.

forward NAME SIZE ROUNDS SECONDS     answers times of a call in microseconds, round by round, and of the first call
backward NAME SIZE ROUNDS SECONDS    the same of a call and its gradients
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from bench.sweep_rows import ROWS, Row, inputs_of


def leaves_of(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result for t in leaves_of(part)] if isinstance(result, tuple | list) else []


def with_gradients(
    function: Callable[..., Any], inputs: list[Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function that calls `f` and differentiates its results. Raises ValueError if no result has a gradient."""
    sources = [v for v in inputs if isinstance(v, torch.Tensor) and v.requires_grad]
    ones = [torch.ones_like(t) for t in leaves_of(function(*inputs)) if t.requires_grad]
    if not sources or not ones:
        raise ValueError("nothing to differentiate")

    def wrap(differentiated: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            found = [t for t in leaves_of(differentiated(*arguments)) if t.requires_grad]
            return torch.autograd.grad(found, sources, ones, allow_unused=True)

        return call

    return wrap


def batch_seconds(call: Callable[..., Any], inputs: list[Any], batch: int) -> float:
    start = time.perf_counter()
    for _ in range(batch):
        call(*inputs)
    return (time.perf_counter() - start) / batch


def timed(
    eager: Callable[..., Any], compiled: Callable[..., Any], inputs: list[Any], rounds: int, seconds: float
) -> Any:
    """Microseconds of a call per round, [eager, compiled]. The two alternate and take turns in going first."""
    once = min(batch_seconds(eager, inputs, 1) for _ in range(3))
    batch = max(1, min(2000, int(seconds / (once + 1e-7))))
    for call in (eager, compiled):
        batch_seconds(call, inputs, max(2, batch // 4))
    found = []
    for i in range(rounds):
        if i % 2:
            ours, theirs = batch_seconds(compiled, inputs, batch), batch_seconds(eager, inputs, batch)
        else:
            theirs, ours = batch_seconds(eager, inputs, batch), batch_seconds(compiled, inputs, batch)
        found.append([1e6 * theirs, 1e6 * ours])
    return found


def measure(row: Row, size: str, backward: bool, rounds: int, seconds: float) -> dict[str, Any]:
    import vesta

    function = row.function()
    inputs = inputs_of(row, size, gradients=backward)
    with contextlib.nullcontext() if backward else torch.no_grad():
        try:
            wrap: Any = with_gradients(function, inputs) if backward else lambda f: f
            eager = wrap(function)
            eager(*inputs)
        except (ValueError, RuntimeError, NotImplementedError) as error:
            if backward:
                return {"none": str(error)}
            raise
        # A second function with the same code, so that the function timed as eager is not the compiled one.
        compiled = wrap(vesta.compile(row.function()))
        start = time.perf_counter()
        compiled(*inputs)
        first = time.perf_counter() - start
        gc.collect()
        gc.disable()
        try:
            times = timed(eager, compiled, inputs, rounds, seconds)
        finally:
            gc.enable()
        report = vesta.explain()
        vesta.reset()
    return {
        "us": times,
        "first_ms": 1e3 * first - times[0][0] / 1e3,
        "compile_ms": sum(v.total_ms for v in report.variants),
        "kernels": sum(len(v.kernels) for v in report.variants),
        "fallbacks": [f.reason for f in report.fallbacks],
        "breaks": [b.reason for b in report.breaks],
    }


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to stdout too: the parent reads answers only
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(os.environ.get("VESTA_BENCH_THREADS", os.cpu_count() or 1)))
    import vesta

    rows = {row.name: row for row in ROWS}
    one = torch.ones(8)
    with torch.no_grad():
        vesta.compile(lambda x: torch.relu(x + 1))(one)  # a first call is measured in a process that compiled before
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        mode, name, size, rounds, seconds = line.split()
        try:
            answer = measure(rows[name], size, mode == "backward", int(rounds), float(seconds))
        except Exception as error:
            answer = {"failure": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
