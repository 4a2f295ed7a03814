"""A page of HTML about compiled functions, with its style and drawings inside. It loads nothing and runs no script."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

import vesta
from vesta import _C
from vesta.byte_text import byte_text
from vesta.explain_capture import Break, Captured, Graph, Line, several
from vesta.page.bars import call_bars, compile_bars, event_bars, stage_bars
from vesta.page.markup import Markup, join, tag
from vesta.page.measured import MeasuredCall
from vesta.page.steps import TimedStep, draw_steps, microseconds, timed_steps
from vesta.page.style import STYLE
from vesta.page.time_line import draw_time_line

if TYPE_CHECKING:
    from vesta.explain import Explanation

__all__ = ["page_of"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
AROUND = 2  # lines shown before and after the line of a break
MOST_STEPS_LISTED = 40
MOST_GUARDS_LISTED = 200


def page_of(explanation: Explanation, measured: MeasuredCall | None = None) -> str:
    """The page. ``measured``: a call of the explained function, which gives the times of its kernels."""
    captures = explanation.captures
    title = captures[0].name if len(captures) == 1 else "everything compiled in this process"
    sections = [
        ("compile", "The compile", join(*compile_section(explanation, measured))),
        ("call", "The call", join(*call_section(explanation, measured))),
        ("graphs", "Graphs", join(*(graphs_section(c, measured) for c in captures), *other_graphs(explanation))),
        ("breaks", "Graph breaks", join(*map(break_card, explanation.breaks))),
        ("recompiles", "Recompiles", recompile_table(captures)),
        ("eager", "Left to Python", join(*eager_section(explanation))),
        ("guards", "Guards", join(*guard_section(explanation.graphs))),
        ("memory", "Memory", join(*memory_section(explanation))),
    ]
    shown = [(name, heading, content) for name, heading, content in sections if content]
    body = tag(
        "main",
        tag("h1", title),
        tag("p", f"Vesta {vesta.__version__}, torch {torch.__version__}", class_="note"),
        facts(explanation, measured),
        tag("nav", *(tag("a", heading, href=f"#{name}") for name, heading, _ in shown)),
        *(tag("section", tag("h2", heading), content, id=name) for name, heading, content in shown),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"Vesta: {title}"),
        tag("style", Markup(STYLE)),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", body), lang="en") + "\n"


def facts(explanation: Explanation, measured: MeasuredCall | None) -> Markup:
    captures = explanation.captures
    numbers = [
        (sum(c.calls for c in captures), "calls"),
        (len(explanation.graphs), "graphs"),
        (sum(c.op_count for c in captures), "operators"),
        (sum(len(v.kernels) for v in explanation.variants), "kernels"),
        (sum(v.ops_extern for v in explanation.variants), "calls into ATen"),
        (len(explanation.breaks), "graph breaks"),
        (len(explanation.recompiles), "recompiles"),
        (len(explanation.guards), "guards"),
        (microseconds(1e3 * sum(c.total_ms for c in captures)), "to compile"),
        *([(microseconds(measured.us), "the measured call")] if measured else []),
    ]
    return tag(
        "div", *(tag("div", tag("b", n), tag("span", what), class_="fact") for n, what in numbers), class_="facts"
    )


def compile_section(explanation: Explanation, measured: MeasuredCall | None) -> Iterator[Markup]:
    bars = compile_bars(measured.compile_events if measured else vesta.events())
    if bars:
        yield tag(
            "div",
            key("capture", "capture"),
            key("stage", "stage"),
            key("kernel", "kernel"),
            key("entry", "entry of the cache"),
            draw_time_line(bars, "What was compiled when"),
            class_="card",
        )
    stages = stage_bars(explanation.graphs)
    if stages:
        what = tag("p", "Each graph's stages, in milliseconds of the threads that ran them.", class_="note")
        yield tag("div", what, draw_time_line(stages, "The stages of each graph's compile"), class_="card")


def call_section(explanation: Explanation, measured: MeasuredCall | None) -> Iterator[Markup]:
    if measured is None:
        bars = event_bars(vesta.events())
        if bars:
            yield tag("div", draw_time_line(bars, "The last recorded call"), class_="card")
        return
    segments = {f"{g.where.function}:{g.where.line}" for g in explanation.graphs}
    ranges = [r for r in measured.ranges if r.name in segments or not measured.compiled]
    notes = [f"The call took {microseconds(measured.us)}, which includes about 1 µs of the profiler for each part."]
    if measured.compiled:
        notes.append("It compiled. Call the explainer again, and the page shows a call that only runs.")
    if not ranges:
        notes.append("No part of it was measured: no compiled segment ran, or another profiler was on.")
    yield tag(
        "div",
        tag("p", *(join(n, " ") for n in notes), class_="note"),
        tag("p", key("segment", "compiled segment"), key("kernel", "kernel"), key("aten", "call into ATen"))
        if ranges
        else Markup(),
        draw_time_line(call_bars(ranges, segments), "The parts of the call"),
        class_="card",
    )


def key(kind: str, text: str) -> Markup:
    return join(tag("span", class_="key", style=f"background:var(--{kind})"), text)


def graphs_section(c: Captured, measured: MeasuredCall | None) -> Markup:
    return join(*(graph_card(c, i, g, measured) for i, g in enumerate(c.graphs, 1)))


def graph_card(c: Captured, number: int, g: Graph, measured: MeasuredCall | None) -> Markup:
    steps = timed_steps(g, measured)
    return tag(
        "div",
        tag("h3", f"{c.name}, graph {number}"),
        tag("p", "from ", place(g.where), tag("br"), "to ", place(g.stop.where) if g.stop else g.end),
        tag("p", ", ".join(graph_facts(g))),
        *miss_lines(g),
        *step_drawing(steps),
        class_="card",
    )


def graph_facts(g: Graph) -> Iterator[str]:
    yield several(g.op_count, "operator")
    if g.compiled:
        yield several(len(g.compiled.kernels), "kernel")
        yield f"{several(g.compiled.ops_extern, 'call')} into ATen"
    yield several(g.hits, "hit")
    yield f"{g.total_ms:.1f} ms to compile" + (", found in the cache" if g.compiled and g.compiled.cached else "")
    if g.pending:
        yield f"the compile goes on in the background, and calls run in tier {g.tier}"
    if g.effects:
        yield "written after the graph: " + ", ".join(g.effects)
    if g.compiled and not g.steps:
        yield "records gradients: its halves are not drawn"


def miss_lines(g: Graph) -> Iterator[Markup]:
    miss = g.miss
    if miss and miss.nearest:
        rows = [(d.field, d.was or "nothing", d.now or "nothing", d.where) for d in miss.differences]
        yield tag(
            "details",
            tag("summary", "Why it was not found in the cache"),
            tag("p", "The nearest entry is ", tag("code", miss.nearest), ". It differs in:"),
            table(("field", "in the cache", "now", "line"), rows),
        )


def step_drawing(steps: Sequence[TimedStep]) -> Iterator[Markup]:
    if not steps:
        return
    measured = any(s.measured for s in steps)
    source = "as measured in the call" if measured else "of the kernels, as the planner estimates it"
    yield tag(
        "p",
        tag("span", class_="scale"),
        f"share of the steps' time, {source}; calls into ATen have a dashed border",
        class_="note",
    )
    yield draw_steps(steps)
    total = sum(s.us or 0.0 for s in steps)
    by_time = sorted(steps, key=lambda s: -(s.us or 0.0))
    rows = [
        (
            s.step.name,
            ", ".join(s.step.ops) or s.step.source,
            Number(microseconds(s.us) if s.us is not None else ""),
            Number(f"{100 * s.us / total:.1f} %" if s.us is not None and total else ""),
            Number(byte_text(s.step.bytes) if s.step.bytes else ""),
        )
        for s in by_time[:MOST_STEPS_LISTED]
    ]
    listed = f"The slowest {len(rows)} of {len(steps)} steps" if len(rows) < len(steps) else f"All {len(rows)} steps"
    headings = ("step", "operators", Number("time"), Number("share"), Number("bytes moved"))
    yield tag("details", tag("summary", listed), table(headings, rows))


def other_graphs(explanation: Explanation) -> Iterator[Markup]:
    for f in explanation.functions:
        for i, v in enumerate(f.variants):
            rows = [
                (k.name, ", ".join(k.ops), Number(microseconds(k.estimated_us)), Number(byte_text(k.bytes)))
                for k in sorted(v.kernels, key=lambda k: -k.estimated_us)[:MOST_STEPS_LISTED]
            ]
            headings = ("kernel", "operators", Number("estimated"), Number("bytes moved"))
            kernels = tag("details", tag("summary", several(len(v.kernels), "kernel")), table(headings, rows))
            yield tag(
                "div",
                tag("h3", f"{f.name or 'function'}, variant {i}"),
                kernels if rows else Markup(),
                tag("p", f"{several(v.ops_extern, 'call')} into ATen, {v.total_ms:.1f} ms to compile"),
                class_="card",
            )


def break_card(b: Break) -> Markup:
    return tag(
        "div",
        tag("p", tag("b", b.reason), f", {several(b.count, 'time')}"),
        *(tag("p", "called at ", place(caller)) for caller in b.stack),
        tag("p", place(b.where), f" in {b.where.function}" if b.where.function else ""),
        source_lines(b.where),
        tag("p", b.hint, class_="hint") if b.hint else Markup(),
        tag("p", "See ", tag("code", b.documentation), class_="note") if b.documentation else Markup(),
        class_="card",
    )


def source_lines(where: Line) -> Markup:
    lines = linecache.getlines(where.file) if where else []
    if not 1 <= where.line <= len(lines):
        return Markup()
    first, last = max(1, where.line - AROUND), min(len(lines), where.line + AROUND)
    return tag(
        "pre",
        *(
            tag("span", tag("i", n), lines[n - 1].rstrip("\n"), class_="here" if n == where.line else None)
            for n in range(first, last + 1)
        ),
    )


def recompile_table(captures: Sequence[Captured]) -> Markup:
    rows = [
        (r.guard, r.was, r.now, place(r.where or r.segment), Number(f"{r.ms:.1f} ms" if r.ms else "ran eager"))
        for c in captures
        for r in c.recompiles
    ]
    headings = ("the guard that failed", "was", "became", "read at", Number("compile"))
    return tag("div", table(headings, rows), class_="card") if rows else Markup()


def eager_section(explanation: Explanation) -> Iterator[Markup]:
    for c in explanation.captures:
        if c.only:
            names = tag("code", ", ".join(c.only))
            yield tag("p", f"{c.name} is compiled in parts, and the rest of it runs in Python. The parts are: ", names)
    skipped = [(place(s.where), s.reason) for c in explanation.captures for s in c.skipped]
    skipped += [(place(s.where), s.reason) for c in explanation.captures for s in c.slower]
    if skipped:
        yield tag("div", tag("h3", "Code that is not compiled"), table(("from", "reason"), skipped), class_="card")
    eager = [(Number(f.count), f.reason) for f in explanation.fallbacks]
    if eager:
        headings = (Number("calls"), "reason")
        yield tag("div", tag("h3", "Calls that ran eager"), table(headings, eager), class_="card")


def guard_section(graphs: Sequence[Graph]) -> Iterator[Markup]:
    for i, g in enumerate(graphs, 1):
        shown = sorted(g.guards, key=lambda guard: -guard.failed)[:MOST_GUARDS_LISTED]
        rows = [
            (x.text, x.kind, place(x.where), Number(tag("b", x.failed, class_="bad") if x.failed else ""))
            for x in shown
        ]
        more = len(g.guards) - len(shown)
        if rows:
            yield tag(
                "details",
                tag("summary", f"{several(len(g.guards), 'guard')} of graph {i}, from {g.where}"),
                table(("guard", "kind", "relied on at", Number("failed")), rows),
                tag("p", f"and {more} more", class_="note") if more else Markup(),
                class_="card",
            )


def memory_section(explanation: Explanation) -> Iterator[Markup]:
    rows = [
        (
            f"graph {i}, from {g.where}",
            Number(byte_text(g.compiled.arena_bytes)),
            Number(byte_text(g.compiled.early_arena_bytes)),
            Number(byte_text(g.compiled.packed_bytes)),
            Number(byte_text(g.compiled.code_bytes)),
        )
        for i, g in enumerate(explanation.graphs, 1)
        if g.compiled
    ]
    if rows:
        headings = ("", Number("arena"), Number("released early"), Number("packed weights"), Number("machine code"))
        yield tag("div", table(headings, rows), *map(live_bytes, explanation.graphs), class_="card")
    now = _C.stats()
    held = [
        ("arenas", now.arena_bytes),
        ("kept outputs", now.pool_bytes),
        ("packed weights", now.packed_bytes),
        ("machine code", now.code_bytes),
    ]
    yield tag(
        "p", "The whole process holds ", ", ".join(f"{byte_text(n)} of {what}" for what, n in held), ".", class_="note"
    )


def live_bytes(g: Graph) -> Markup:
    """The bytes of the arena that are in use at each step, as an area."""
    used = [s.arena_bytes for s in g.steps]
    most = max(used, default=0)
    if most <= 0 or min(used) < 0:
        return Markup()
    points = "".join(f"L{i} {100 - 100 * n / most:.1f}L{i + 1} {100 - 100 * n / most:.1f}" for i, n in enumerate(used))
    area = tag("path", d=f"M0 100{points}L{len(used)} 100Z")
    drawing = tag(
        "svg",
        area,
        viewBox=f"0 0 {len(used)} 100",
        preserveAspectRatio="none",
        class_="live",
        role="img",
        aria_label="Bytes in use by step",
    )
    what = f"The arena of the graph from {g.where} by step: {byte_text(most)} in use at the most."
    return join(tag("p", what, class_="note"), drawing)


class Number(str):
    """A cell at the right edge of its column."""

    __slots__ = ()


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    def cells(name: str, row: Sequence[object]) -> Markup:
        return tag("tr", *(tag(name, x, class_="number" if isinstance(x, Number) else None) for x in row))

    body = tag("tbody", *(cells("td", row) for row in rows))
    return tag("div", tag("table", tag("thead", cells("th", headings)), body), class_="wide")


def place(where: Line) -> Markup:
    if not where:
        return Markup()
    return join(tag("span", where, class_="place", title=where.file), " ", tag("code", where.text))
