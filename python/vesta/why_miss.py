"""``vesta.why_miss``: why a graph was compiled although the cache has others."""

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
    """Lists the graphs that this process compiled because they were not in the cache. Each has the nearest entry of the
    cache and the fields in which the two differ.

    ``function`` is a result of :func:`vesta.compile` (default: everything that the process has compiled). ``folder`` is
    the cache to compare with (default: the cache of this process). Graphs compiled with ``cache=False`` are left out.
    Print the items of the result, or read their fields. :func:`vesta.explain` prints the same for each graph.
    """
    folder = folder or _C.cache_folder()
    if folder is None:
        raise UserError("the cache is off because VESTA_CACHE_DIR is empty; pass folder=...")
    if function is None:
        explanation = explain()
    else:
        captured = captured_of(function)
        if captured is None:
            raise UserError(f"vesta.why_miss takes a result of vesta.compile, not {function!r}")
        explanation = Explanation(captures=[explain_captured(captured)])
    misses = (miss_of(name, report, folder) for name, report in named(explanation))
    return [miss for miss in misses if miss]


def named(explanation: Explanation) -> list[tuple[str, _C.CompileReport]]:
    """Every compiled graph with its name: the function and a number."""
    out = [
        (f"{c.name}, graph {i}", g.compiled)
        for c in explanation.captures
        for i, g in enumerate(c.graphs, 1)
        if g.compiled is not None
    ]
    return out + [(f"{f.name}, variant {i}", v) for f in explanation.functions for i, v in enumerate(f.variants)]
