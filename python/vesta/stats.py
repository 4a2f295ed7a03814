"""``vesta.stats``: what Vesta has done in this process, in one table."""

from __future__ import annotations

from vesta import _C
from vesta._C import Stats

__all__ = ["Stats", "reset_stats", "stats"]


def stats() -> Stats:
    """Counts compiles, calls and caches of this process, and the memory that Vesta holds.

    ``print(vesta.stats())`` shows a table, ``as_dict()`` gives the numbers, and ``prometheus()`` gives the text of a
    page of metrics. The counts include functions that do not exist any more and what C++ and
    ``torch.compile(backend="vesta")`` compile. Reading them costs microseconds, and counting costs calls nothing.
    """
    return _C.stats()


def reset_stats() -> None:
    """Sets the counts of :func:`stats` to 0. Bytes, and the counts that :func:`vesta.explain` shows, stay."""
    _C.reset_stats()
