"""Why a graph was compiled: the nearest artifact in the cache, and how it differs."""

from __future__ import annotations

from dataclasses import dataclass

from vesta import _C

__all__ = ["Difference", "Miss", "miss_of"]


@dataclass(frozen=True)
class Difference:
    """A field of the key in which a compile differs from a stored artifact.

    ``field`` is one of graph, facts (which inputs are one tensor, and where they begin), options, target, generator (of
    code), compiler and torch. ``was`` and ``now`` are the parts that differ. For a graph that is its first differing
    line, and ``where`` is the line of the program that it comes from.
    """

    field: str
    was: str
    now: str
    where: str = ""

    def __str__(self) -> str:
        asked = f"\n    from {self.where}" if self.where else ""
        return f"  {self.field}\n    was {self.was or 'nothing'}\n    now {self.now or 'nothing'}{asked}"


@dataclass(frozen=True)
class Miss:
    """A compile whose result was not in the cache. ``nearest``: the name of the nearest stored entry, or empty."""

    name: str
    entry: str
    nearest: str
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        if not self.nearest:
            return f"{self.name}: not found in the cache, which has no other entry"
        return "\n".join(
            [
                f"{self.name}: not found in the cache; the nearest entry, {self.nearest}, differs in",
                *map(str, self.differences),
            ]
        )


def miss_of(name: str, report: _C.CompileReport, folder: str) -> Miss | None:
    """The miss of a compiled graph; None if it was found in the cache or compiled without a cache. Reads the most
    recently used entries, at most 256."""
    if report.cached or not report.entry:
        return None
    entry, found = report.why_miss(folder) or ("", [])
    return Miss(name, report.entry, entry, tuple(Difference(*d) for d in found))
