"""Why a graph was compiled: the stored artifact that is nearest to it, and what differs."""

from __future__ import annotations

from dataclasses import dataclass

from vesta import _C

__all__ = ["Difference", "Miss", "miss_of"]


@dataclass(frozen=True)
class Difference:
    """A field of the key in which a compile differs from a stored one.

    ``field`` is one of graph, facts (which inputs are one tensor, where they begin), options, target, generator (of
    code), compiler and torch. ``was`` and ``now`` are the parts that differ; of a graph the first line, and ``where``
    the program's line that asked for it.
    """

    field: str
    was: str
    now: str
    where: str = ""

    def __str__(self) -> str:
        asked = f"\n    asked by {self.where}" if self.where else ""
        return f"  {self.field}\n    was {self.was or 'nothing'}\n    now {self.now or 'nothing'}{asked}"


@dataclass(frozen=True)
class Miss:
    """A compile whose result was in no cache. ``nearest``: the stored entry that is nearest to it, or empty."""

    name: str
    entry: str
    nearest: str
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        if not self.nearest:
            return f"{self.name}: the cache has no other entry"
        return "\n".join([f"{self.name}: not {self.nearest}, which differs in", *map(str, self.differences)])


def miss_of(name: str, report: _C.CompileReport, folder: str) -> Miss | None:
    """Of a compiled graph; None if it was found in the cache, or compiled without one. Reads the entries that were used
    last (at most 256)."""
    if report.cached or not report.entry:
        return None
    entry, found = report.why_miss(folder) or ("", [])
    return Miss(name, report.entry, entry, tuple(Difference(*d) for d in found))
