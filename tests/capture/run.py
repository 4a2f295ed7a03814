"""Python semantics under `vesta.compile`, case by case.

    python -m tests.capture.run                               every file
    python -m tests.capture.run --file loops --file strings   some files
    python -m tests.capture.run --case 'yield_*' --verbose    cases by shell pattern, every difference in full
    python -m tests.capture.run --plain                       the harness against itself: no case may differ
    python -m tests.capture.run --list                        files and their cases
    python -m tests.capture.run --here --case for_else        in this process, for a debugger
    python -m tests.capture.run --made                        what was compiled of each case, and why not more
    python -m tests.capture.run --reasons                     reasons of breaks and of what ran eager, by count

Each file runs in a process of its own; a crash or a hang costs one case.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tests.capture.case import case_files, case_names
from tests.capture.running import run
from tests.capture.semantics import Outcome, Task, outcome_of, resolve


def kind(outcome: Outcome) -> str:
    """Worst first: crash, hang, wrong."""
    text = outcome.differences[0]
    for word in ("crash", "hang", "exit with code", "the harness"):
        if text.startswith(word):
            return word
    if ": outcome:" in text:
        return "outcome"
    return "identity" if "identity:" in text else "wrong"


_ORDER = ["crash", "hang", "exit with code", "the harness", "outcome", "wrong", "identity"]


def table(failures: list[Outcome], verbose: bool) -> Table:
    made = Table("file", "case", "kind", "first difference", title="differences", show_lines=verbose)
    for outcome in sorted(failures, key=lambda o: (_ORDER.index(kind(o)), o.file, o.case)):
        text = "\n".join(outcome.differences) if verbose else outcome.differences[0][:300]
        made.add_row(outcome.file, outcome.case, kind(outcome), Text(text))
    return made


def reasons(outcomes: list[Outcome]) -> Table:
    """Why graphs ended and calls ran eager: reasons without places, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for o in outcomes:
        for sort in ("breaks", "skipped", "fallbacks"):
            for text in getattr(o.made, sort, ()):
                reason = text if sort == "fallbacks" else text.partition(" ")[2]
                counts[sort, reason] += 1
                example.setdefault((sort, reason), f"{o.file}.{o.case}")
    made = Table("what", "times", "reason", "for example", title="reasons")
    for (sort, reason), n in counts.most_common():
        made.add_row(sort, str(n), Text(reason), example[sort, reason])
    return made


def told(outcomes: list[Outcome]) -> str:
    """How much of the cases was compiled at all."""
    known = [o.made for o in outcomes if o.made is not None]
    graphs, hits = sum(1 for m in known if m.operators), sum(1 for m in known if m.hits)
    whole = sum(1 for m in known if m.operators and not (m.breaks or m.skipped or m.fallbacks))
    return f"compiled: operators in {graphs} of {len(known)} cases, hits in {hits}, without a break {whole}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.capture.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", action="append", default=[], metavar="NAME", help="files of cases, by shell pattern")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="cases, by shell pattern")
    parser.add_argument("--plain", action="store_true", help="compile nothing: compares plain Python with itself")
    parser.add_argument("--compile", default="vesta:compile", metavar="MODULE:NAME", help="what compiles (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (%(default)s)")
    parser.add_argument("--limit", type=float, default=30.0, metavar="S", help="seconds for one case (%(default)s)")
    parser.add_argument("--verbose", action="store_true", help="every difference, in full")
    parser.add_argument("--list", action="store_true", help="lists the cases and runs none")
    parser.add_argument("--here", action="store_true", help="runs the cases in this process")
    parser.add_argument("--made", action="store_true", help="tells of each case what was compiled")
    parser.add_argument("--reasons", action="store_true", help="counts the reasons of breaks and of what ran eager")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes the outcomes there")
    options = parser.parse_args(argv)
    console = Console()

    chosen: list[tuple[Path, tuple[str, ...]]] = []
    for path in case_files():
        if options.file and not any(fnmatch.fnmatch(path.stem, p) for p in options.file):
            continue
        names = case_names(path)
        if options.case:
            names = [n for n in names if any(fnmatch.fnmatch(n, p) for p in options.case)]
        if names:
            chosen.append((path, tuple(names)))
    if not chosen:
        parser.error("no case has such a name; --list names them")
    total = sum(len(names) for _, names in chosen)
    if options.list:
        for path, names in chosen:
            console.print(f"[bold]{path.stem}[/] ({len(names)}): {', '.join(names)}", highlight=False)
        console.print(f"{total} cases in {len(chosen)} files")
        return 0

    spec = "plain" if options.plain else options.compile
    outcomes: list[Outcome] = []
    if options.here:
        compile = resolve(spec)
        for path, names in chosen:
            outcomes += [outcome_of(path, name, compile) for name in names]
    else:
        tasks = [Task(str(path), spec, only=names) for path, names in chosen]
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("cases", total=total)
            for outcome in run(tasks, jobs=options.jobs, limit_s=options.limit):
                outcomes.append(outcome)
                progress.update(bar, advance=1, description=outcome.file)

    failures = [o for o in outcomes if o.differences]
    if failures:
        console.print(table(failures, options.verbose))
        kinds = Counter(kind(o) for o in failures)
        console.print(", ".join(f"{name} {kinds[name]}" for name in _ORDER if kinds[name]))
    if options.made:
        for o in outcomes:
            console.print(f"[bold]{o.file}.{o.case}[/] ", Text(str(o.made)), highlight=False)
    if options.reasons:
        console.print(reasons(outcomes))
    if any(o.made for o in outcomes):
        console.print(told(outcomes))
    if options.json:
        rows = [dataclasses.asdict(o) for o in outcomes]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    console.print(f"{total} cases, {len(outcomes) - len(failures)} as plain Python, {len(failures)} different")
    return 1 if failures or len(outcomes) != total else 0


if __name__ == "__main__":
    sys.exit(main())
