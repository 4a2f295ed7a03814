"""The suite in child processes: one for each file of cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests import isolation
from tests.capture.semantics import Outcome, Task, after, work


def run(tasks: list[Task], *, jobs: int = 1, limit_s: float = 30.0) -> Iterator[Outcome]:
    """Every case's outcome; a case that ends its process, or is silent for `limit_s`, is one of them."""
    lost: list[Outcome] = []

    def resume(task: Task, step: Any, reason: str) -> Task | None:
        outcome, rest = after(task, step, reason)
        if outcome is not None:
            lost.append(outcome)
        return rest

    modules = {task.compile.partition(":")[0] for task in tasks} - {"plain"}
    preload = ("tests.capture.semantics", *sorted(modules))
    for _, message in isolation.run(tasks, work, resume, jobs=jobs, limit_s=limit_s, preload=preload):
        while lost:
            yield lost.pop()
        if message[0] == "outcome":
            yield message[1]
    yield from lost
