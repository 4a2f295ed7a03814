"""The steps of a compiled graph with the share of time that each takes, and their drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from vesta import _C
from vesta.byte_text import byte_text
from vesta.explain_capture import Graph
from vesta.page.markup import Markup, tag
from vesta.page.measured import MeasuredCall, Range

__all__ = ["TimedStep", "draw_steps", "microseconds", "timed_steps"]

MOST_DRAWN = 1500
WIDTH, HEIGHT, GAP_X, GAP_Y = 232, 24, 16, 20
MOST_LETTERS = 24


@dataclass(frozen=True)
class TimedStep:
    """A step, and its microseconds: ``measured`` in a call, or else as the planner estimates them; None: not known."""

    step: _C.StepInfo
    us: float | None
    measured: bool


def timed_steps(graph: Graph, measured: MeasuredCall | None) -> list[TimedStep]:
    """The steps of a graph, with the times of its last run in the call, if there is one."""
    on_gpu = graph.compiled is not None and graph.compiled.graphs is not None  # it runs kernels after their launches
    runs = measured.runs_of(graph.variant) if measured and not on_gpu else []
    found = match(graph.steps, runs[-1].inner) if runs else {}
    if found:
        return [TimedStep(s, found.get(i), True) for i, s in enumerate(graph.steps)]
    return [TimedStep(s, s.estimated_us if s.is_kernel else None, False) for s in graph.steps]


def match(steps: Sequence[_C.StepInfo], ranges: Sequence[Range]) -> dict[int, float]:
    """Microseconds by step. Steps and ranges have one order, but a step may have no range, and a range no step."""
    names = [s.name if s.is_kernel else ".".join(s.name.split(".")[:1]) for s in steps]
    blocks = SequenceMatcher(None, names, [r.name for r in ranges], autojunk=False).get_matching_blocks()
    found = {b.a + i: ranges[b.b + i].us for b in blocks for i in range(b.size)}
    return found if all(i in found for i, s in enumerate(steps) if s.is_kernel) else {}


def draw_steps(steps: Sequence[TimedStep]) -> Markup:
    """A drawing of the steps from top to bottom: each below those whose results it reads."""
    steps = steps[:MOST_DRAWN]
    if not steps:
        return Markup()
    total = sum(s.us or 0.0 for s in steps)
    longest = max((s.us or 0.0 for s in steps), default=0.0)
    places = layout(steps)
    width = max(x for x, _ in places) + WIDTH + 1
    height = max(y for _, y in places) + HEIGHT + 1
    boxes = (box(s, at, total, longest) for s, at in zip(steps, places, strict=True))
    drawing = tag(
        "svg",
        *edges(steps, places),
        *boxes,
        viewBox=f"-1 -1 {width + 2} {height + 2}",
        width=width + 2,
        height=height + 2,
        role="img",
        aria_label="The steps of the graph and what each reads",
    )
    return tag("div", drawing, class_="graph")


def layout(steps: Sequence[TimedStep]) -> list[tuple[int, int]]:
    """The corner of each step's box: its row is below those of the steps that it reads, and rows fill from the left."""
    rows: list[int] = []
    filled: dict[int, int] = {}
    places: list[tuple[int, int]] = []
    for timed in steps:
        row = max((rows[i] + 1 for i in timed.step.after), default=0)
        rows.append(row)
        column = filled.get(row, 0)
        filled[row] = column + 1
        places.append((column * (WIDTH + GAP_X), row * (HEIGHT + GAP_Y)))
    return places


def edges(steps: Sequence[TimedStep], places: Sequence[tuple[int, int]]) -> Iterator[Markup]:
    for timed, (x, y) in zip(steps, places, strict=True):
        for before in timed.step.after:
            from_x, from_y = places[before][0] + WIDTH // 2, places[before][1] + HEIGHT
            to_x = x + WIDTH // 2
            far = y - from_y > HEIGHT + 2 * GAP_Y and from_x == to_x
            bend = WIDTH // 2 + GAP_X if far else 0  # around the boxes in between
            middle = (y + from_y) // 2 if not far else from_y + GAP_Y
            last = (y + from_y) // 2 if not far else y - GAP_Y
            curve = f"M{from_x} {from_y}C{from_x + bend} {middle} {to_x + bend} {last} {to_x} {y}"
            yield tag("path", d=curve, class_="edge")


def box(timed: TimedStep, at: tuple[int, int], total: float, longest: float) -> Markup:
    x, y = at
    s, us = timed.step, timed.us
    heat = round(100 * ((us or 0.0) / longest) ** 0.5) if longest else 0
    took = microseconds(us) if us is not None else ""
    share = f"{100 * us / total:.1f} %" if us is not None and total else ""
    name = s.name.removeprefix("aten::")
    shown = name if len(name) <= MOST_LETTERS else name[: MOST_LETTERS - 1] + "…"
    lines = [s.name, *([", ".join(s.ops)] if s.ops else []), *([s.source] if s.source else [])]
    if us is not None:
        lines.append(f"{took}, {share} of the steps{'' if timed.measured else ' (estimated)'}")
    if s.bytes:
        lines.append(f"{byte_text(s.bytes)} moved (estimated)")
    style = f"--heat:{heat}%"
    return tag(
        "g",
        tag("title", "\n".join(lines)),
        tag("rect", x=x, y=y, width=WIDTH, height=HEIGHT, rx=4, style=style),
        tag("text", shown, x=x + 7, y=y + 16),
        tag("text", took, x=x + WIDTH - 7, y=y + 16, text_anchor="end"),
        class_="kernel" if s.is_kernel else "call",
    )


def microseconds(us: float) -> str:
    if us < 1e3:
        return f"{us:.1f} µs"
    return f"{us / 1e3:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"
