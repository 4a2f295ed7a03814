"""Runs a case under Vesta and keeps the outcome: a case that only ran eager equals plain Python but proves nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Made:
    """`breaks`, `skipped`, `fallbacks`: reasons, each with where it was, once for each place."""

    graphs: int = 0
    operators: int = 0
    calls: int = 0
    hits: int = 0
    breaks: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.graphs} graphs", f"{self.operators} operators", f"{self.hits} hits in {self.calls} calls"]
        for name in ("breaks", "skipped", "fallbacks"):
            reasons = getattr(self, name)
            parts += [f"{name}: {'; '.join(reasons)}"] if reasons else []
        return ", ".join(parts)


def _work(graph: Any) -> int:
    return len(graph.compiled.kernels) + graph.compiled.ops_extern if graph.compiled else 0


def made_of(compiled: Iterable[Any]) -> Made | None:
    """The sum over what a compile function returned, or None if none of it reports."""
    found = []
    for c in compiled:
        report = getattr(getattr(c, "_vesta_call", None), "report", None)
        if callable(report):
            from vesta.explain_capture import read

            found.append(read(report()))
    if not found:
        return None
    return Made(
        sum(len(c.graphs) for c in found),
        sum(c.op_count or sum(_work(g) for g in c.graphs) for c in found),
        sum(c.calls for c in found),
        sum(c.hits for c in found),
        tuple(f"{b.where.function}:{b.where.line} {b.reason}" for c in found for b in c.breaks),
        tuple(f"{s.where.function}:{s.where.line} {s.reason}" for c in found for s in c.skipped),
        tuple(f.reason for c in found for f in c.fallbacks),
    )
