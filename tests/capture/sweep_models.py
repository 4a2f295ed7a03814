"""Models under `vesta.compile`: compared with eager, and what was captured of each.

    python -m tests.capture.sweep_models                         every model of tests/programs/zoo
    python -m tests.capture.sweep_models llama 'gpt*'            some, by shell pattern
    python -m tests.capture.sweep_models --family images         transformers' texts: language; both: multimodal;
                                                                 timm: images; torch.nn: modules
    python -m tests.capture.sweep_models --json models.json --page    writes the rows, and docs/models.md from them

Each model runs in a process of its own with a time limit: eager, compiled afresh, compiled again. A result is judged as
everywhere (docs/numerics.md). The second call is a hit unless the first one changed the model (a cache it fills); from
the third call on every one is.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import fnmatch
import functools
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests import isolation
from tests.numerics.compare import differences
from tests.numerics.wide_runs import SHAKES, copies, shaking, widen, widened
from tests.programs.models import infer, shaken_copy, wide_copy
from tests.programs.zoo import ZOO, Entry

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
FAMILIES = ("language", "multimodal", "images", "modules")
TIMED_HITS = 5


@dataclass(frozen=True)
class Stop:
    """Where a graph ended, or what is left to CPython, and why. `kind`: break, skipped or fallback."""

    kind: str
    where: str
    reason: str


@dataclass(frozen=True)
class Row:
    """What became of one model. `failure`: '' if every result is eager's. `recompiles`: those of the second call. Times
    in milliseconds but for `hit_us` and `eager_us`."""

    model: str
    family: str
    failure: str = ""
    graphs: int = 0
    stops: tuple[Stop, ...] = ()
    guards: int = 0
    recompiles: tuple[str, ...] = ()
    first_ms: float = 0.0
    trace_ms: float = 0.0
    compile_ms: float = 0.0
    hit_us: float = 0.0
    eager_us: float = 0.0

    @property
    def whole(self) -> bool:
        """Graphs without a break, no line left to Python."""
        return not self.failure and self.graphs > 0 and not self.stops


def family(entry: Entry) -> str:
    build = entry.build.func if isinstance(entry.build, functools.partial) else entry.build
    return build.__module__.rpartition(".")[2]


def wrong(entry: Entry, module: torch.nn.Module, ours: dict[str, Any], eager: dict[str, Any], seed: int) -> str:
    """'' if `ours` may stand for `eager`."""
    if list(ours) != list(eager):
        return f"results {list(ours)}, eager's {list(eager)}"
    inputs = entry.inputs(seed, entry.lengths[0])

    def reference() -> Any:
        numbers, wide = widen(inputs), wide_copy(module)
        with widened():
            return infer(wide, wide, numbers)

    def perturbed(direction: int) -> Any:
        numbers, shaken = widen(inputs), shaken_copy(module, torch.float32, direction)
        with widened(shaking(torch.float32, direction)):
            return infer(shaken, shaken, numbers)

    found = differences(ours, eager, reference, [functools.partial(perturbed, n) for n in range(SHAKES)])
    names = list(eager)
    shown = [f"{names[int(d.where.split()[1])]}: {d.text}" if d.where[7:8].isdigit() else str(d) for d in found[:4]]
    return f"{len(found)} of {len(names)} tensors differ\n" + "\n".join(shown) if found else ""


def place(line: Any) -> str:
    """A line as a reader finds it: the path within its package."""
    file = line.file.rpartition("site-packages/")[2] or line.file
    return f"{file}:{line.line} {line.function}".strip() if file else ""


def run_row(name: str) -> Row:
    import vesta
    from vesta.explain import captured_of
    from vesta.explain_capture import explain_captured

    entry = ZOO[name]
    module = entry.build()
    ours = copy.deepcopy(module)
    compiled = vesta.compile(ours)
    captured = captured_of(compiled)
    assert captured is not None
    failure, times = "", []
    recompiles: list[int] = []  # by the end of each call
    for call in range(2):
        inputs = entry.inputs(call, entry.lengths[0])
        before = copy.deepcopy(module)
        start = time.perf_counter()
        eager = infer(module, module, copies(inputs))
        eager_us = 1e6 * (time.perf_counter() - start)
        start = time.perf_counter()
        result = infer(compiled, ours, copies(inputs))
        times.append(time.perf_counter() - start)
        recompiles.append(len(explain_captured(captured).recompiles))
        if found := wrong(entry, before, result, eager, call):
            failure = failure or f"call {call + 1}: {found}"
    before_hits, after_hits = recompiles
    hits = []
    for _ in range(TIMED_HITS):
        given = copies(inputs)
        start = time.perf_counter()
        infer(compiled, ours, given)
        hits.append(time.perf_counter() - start)
    seen = explain_captured(captured)
    if not failure and len(seen.recompiles) > after_hits:
        failure = f"recompiles at the third call: {seen.recompiles[after_hits]}"
    told_already = {s.reason for s in seen.skipped}
    stops = dict.fromkeys(
        [
            *(Stop("break", place(b.where), b.reason) for b in seen.breaks),
            *(Stop("skipped", place(s.where), s.reason) for s in seen.skipped),
            *(Stop("fallback", "", f.reason) for f in seen.fallbacks if f.reason not in told_already),
        ]
    )
    traced = sum(g.ms.get("trace", 0.0) for g in seen.graphs)
    return Row(
        name,
        family(entry),
        failure,
        sum(1 for g in seen.graphs if g.compiled),
        tuple(stops),
        len(seen.guards),
        tuple(f"{r.guard} {r.was} {r.now}".strip() for r in seen.recompiles[before_hits:after_hits]),
        1e3 * times[0],
        traced,
        seen.total_ms - traced,
        1e6 * min(hits),
        eager_us,
    )


def work(name: str, emit: Callable[[Any], None]) -> None:
    warnings.simplefilter("ignore")
    emit(("begin", name))
    try:
        row = run_row(name)
    except Exception:
        row = Row(name, family(ZOO[name]), "raises\n" + traceback.format_exc(limit=-8))
    emit(("row", row))


def run(names: list[str], jobs: int = 1, limit_s: float = 120.0, threads: int = 1) -> Iterator[Row]:
    lost: list[Row] = []

    def resume(name: str, _step: Any, reason: str) -> None:
        lost.append(Row(name, family(ZOO[name]), reason))

    preload = ("tests.programs.zoo", "tests.numerics.compare", "rich.console", "transformers", "timm", "vesta")
    for _, message in isolation.run(names, work, resume, jobs=jobs, limit_s=limit_s, threads=threads, preload=preload):
        while lost:
            yield lost.pop()
        yield message[1]
    yield from lost


def page(rows: list[Row]) -> str:
    """docs/models.md: facts that do not change from run to run."""
    whole = sum(r.whole for r in rows)
    text = [
        "# Models under `vesta.compile`",
        "",
        "<!-- written by: python -m tests.capture.sweep_models --page -->",
        "Small models with random weights (tests/programs/zoo), without gradients. Two calls of each are compared with "
        "eager: the call that captures and compiles, and the next one. A model with two graphs and no break changes "
        "itself in its first call, for example by filling a cache, and is captured once more after that. "
        "`python -m tests.capture.sweep_models` repeats the comparison and measures times.",
        "",
        f"{len(rows)} models: {sum(not r.failure for r in rows)} give eager's results, {whole} of them "
        f"({100 * whole / max(len(rows), 1):.1f} %) without a break.",
        "",
        "| model | family | result | graphs | breaks |",
        "| --- | --- | --- | ---: | --- |",
    ]
    for r in sorted(rows, key=lambda r: (FAMILIES.index(r.family), list(ZOO).index(r.model))):
        result = "as eager" if not r.failure else r.failure.splitlines()[0]
        reasons = [f"{s.reason} ({s.where})" if s.where else s.reason for s in r.stops]
        text.append(
            f"| {r.model} | {r.family} | {result} | {r.graphs} | {'<br>'.join(reasons).replace('|', chr(92) + '|')} |"
        )
    counts = Counter(s.reason for r in rows for s in r.stops)
    if counts:
        text += ["", "## Reasons", "", "| times | reason |", "| ---: | --- |"]
        text += [f"| {n} | {reason.replace('|', chr(92) + '|')} |" for reason, n in counts.most_common()]
    return "\n".join(text) + "\n"


def told(row: Row) -> str:
    word = "[red]FAILS[/]" if row.failure else "[green]whole[/]" if row.whole else "[yellow]parts[/]"
    return (
        f"{row.model:20s} {word} {row.graphs:3d} graphs {row.guards:6d} guards  first {row.first_ms:7.0f} ms "
        f"(trace {row.trace_ms:6.0f}, compile {row.compile_ms:6.0f})  "
        f"hit {row.hit_us:8.0f} µs, eager {row.eager_us:8.0f} µs"
        + (f"  [red]{len(row.recompiles)} recompiles[/]" if row.recompiles else "")
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.capture.sweep_models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="by shell pattern; none: all")
    parser.add_argument("--family", action="append", default=[], choices=FAMILIES)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (%(default)s)")
    parser.add_argument("--limit", type=float, default=120.0, metavar="S", help="seconds for one model (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of torch, in each process (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="rows; those of models that do not run now are kept")
    parser.add_argument("--page", action="store_true", help=f"writes docs/{PAGE.name} from the rows")
    parser.add_argument("--list", action="store_true", help="lists the models and runs none")
    options = parser.parse_args(argv)
    console = Console(soft_wrap=True, highlight=False)
    names = [
        name
        for kind in FAMILIES
        for name, entry in ZOO.items()
        if family(entry) == kind
        and (not options.family or kind in options.family)
        and (not options.models or any(fnmatch.fnmatch(name, p) for p in options.models))
    ]
    if not names:
        parser.error("no model has such a name; --list names them")
    if options.list:
        console.print(", ".join(names))
        return 0
    rows: dict[str, Row] = {}
    if options.json and options.json.exists():
        for old in json.loads(options.json.read_text()):
            stops = tuple(Stop(**s) for s in old.pop("stops"))
            rows[old["model"]] = Row(**{**old, "stops": stops, "recompiles": tuple(old["recompiles"])})
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    ran: list[Row] = []
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("models", total=len(names))
        for row in run(names, options.jobs, options.limit, options.threads):
            ran.append(row)
            rows[row.model] = row
            progress.update(bar, advance=1, description=row.model)
            console.print(told(row))
            for line in [*row.failure.splitlines(), *(f"{s.kind}: {s.reason}  {s.where}" for s in row.stops)]:
                console.print("    " + line, markup=False)
            for line in row.recompiles:
                console.print("    recompiled: " + line, markup=False)
            if options.json:
                found = [dataclasses.asdict(r) for r in rows.values()]
                options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.page:
        PAGE.write_text(page(list(rows.values())))
    failed = [r for r in ran if r.failure]
    whole = sum(r.whole for r in ran)
    console.print(f"{len(ran)} models, {whole} in one graph ({100 * whole / len(ran):.1f} %), {len(failed)} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
