"""Every operator and sample of PyTorch's op_db through Vesta, compared with eager.

    python -m tests.numerics.sweep_op_db --jobs 2                       all of it
    python -m tests.numerics.sweep_op_db --ops 'nn.functional.*' add    some operators (shell patterns)
    python -m tests.numerics.sweep_op_db --sample 2 --seed 1            at most two samples of each operator and dtype
    python -m tests.numerics.sweep_op_db --write-page docs/operators.md

Each operator runs in a process of its own; a crash or a hang costs one sample.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests import isolation
from tests.numerics import operators_page
from tests.numerics.entry_points import ENTRY_POINTS
from tests.numerics.op_samples import DTYPES, VARIANTS, Outcome, Task, after, tasks, work


def sweep(todo: list[Task], jobs: int, limit_s: float) -> Iterator[Outcome | Task]:
    """Yields every outcome, and each task when it ends."""
    lost: list[Outcome] = []

    def resume(task: Task, step: Any, reason: str) -> Task | None:
        name, number, variant = "?", -1, "?"
        if step is not None:
            name, number = task.dtypes[step[0]], step[1]
            variant = VARIANTS[step[2]] if step[2] < len(VARIANTS) else "making samples"
        status = "hang" if reason.startswith("hang") else "crash"
        lost.append(Outcome(task.name, name, number, variant, status, reason))
        return after(task, step, reason)

    finished: set[str] = set()
    preload = (
        "tests.numerics.op_samples",
        "rich.progress",
        *(("vesta",) if todo and todo[0].backend == "vesta" else ()),
    )
    for task, message in isolation.run(todo, work, resume, jobs=jobs, limit_s=limit_s, preload=preload):
        while lost:
            yield lost.pop()
        if message[0] == "outcome":
            if task.name not in finished:
                finished.add(task.name)
                yield task
            yield Outcome(**message[1])
    yield from lost


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", nargs="*", default=["*"], metavar="PATTERN", help="operators, by op_db's names")
    parser.add_argument("--dtypes", nargs="*", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--samples", nargs="*", type=int, default=[], metavar="I", help="these samples only, by number")
    parser.add_argument(
        "--sample", type=int, default=0, metavar="N", help="draw at most N samples of each op and dtype"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60.0, metavar="S", help="seconds one sample may take")
    parser.add_argument("--backend", default="vesta", choices=list(ENTRY_POINTS))
    parser.add_argument("--list-failures", action="store_true", help="print one line a failure and nothing more of it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes")
    parser.add_argument("--write-page", type=Path, metavar="FILE", help="write the page of operators")
    options = parser.parse_args(arguments)

    todo = tasks(
        options.backend,
        ops=lambda name: any(fnmatch.fnmatchcase(name, p) for p in options.ops),
        dtypes=tuple(options.dtypes),
        variants=tuple(options.variants),
        seed=options.seed,
        per_dtype=options.sample,
        only=tuple(options.samples),
    )
    console = Console()
    if not todo:
        console.print("no operator of op_db has such a name and dtype")
        return 2
    outcomes: list[Outcome] = []
    counts: Counter[str] = Counter()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("operators", total=len(todo), state="")
        for item in sweep(todo, options.jobs, options.limit):
            if isinstance(item, Task):
                progress.update(bar, advance=1, description=f"{item.name:32.32s}")
                continue
            outcomes.append(item)
            counts[item.status] += 1
            if item.status == "ok" and not item.compiled:
                counts["ran eager"] += 1
            progress.update(bar, state="  ".join(f"{k} {v}" for k, v in sorted(counts.items())))
            if item.status != "ok":
                text = item.key() + ": " + item.status
                if not options.list_failures:
                    text += "\n    " + item.detail.replace("\n", "\n    ")
                progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    failed = [o for o in outcomes if o.status != "ok"]
    ops_failed = {o.op for o in failed}
    console.print(
        f"{len(outcomes)} calls of {len(todo)} operators: {len(outcomes) - len(failed)} right, {len(failed)} not "
        f"({', '.join(f'{v} {k}' for k, v in sorted(Counter(o.status for o in failed).items())) or 'none'}) "
        f"in {len(ops_failed)} operators; {counts['ran eager']} ran eager",
        highlight=False,
    )
    if ops_failed and options.list_failures:
        console.print("operators: " + " ".join(sorted(ops_failed)), highlight=False)
    if options.json:
        options.json.write_text(json.dumps([o.as_dict() for o in outcomes], indent=1))
    if options.write_page:
        options.write_page.write_text(operators_page.text(outcomes, options.sample))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
