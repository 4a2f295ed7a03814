"""Programs of other libraries under `vesta.compile`: right or not, first call, steady ratio, breaks.

    python -m tests.ecosystem                              every program
    python -m tests.ecosystem --only kornia 'diffusers.*'  some: by file, or by shell pattern
    python -m tests.ecosystem --json rows.json --page      keeps the rows, and writes docs/ecosystem.md from them

The libraries are installed into build/ecosystem (VESTA_ECOSYSTEM names another folder), upon the packages of the
environment this is started from: torch stays the one that is there. Each program runs in a process of its own with a
time limit. Exits with 1 if a result is not eager's, with 2 if a program does not even run in eager.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests import isolation
from tests.ecosystem import environment
from tests.ecosystem.page import PAGE, page
from tests.ecosystem.program import PROGRAMS, load_programs
from tests.ecosystem.worker import Row, Stop, verdict, work


def chosen(patterns: Sequence[str]) -> list[str]:
    """Names of programs, by file or by shell pattern."""
    return [
        name
        for name in PROGRAMS
        if not patterns or any(fnmatch.fnmatch(name, p) or name.partition(".")[0] == p for p in patterns)
    ]


def run(names: list[str], rounds: int, jobs: int, limit_s: float, threads: int) -> Iterator[Row]:
    lost: list[Row] = []

    def resume(task: tuple[str, int], _step: object, reason: str) -> None:
        p = PROGRAMS[task[0]]
        lost.append(Row(p.name, p.package, what=p.what, trains=p.trains, failure=reason))

    preload = ("tests.numerics.compare", "tests.programs.models", "rich.console", "vesta")
    tasks = [(name, rounds) for name in names]
    for _, message in isolation.run(tasks, work, resume, jobs=jobs, limit_s=limit_s, threads=threads, preload=preload):
        while lost:
            yield lost.pop()
        yield message[1]
    yield from lost


def told(row: Row) -> str:
    word = verdict(row.error, row.failure, row.slow)
    return (
        f"{row.name:44s} {word} {row.graphs:3d} graphs {len(row.stops):3d} breaks {len(row.recompiles):3d} recompiles "
        f"({row.late_recompiles} late)  first +{row.first_ms:6.0f} ms  {row.eager_us:9.0f} µs, eager's time over ours "
        f"{row.ratio:5.2f}" + (" (trains)" if row.trains else "")
    )


def read(file: Path | None) -> dict[str, Row]:
    rows = {}
    for old in json.loads(file.read_text()) if file and file.exists() else []:
        stops = tuple(Stop(**s) for s in old.pop("stops"))
        rows[old["name"]] = Row(**{**old, "stops": stops, "recompiles": tuple(old["recompiles"])})
    return rows


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="python -m tests.ecosystem", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="FILE, FILE.PROGRAM or a shell pattern")
    parser.add_argument("--list", action="store_true", help="lists the programs and runs none")
    parser.add_argument("--rounds", type=int, default=7, help="of timed calls; 0: nothing is timed (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time; times then mean little (%(default)s)")
    parser.add_argument("--limit", type=float, default=300.0, metavar="S", help="seconds for a program (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="of torch, in each process (%(default)s)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="rows; those of programs that do not run now are kept"
    )
    parser.add_argument("--page", action="store_true", help=f"writes docs/{PAGE.name} from the rows")
    options = parser.parse_args(arguments)
    console = Console(soft_wrap=True, highlight=False)
    load_programs()
    names = chosen(options.only)
    if not names:
        parser.error("no program has such a name; --list names them")
    if options.list:
        for name in names:
            console.print(f"{name:44s} {PROGRAMS[name].what}", markup=False)
        return 0
    environment.enter(arguments, console)
    torch.set_num_threads(options.threads)
    rows = {name: row for name, row in read(options.json).items() if name in PROGRAMS}
    ran: list[Row] = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("programs", total=len(names))
        for row in run(names, options.rounds, options.jobs, options.limit, options.threads):
            ran.append(row)
            rows[row.name] = row
            progress.update(bar, advance=1, description=row.name)
            console.print(told(row))
            for line in (row.error or row.failure).splitlines():
                console.print("    " + line, markup=False)
            for stop in row.stops:
                console.print(f"    {stop.kind}: {stop.reason}  {stop.where}", markup=False)
            for line in row.recompiles:
                console.print("    recompiled: " + line, markup=False)
            if options.json:
                found = [dataclasses.asdict(r) for r in rows.values()]
                options.json.write_text(json.dumps(found, indent=1) + "\n")
    errors = [r.name for r in ran if r.error]
    failed = [r.name for r in ran if r.failure]
    console.print(
        f"{len(ran)} programs, {len(failed)} wrong, {sum(r.slow and not r.trains for r in ran)} slower than eager"
    )
    if errors:
        console.print(f"[red]do not run in eager: {', '.join(errors)}[/]")
        return 2
    if options.page and not options.rounds:
        parser.error("a page needs times")
    if options.page:
        PAGE.write_text(page([rows[name] for name in PROGRAMS if name in rows]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
