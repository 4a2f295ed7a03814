"""A crash, a hang and an exit in a child are one failed step each; the steps after them still run."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from tests import isolation

Task = tuple[int, int]  # steps [begin, end)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def work(task: Task, emit: Callable[[Any], None]) -> None:
    deeds = {1: crash, 3: lambda: time.sleep(60), 4: lambda: os._exit(7)}
    for step in range(*task):
        emit(("begin", step))
        deeds.get(step, lambda: None)()
        emit(("passed", step))


def test_every_other_step_runs():
    failures: dict[int, str] = {}

    def resume(task: Task, step: int, reason: str) -> Task | None:
        failures[step] = reason
        return (step + 1, task[1]) if step + 1 < task[1] else None

    tasks = [(0, 6), (10, 12)]
    messages = [message for _, message in isolation.run(tasks, work, resume, jobs=2, limit_s=5)]
    assert sorted(step for kind, step in messages if kind == "passed") == [0, 2, 5, 10, 11]
    assert failures[1].startswith("crash: SIGSEGV")
    assert failures[3].startswith("hang: no answer within 5 s")
    assert failures[4].startswith("exit with code 7")
    assert sorted(failures) == [1, 3, 4]


def name_what_is_loaded(names: tuple[str, ...], emit: Callable[[Any], None]) -> None:
    emit(("loaded", [name for name in names if name in sys.modules]))


def test_each_run_has_its_own_server():
    """Modules that an earlier run's server has not imported are not left for every child to import."""
    for preload in (("xml.dom.minidom",), ("wsgiref.util", "xml.sax"), ("xml.dom.minidom",)):
        tasks = [(*preload, "turtledemo")] * 2
        messages = [m for _, m in isolation.run(tasks, name_what_is_loaded, lambda *_: None, preload=preload)]
        assert messages == [("loaded", list(preload))] * 2
