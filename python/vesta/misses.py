"""``vesta.why_miss``: why something was compiled that the cache did not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vesta import _C
from vesta.errors import UserError
from vesta.explain import Explanation, captured_of, explain
from vesta.explain_capture import explain_captured

__all__ = ["Difference", "Miss", "why_miss"]


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


def why_miss(function: Callable[..., Any] | None = None, *, folder: str | None = None) -> list[Miss]:
    """What was compiled in this process and not found in the cache, each with the nearest stored entry and the fields
    in which the two differ.

    ``function`` is what :func:`vesta.compile` returned (default: all that the process has compiled). ``folder`` is
    another cache than this process's (``VESTA_CACHE_DIR``). Print the result's items, or look at their fields.
    """
    folder = folder or _C.cache_folder()
    if folder is None:
        raise UserError("there is no cache: VESTA_CACHE_DIR is empty (name a folder)")
    if function is None:
        explanation = explain()
    else:
        captured = captured_of(function)
        if captured is None:
            raise UserError(f"vesta.why_miss takes what vesta.compile returned, not {function!r}")
        explanation = Explanation(captures=[explain_captured(captured)])
    misses = []
    for name, report in named(explanation):
        if report.cached or not report.entry:
            continue
        entry, found = report.why_miss(folder) or ("", [])
        misses.append(Miss(name, report.entry, entry, tuple(Difference(*d) for d in found)))
    return misses


def named(explanation: Explanation) -> list[tuple[str, _C.CompileReport]]:
    """Every compiled graph, by its function's name and its number."""
    out = [
        (f"{c.name}, graph {i}", g.compiled)
        for c in explanation.captures
        for i, g in enumerate(c.graphs, 1)
        if g.compiled is not None
    ]
    return out + [(f"{f.name}, variant {i}", v) for f in explanation.functions for i, v in enumerate(f.variants)]
