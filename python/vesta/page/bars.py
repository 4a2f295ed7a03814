"""The bars of the page's time lines: of events, of the stages of compiles, and of a measured call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vesta.events import COMPILES, Event
from vesta.explain_capture import Graph
from vesta.page.measured import Range
from vesta.page.time_line import Bar

__all__ = ["call_bars", "compile_bars", "event_bars", "stage_bars"]


def compile_bars(events: Sequence[Event]) -> list[Bar]:
    """What threads did to compile, with a track for each thread."""
    return [bar_of(e) for e in events if e.type in COMPILES]


def event_bars(events: Sequence[Event]) -> list[Bar]:
    """The last call among the events."""
    calls = [e for e in events if e.type == "call"]
    kinds = {"call": "entry", "frame": "entry", "run": "segment"}
    if not calls:
        return []
    own = [e for e in events if e.call == calls[-1].call and e.type in kinds]
    return [bar_of(e, kinds[e.type]) for e in own]


def bar_of(e: Event, kind: str | None = None) -> Bar:
    track = f"{e.thread_name or 'thread'} {e.thread}"
    return Bar(track, kind or e.type, e.name, e.start_us, e.us, ", ".join(filter(None, [e.type, e.detail])))


def stage_bars(graphs: Sequence[Graph]) -> list[Bar]:
    """A track for each graph, with the times of its stages one after the other."""
    bars: list[Bar] = []
    for i, g in enumerate(graphs, 1):
        start = 0.0
        for stage, ms in g.stages.items():
            bars.append(Bar(f"graph {i}, from {g.where}", "stage", f"{stage} {ms:.1f}", start, 1e3 * ms))
            start += 1e3 * ms
    return bars


def call_bars(ranges: Sequence[Range], segments: set[str]) -> list[Bar]:
    """The parts of a measured call. ``segments``: the names of compiled ones."""
    return [bar for r in ranges for bar in bars_in(r, segments)]


def bars_in(r: Range, segments: set[str]) -> Iterator[Bar]:
    kind = "segment" if r.name in segments else "aten" if "::" in r.name else "kernel"
    yield Bar("the calling thread", kind, r.name, r.start_us, r.us)
    for inner in r.inner:
        yield from bars_in(inner, segments)
