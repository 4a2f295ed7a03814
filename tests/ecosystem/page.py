"""docs/ecosystem.md, from the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from tests.ecosystem.worker import Row, Stop

PAGE = Path(__file__).parents[2] / "docs" / "ecosystem.md"
SHOWN_STOPS = 8  # of a program


def result_of(row: Row) -> str:
    if row.failure:
        return "**differs**" if not row.failure.startswith("raises") else "**raises**"
    return "as eager" if row.graphs else "as eager, nothing compiled"


def duration(us: float) -> str:
    return f"{us / 1e3:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def stop_line(stop: Stop) -> str:
    return f"  - {stop.reason}" + (f" (`{stop.where}`)" if stop.where else "")


def table(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| library | program | result | first call | eager | steady | graphs | breaks |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in rows:
        first, eager, ratio = (
            (f"+{r.first_ms / 1e3:.2f} s", duration(r.eager_us), f"{r.ratio:.2f}") if r.ratio else ("", "", "")
        )
        lines.append(
            f"| {r.package} {r.version} | {cell(r.what)} | {result_of(r)} | {first} | {eager} | {ratio} | {r.graphs} "
            f"| {len(r.stops)} |"
        )
    return lines


def page(rows: Sequence[Row]) -> str:
    plain, training = [r for r in rows if not r.trains], [r for r in rows if r.trains]
    right = sum(not r.failure for r in rows)
    ratios = [r.ratio for r in plain if r.ratio > 0]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0
    libraries = len({r.package for r in rows})
    text = [
        "# Programs of other libraries under `vesta.compile`",
        "",
        "<!-- written by: python -m tests.ecosystem --page -->",
        "Each program is written as in its library's documentation, with small sizes and random weights, and runs "
        "eager and compiled in a process of its own. Three calls with different inputs are compared by the rule of "
        "[numerics](numerics.md). *First call* is the additional time of the first compiled call over an eager call. "
        "*Steady* is eager's time divided by the compiled time, with alternating calls. *Graphs* counts the compiled "
        "traces, and *breaks* the places where Python runs code between two graphs or code is not compiled; the list "
        "below names them. `python -m tests.ecosystem` installs the libraries and repeats the measurement.",
        "",
        f"torch {torch.__version__.partition('+')[0]}, {torch.get_num_threads()} threads, "
        f"{torch.backends.cpu.get_cpu_capability()}. {len(rows)} programs of {libraries} libraries: {right} give "
        f"eager's results. Geometric mean of the steady ratios without training: {mean:.2f}.",
        "",
        *table(plain),
    ]
    if training:
        text += [
            "",
            "## Training",
            "In these programs, gradients and optimizer steps take most of the time of a call. Optimizers run as in "
            "eager.",
            "",
            *table(training),
        ]
    failed = [r for r in rows if r.failure]
    if failed:
        text += ["", "## Wrong results"]
        for r in failed:
            last = r.failure.splitlines()[-1 if r.failure.startswith("raises") else 0]
            text.append(f"- {r.package}, {r.what}: {last}")
    if any(r.stops for r in rows):
        text += ["", "## Breaks"]
    for r in rows:
        if r.stops:
            text.append(f"- {r.package}, {r.what}")
            text += [stop_line(s) for s in r.stops[:SHOWN_STOPS]]
            if len(r.stops) > SHOWN_STOPS:
                text.append(f"  - and {len(r.stops) - SHOWN_STOPS} more")
    return "\n".join(text) + "\n"
