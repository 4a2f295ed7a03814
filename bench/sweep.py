"""Single operators through vesta.compile and eager, in turn in one process: where compiling a function costs time.

    python -m bench.sweep                        every row forward at both sizes: about six minutes on two cores
    python -m bench.sweep --backward             and with gradients, which are printed apart
    python -m bench.sweep --only flip roll       rows by the beginnings of their names
    python -m bench.sweep --compare OLD.json     ratios beside those of an earlier run

A ratio is eager's time over Vesta's, the median over rounds in which both were timed one after the other. A row is
below its bound where the ratio is below 0.9 and eager takes 5 µs or more, or where eager takes less and a call takes
0.3 µs more than eager's. Such a row is measured again in a fresh process; it is slow if it is below its bound there,
too. Means are of the first measurements.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.processes import ROOT, Worker
from bench.sweep_rows import ROWS, SIZES

LEAST_RATIO = 0.9
SHORT_US = 5.0  # of eager: below, what counts is the difference
MOST_OVER_US = 0.3
MOST_FIRST_MS = 150.0
ROWS_A_PROCESS = 60
MODES = ("forward", "backward")


@dataclass
class Timing:
    """One row at one size. Times in microseconds are medians over rounds."""

    name: str
    size: str
    mode: str = "forward"
    eager_us: float = 0.0
    vesta_us: float = 0.0
    ratio: float = 0.0
    first_ms: float = 0.0
    compile_ms: float = 0.0
    kernels: int = 0
    notes: list[str] = field(default_factory=list)
    failure: str = ""
    again: Timing | None = None  # in a fresh process, of a row that was below its bound

    @property
    def is_below_bound(self) -> bool:
        if self.eager_us >= SHORT_US:
            return self.ratio < LEAST_RATIO
        return self.vesta_us - self.eager_us > MOST_OVER_US

    @property
    def is_slow(self) -> bool:
        return self.is_below_bound and (self.again is None or self.again.is_below_bound)

    @property
    def label(self) -> str:
        return f"{self.name} {self.size}"


def timing_of(name: str, size: str, mode: str, answer: dict[str, Any], failure: str) -> Timing | None:
    """None if there is nothing to differentiate."""
    if "none" in answer:
        return None
    made = Timing(name, size, mode, failure=answer.get("failure", failure))
    if not made.failure:
        eager, vesta = zip(*answer["us"], strict=True)
        made.eager_us, made.vesta_us = statistics.median(eager), statistics.median(vesta)
        made.ratio = statistics.median(e / v for e, v in answer["us"])
        made.first_ms, made.compile_ms, made.kernels = answer["first_ms"], answer["compile_ms"], answer["kernels"]
        made.notes = [*answer["fallbacks"], *answer["breaks"]]
    return made


def measured(
    wanted: list[tuple[str, str, str]], rounds: int, seconds: float, limit_s: float, step: Callable[[str], None]
) -> list[Timing]:
    """Times rows, given as name, size and mode. Rows with nothing to differentiate are left out."""
    found: list[Timing] = []
    with tempfile.TemporaryDirectory(prefix="vesta-bench-") as cache:
        worker: Worker | None = None
        for i, (name, size, mode) in enumerate(wanted):
            if worker is None or i % ROWS_A_PROCESS == 0 or worker.run.failure:
                if worker:
                    worker.close()
                worker = Worker("bench.sweep_worker", [], cache, limit_s)
            step(f"{name} {size}, {mode}")
            answer = worker.ask(f"{mode} {name} {size} {rounds} {seconds}")
            if made := timing_of(name, size, mode, answer, worker.run.failure):
                found.append(made)
        if worker:
            worker.close()
    return found


def sweep(
    modes: list[str], quick: bool, limit_s: float, step: Callable[[str], None], names: list[str] | None = None
) -> list[Timing]:
    """Measures the rows called `names`, or all. Calls `step` with the row that is measured next."""
    # An even number, so that each of the two goes first equally often: the second is often slower.
    rounds, seconds = (4, 0.002) if quick else (8, 0.005)
    wanted = [(n, s, m) for m in modes for n in names or [r.name for r in ROWS] for s in SIZES]
    found = measured(wanted, rounds, seconds, limit_s, step)
    below = [t for t in found if not t.failure and t.is_below_bound]
    once_more = measured([(t.name, t.size, t.mode) for t in below], rounds, seconds, limit_s, step)
    by_row = {(t.name, t.size, t.mode): t for t in once_more if not t.failure}
    for t in below:
        t.again = by_row.get((t.name, t.size, t.mode))
    return found


def mean_ratio(timings: list[Timing]) -> float:
    """The geometric mean of the ratios; NaN without any."""
    ratios = [t.ratio for t in timings if not t.failure]
    return statistics.geometric_mean(ratios) if ratios else float("nan")


def worst(timings: list[Timing]) -> list[Timing]:
    """Sorted with the slowest first: by the better of their ratios, short ones by the smaller difference to eager."""

    def gain(t: Timing) -> float:
        return t.ratio if t.eager_us >= SHORT_US else t.eager_us - t.vesta_us

    return sorted(timings, key=lambda t: max(gain(t), gain(t.again) if t.again else gain(t)))


def table(timings: list[Timing], count: int, earlier: dict[tuple[str, str, str], float]) -> Table:
    mode = timings[0].mode
    slow, below = sum(t.is_slow for t in timings), sum(t.is_below_bound for t in timings)
    made = Table(
        title=f"Single operators, {mode}: {len(timings)} rows, geometric mean {mean_ratio(timings):.3f}, {slow} slow "
        f"({below} in the first measurement)"
    )
    for column in (
        "row",
        "eager µs",
        "Vesta µs",
        "ratio",
        "again",
        "earlier",
        "first call ms",
        "compile ms",
        "kernels",
        "notes",
    ):
        made.add_column(column, justify="left" if column in ("row", "notes") else "right")
    short = [t for t in timings if t.eager_us < SHORT_US]
    long = [t for t in timings if t.eager_us >= SHORT_US]
    first = sorted(timings, key=lambda t: -t.first_ms)
    for rows, limit in ((worst(long), count), (worst(short), count // 2), (first, count // 2)):
        for t in rows[:limit]:
            colour = "red" if t.is_slow else "green"
            before = earlier.get((t.name, t.size, t.mode))
            late = "red" if t.first_ms > MOST_FIRST_MS and t.mode == "forward" else "green"
            made.add_row(
                t.label,
                f"{t.eager_us:.4g}",
                f"{t.vesta_us:.4g}",
                f"[{colour}]{t.ratio:.2f}[/]",
                f"[{colour}]{t.again.ratio:.2f}[/]" if t.again else "-",
                f"{before:.2f}" if before else "-",
                f"[{late}]{t.first_ms:.0f}[/]",
                f"{t.compile_ms:.1f}",
                str(t.kernels),
                "; ".join(t.notes)[:60],
            )
        made.add_section()
    made.caption = "the worst ratios; the short calls that lose most; the longest first calls"
    return made


def print_tables(
    console: Console, timings: list[Timing], count: int = 20, earlier: dict[tuple[str, str, str], float] | None = None
) -> None:
    for mode in MODES:
        if some := [t for t in timings if t.mode == mode and not t.failure]:
            console.print(table(some, count, earlier or {}))


def summary(timings: list[Timing]) -> dict[str, Any]:
    """The facts about a run that are kept beside its rows, for each mode that was measured."""
    return {
        mode: {
            "rows": len(some),
            "operators": len({t.name for t in some}),
            "mean": mean_ratio(some),
            "slow": sum(t.is_slow for t in some),
            "late": sum(t.first_ms > MOST_FIRST_MS for t in some),
            "worst": [asdict(t) for t in worst([t for t in some if t.eager_us >= SHORT_US])[:5]],
        }
        for mode in MODES
        if (some := [t for t in timings if t.mode == mode and not t.failure])
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="only rows whose names begin with one of these"
    )
    parser.add_argument("--backward", action="store_true", help="also measure backward passes")
    parser.add_argument("--quick", action="store_true", help="4 rounds of 2 ms instead of 8 of 5 ms")
    parser.add_argument("--worst", type=int, default=30, metavar="N", help="rows of each table (default: 30)")
    parser.add_argument("--limit", type=float, default=120.0, metavar="S", help="seconds for one row")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="an earlier run's JSON file")
    parser.add_argument("--json", type=Path, metavar="FILE", default=ROOT / "build" / "bench" / "sweep.json")
    options = parser.parse_args(arguments)
    names = [r.name for r in ROWS if not options.only or r.name.startswith(tuple(options.only))]
    if not names:
        parser.error(f"no row begins with {', '.join(options.only)}")
    modes = list(MODES) if options.backward else ["forward"]
    console = Console(width=max(Console().width, 150) if not sys.stdout.isatty() else None)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(names) * len(SIZES) * len(modes))
        timings = sweep(
            modes,
            options.quick,
            options.limit,
            lambda what: progress.update(task, advance=1, description=what),
            names,
        )
    earlier = {}
    if options.compare:
        earlier = {(t["name"], t["size"], t["mode"]): t["ratio"] for t in json.loads(options.compare.read_text())}
    print_tables(console, timings, options.worst, earlier)
    failed = [t for t in timings if t.failure]
    for t in failed:
        console.print(f"{t.label}, {t.mode}: {t.failure}", style="red", markup=False, soft_wrap=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps([asdict(t) for t in timings], indent=0))
    console.print(str(options.json), highlight=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
