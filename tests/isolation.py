"""Runs tasks in child processes, so that a crash or a hang is one failed step and not the end of the run.

A task is worked by `work(task, emit)` in a child forked from a clean server that has imported what is `preload`ed. The
child calls `emit(("begin", step))` before every step that could kill it, and any other message for results. When it
dies or is silent for too long, `resume(task, step, reason)` is told which step it was and returns the task to go on
with, or None.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

Work = Callable[[Any, Callable[[Any], None]], None]
Resume = Callable[[Any, Any, str], Any]

_preloaded: tuple[str, ...] | None = None  # by the server that runs
_START_S = 120.0  # more silence than a step's, until the first step begins: the server may still import


@dataclass
class _Child:
    task: Any
    process: Any
    connection: Connection
    stderr: Path
    step: Any = None
    heard: float = field(default_factory=time.monotonic)
    done: bool = False


def _forkserver(preload: tuple[str, ...]) -> Any:
    """The context of a server that has imported these modules: a running one imports no more."""
    global _preloaded
    if preload != _preloaded:
        multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]
        _preloaded = preload
    context: Any = multiprocessing.get_context("forkserver")
    # What a first call of torch's Python functions imports would otherwise be imported by every child: a second each.
    context.set_forkserver_preload(["torch", "torch._dynamo", *preload])
    return context


def _enter(work: Work, task: Any, connection: Connection, stderr: str, threads: int) -> None:
    file = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    os.dup2(file, 1)
    faulthandler.enable()
    gc.freeze()  # a collection would touch, and so copy, all that was imported before the fork
    import torch

    torch.set_num_threads(threads)
    work(task, connection.send)
    connection.send(("done", None))
    connection.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # no time for destructors of libraries: they are not what is tested


def _tail(path: Path, lines: int = 12) -> str:
    with contextlib.suppress(OSError):
        text = path.read_text(errors="replace").strip().splitlines()
        first = next((i for i, line in enumerate(text) if line.startswith("Fatal Python error")), None)
        text = text[first : first + lines] if first is not None else text[-lines:]
        return "\n".join(text)
    return ""


def _end(code: int | None) -> str:
    if code is None:
        return "did not end"
    if code < 0:
        return f"crash: {signal.Signals(-code).name}"
    return f"exit with code {code}"


def run(
    tasks: Iterable[Any],
    work: Work,
    resume: Resume,
    *,
    jobs: int = 1,
    limit_s: float = 60.0,
    threads: int = 1,
    preload: tuple[str, ...] = (),
) -> Iterator[tuple[Any, Any]]:
    """Yields (task, message) as children emit them; ("begin" and "done" messages are not yielded)."""
    context = _forkserver(preload)
    queue = deque(tasks)
    children: list[_Child] = []
    with tempfile.TemporaryDirectory(prefix="vesta-tests-") as folder:
        count = 0
        try:
            while queue or children:
                while queue and len(children) < jobs:
                    count += 1
                    task, stderr = queue.popleft(), Path(folder) / str(count)
                    ours, theirs = context.Pipe()
                    process = context.Process(
                        target=_enter, args=(work, task, theirs, str(stderr), threads), daemon=True
                    )
                    process.start()
                    theirs.close()
                    children.append(_Child(task, process, ours, stderr))
                wait([c.connection for c in children], timeout=0.5)
                for child in list(children):
                    ended = False
                    try:
                        while child.connection.poll():
                            kind, *rest = message = child.connection.recv()
                            child.heard = time.monotonic()
                            if kind == "begin":
                                child.step = rest[0]
                            elif kind == "done":
                                child.done = ended = True
                                break
                            else:
                                yield child.task, message
                    except (EOFError, OSError):
                        ended = True
                    reason = ""
                    if ended:
                        child.process.join(10)
                        if not child.done:
                            reason = _end(child.process.exitcode)
                    elif time.monotonic() - child.heard > limit_s + (_START_S if child.step is None else 0):
                        reason = f"hang: no answer within {limit_s:g} s"
                    if not ended and not reason:
                        continue
                    if child.process.is_alive():
                        child.process.kill()
                        child.process.join()
                    children.remove(child)
                    child.connection.close()
                    if reason:
                        text = _tail(child.stderr)
                        rest = resume(child.task, child.step, reason + ("\n" + text if text else ""))
                        if rest is not None:
                            queue.appendleft(rest)
                    child.stderr.unlink(missing_ok=True)
        finally:
            for child in children:
                child.process.kill()
