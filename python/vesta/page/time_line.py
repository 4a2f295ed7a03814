"""Time lines as SVG: bars on a track for each thread, nested by time."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vesta.page.markup import Markup, tag
from vesta.page.steps import microseconds

__all__ = ["Bar", "draw_time_line"]

WIDTH, ROW, TOP = 1040, 19, 22
MOST_BARS = 3000
LETTER = 6.2  # the width of one
IDLE = 0.02  # of the width: what a longer gap without a bar is shortened to


@dataclass(frozen=True)
class Bar:
    """``kind`` is a class of the style sheet. ``detail`` is shown below the name where the pointer is."""

    track: str
    kind: str
    name: str
    start_us: float
    us: float
    detail: str = ""


class Scale:
    """Places on the drawing by time. Long gaps in which nothing happens are cut."""

    def __init__(self, bars: Sequence[Bar]) -> None:
        busy: list[tuple[float, float]] = []
        for start, end in sorted((b.start_us, b.start_us + b.us) for b in bars):
            if busy and start <= busy[-1][1]:
                busy[-1] = busy[-1][0], max(busy[-1][1], end)
            else:
                busy.append((start, end))
        longest_gap = IDLE * sum(end - start for start, end in busy)
        self.times: list[float] = []
        self.shifts: list[float] = []  # what the gaps before are shorter
        self.cuts: list[float] = []
        shift, before = busy[0][0], busy[0][0]
        for start, end in busy:
            if start - before > longest_gap:
                shift += start - before - longest_gap
                self.cuts.append(start - shift)
            self.times.append(start)
            self.shifts.append(shift)
            before = end
        self.us = before - shift or 1.0

    def x(self, us: float) -> float:
        return (us - self.shifts[max(0, bisect_right(self.times, us) - 1)]) / self.us * WIDTH

    def cut_places(self) -> Iterator[float]:
        return (us / self.us * WIDTH for us in self.cuts)


def draw_time_line(bars: Iterable[Bar], label: str) -> Markup:
    """The bars as a drawing; nothing if there are none. Of too many, the longest are drawn, and a line says so."""
    every = [b for b in bars if b.us > 0]
    if not every:
        return Markup()
    drawn = sorted(sorted(every, key=lambda b: -b.us)[:MOST_BARS], key=lambda b: (b.start_us, -b.us))
    scale = Scale(drawn)
    tracks: dict[str, list[Bar]] = {b.track: [] for b in every}
    for b in drawn:
        tracks[b.track].append(b)
    content: list[Markup] = []
    y = TOP
    for name, own in tracks.items():
        content.append(tag("text", name, x=0, y=y + 12, class_="track"))
        y += ROW
        depth = 0
        for bar, row in nested(own):
            content.append(draw_bar(bar, scale, y + row * ROW))
            depth = max(depth, row + 1)
        y += depth * ROW + 8
    axis = list(draw_axis(scale, y))
    drawing = tag("svg", *axis, *content, viewBox=f"0 0 {WIDTH} {y}", role="img", aria_label=label)
    left = len(every) - len(drawn)
    note = tag("p", f"{left} shorter events are not drawn.", class_="note") if left else Markup()
    return tag("div", drawing, note, class_="time")


def nested(bars: Sequence[Bar]) -> Iterator[tuple[Bar, int]]:
    """Each bar of a track with its row: below the bar in which it lies."""
    open_until: list[float] = []
    for b in bars:
        while open_until and open_until[-1] <= b.start_us + 1e-3:
            open_until.pop()
        yield b, len(open_until)
        open_until.append(b.start_us + b.us)


def draw_bar(b: Bar, scale: Scale, y: float) -> Markup:
    x = scale.x(b.start_us)
    width = max(0.75, scale.x(b.start_us + b.us) - x - 0.5)
    fits = int((width - 6) / LETTER)
    text = b.name if len(b.name) <= fits else b.name[: fits - 1] + "…" if fits > 3 else ""
    label = [tag("text", text, x=f"{x + 3:.2f}", y=y + 12)] if text else []
    title = "\n".join(filter(None, [b.name, microseconds(b.us), b.detail]))
    bar = tag("rect", x=f"{x:.2f}", y=y, width=f"{width:.2f}", height=ROW - 3, rx=2)
    return tag("g", tag("title", title), bar, *label, class_=f"bar {b.kind}")


def draw_axis(scale: Scale, height: float) -> Iterator[Markup]:
    power = 10.0 ** math.floor(math.log10(scale.us))
    step = next(part * power for part in (0.1, 0.2, 0.5, 1.0) if scale.us <= 10 * part * power)
    for i in range(int(scale.us / step) + 1):
        x = i * step / scale.us * WIDTH
        yield tag("line", x1=f"{x:.2f}", x2=f"{x:.2f}", y1=TOP - 6, y2=height, class_="tick")
        if x < WIDTH - 40:
            yield tag("text", microseconds(i * step), x=f"{x + 3:.2f}", y=11, class_="track")
    for x in scale.cut_places():
        yield tag("line", x1=f"{x:.2f}", x2=f"{x:.2f}", y1=TOP - 6, y2=height, class_="cut")
