"""``vesta.why_miss``: why something was compiled that the cache did not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vesta import _C
from vesta.errors import UserError
from vesta.explain import Explanation, captured_of, explain
from vesta.explain_capture import explain_captured
from vesta.misses import Miss, miss_of

__all__ = ["why_miss"]


def why_miss(function: Callable[..., Any] | None = None, *, folder: str | None = None) -> list[Miss]:
    """What was compiled in this process and not found in the cache, each with the nearest stored entry and the fields
    in which the two differ.

    ``function`` is what :func:`vesta.compile` returned (default: all that the process has compiled). ``folder`` is
    another cache than this process's (``VESTA_CACHE_DIR``). What was compiled with ``cache=False`` is left out. Print
    the result's items, or look at their fields. :func:`vesta.explain` prints the same of each graph.
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
    misses = (miss_of(name, report, folder) for name, report in named(explanation))
    return [miss for miss in misses if miss]


def named(explanation: Explanation) -> list[tuple[str, _C.CompileReport]]:
    """Every compiled graph, by its function's name and its number."""
    out = [
        (f"{c.name}, graph {i}", g.compiled)
        for c in explanation.captures
        for i, g in enumerate(c.graphs, 1)
        if g.compiled is not None
    ]
    return out + [(f"{f.name}, variant {i}", v) for f in explanation.functions for i, v in enumerate(f.variants)]
