"""``vesta.record``: keeps compiles in a file that ``vesta replay`` and ``vesta bisect`` run again."""

from __future__ import annotations

import contextlib
import os
import platform
from typing import Any, Literal

import torch

from vesta import _C
from vesta.errors import UserError
from vesta.waiting import wait

__all__ = ["record", "versions"]


class record(contextlib.ContextDecorator):
    """Keeps every compile that begins inside in one file::

        with vesta.record("case.vesta"):
            model(x)

    The file has each graph as text, the options, descriptions of the inputs (dtype, size, strides, alignment, device,
    aliasing), a seed, the versions, and the error or the milliseconds of each stage. It has neither the model nor its
    data, but the names of inputs and the program's lines. It is JSON, made to be read, compared and attached to a
    report. ``vesta replay case.vesta`` compiles and runs it again, ``vesta bisect case.vesta`` looks for the fault.

    A function that is already compiled compiles nothing, so it records nothing; :func:`vesta.reset` forgets what is
    compiled. Compiles of other threads are recorded, too. The file is written before a compile begins and when it has
    ended, so it has the compile that hangs or ends the process.

    Args:
        path: The file. One that exists is replaced.
        only: ``"failed"`` keeps failed compiles alone.
        slower_than_ms: Keep compiles that take longer than this, besides those that fail.
        wait: How many seconds the end waits for compiles in the background. One that is not done by then stays in the
            file as unfinished until it ends.

    It is a context manager and a decorator; :meth:`start` and :meth:`stop` do the same without ``with``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        only: Literal["all", "failed"] = "all",
        slower_than_ms: float | None = None,
        wait: float = 60.0,
    ) -> None:
        if only not in ("all", "failed"):
            raise UserError(f'vesta.record takes only="all" or only="failed", not {only!r}')
        if slower_than_ms is not None and slower_than_ms < 0:
            raise UserError(f"vesta.record takes slower_than_ms of 0 or more milliseconds, not {slower_than_ms!r}")
        if wait < 0:
            raise UserError(f"vesta.record takes a wait of 0 or more seconds, not {wait!r}")
        self.path = os.fspath(path)
        self._only_failed = only == "failed"
        self._slower_than_ms = -1.0 if slower_than_ms is None else float(slower_than_ms)
        self._wait = wait
        self._keeper: _C.CaseKeeper | None = None

    def start(self) -> record:
        """Begins to record. Raises :class:`vesta.errors.UserError` if the file cannot be written."""
        if self._keeper is not None:
            raise UserError(f"vesta.record writes {self.path} already")
        self._keeper = _C.CaseKeeper(os.path.abspath(self.path), versions(), self._only_failed, self._slower_than_ms)
        return self

    def stop(self) -> int:
        """Stops the recording that :meth:`start` began. Returns how many compiles the file has."""
        if self._keeper is None:
            return 0
        keeper, self._keeper = self._keeper, None
        wait(timeout=self._wait)
        keeper.stop()
        return len(keeper.cases())

    def __enter__(self) -> record:
        return self.start()

    def __exit__(self, *raised: Any) -> None:
        self.stop()


def versions() -> list[tuple[str, str]]:
    """What a compile depends on besides its case."""
    from vesta import __version__

    machine = _C.host_target()
    return [
        ("vesta", __version__),
        ("torch", torch.__version__),
        ("python", platform.python_version()),
        ("cpu", machine["cpu"]),
        ("generator", machine["generator"]),
    ]
