"""Tests on a GPU; the last table that it printed is docs/cuda-results.md.

python -m tests.cuda                    programs, traps, first calls, samples of operators, models, random programs,
                                        faults; the programs again under compute-sanitizer's memcheck and racecheck
python -m tests.cuda --only programs    one part
python -m tests.cuda --write FILE       also writes the results as a page
"""

from __future__ import annotations

import argparse
import datetime
import functools
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from tests.cuda import (
    deadlines,  # noqa: F401 (more traps)
    estimates,  # noqa: F401
    faults,
    models,
    operators,
    prepacked,  # noqa: F401
    processes,  # noqa: F401
    products,  # noqa: F401
    programs,
    recorded,  # noqa: F401
    sanitized,
    training,  # noqa: F401
    traps,
    tuned,  # noqa: F401
    two_gpus,  # noqa: F401
)

PARTS = (
    "programs",
    "traps",
    "first calls",
    "operators",
    "recorded operators",
    "models",
    "random",
    "faults",
    *sanitized.TOOLS,
)


def run_programs() -> tuple[int, list[str]]:
    failures = []
    todo = list(programs.programs())
    for program in todo:
        try:
            found = programs.check(program)
        except Exception as e:
            found = f"{type(e).__name__}: {e}"
        if found:
            failures.append(f"{program.name}: {found}")
            print("  " + failures[-1], flush=True)
    return len(todo), failures


def run_traps(jobs: int, notes: list[str]) -> tuple[int, list[str]]:
    left_out = {name: what for name, (has, what) in traps.NEEDS.items() if not has()}
    not_run = [f"{name}: did not run, for lack of {what}" for name, what in sorted(left_out.items())]
    for note in not_run:
        print("  " + note, flush=True)
    notes += not_run
    todo = [(name, allocator) for name in traps.TRAPS if name not in left_out for allocator in traps.ALLOCATORS]
    todo = [item for item in todo if item not in traps.NOT_WITH]

    def one(item: tuple[str, str]) -> str:
        name, allocator = item
        command = [
            sys.executable,
            "-c",
            f"from tests.cuda.__main__ import traps; traps.run({name!r})",
        ]
        try:
            done = subprocess.run(
                command, env=traps.environment(allocator), capture_output=True, text=True, timeout=120
            )
        except subprocess.TimeoutExpired:
            return f"{name}, {allocator}: no end after 120 s"
        if done.returncode == 0:
            return ""
        last = [line for line in done.stderr.strip().splitlines() if line.strip()][-1:] or [f"exit {done.returncode}"]
        return f"{name}, {allocator}: {last[0]}"

    with ThreadPoolExecutor(jobs) as pool:
        failures = [f for f in pool.map(one, [t for t in todo if t[0] not in traps.ALONE]) if f]
    failures += [f for f in map(one, [t for t in todo if t[0] in traps.ALONE]) if f]
    for f in failures:
        print("  " + f, flush=True)
    return len(todo), failures


def run_first_calls() -> tuple[int, list[str]]:
    """1,000 first calls, each with a compile that takes longer than its deadline, on a machine without an idle core."""
    command = [sys.executable, "-c", "from tests.programs import first_calls; first_calls.check_first_calls('cuda')"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    except subprocess.TimeoutExpired:
        return 1, ["first calls: no end after 400 s"]
    print("  " + done.stdout.strip(), flush=True)
    last = [line for line in done.stderr.strip().splitlines() if line.strip()][-1:] or [f"exit {done.returncode}"]
    return 1, [] if done.returncode == 0 else [f"first calls: {last[0]}"]


def run_operators(jobs: int, samples: int, entry: str) -> tuple[int, list[str]]:
    count, failures, compiled = operators.run(jobs, samples, entry)
    how = "compiled" if entry == "vesta" else "as CUDA graphs"
    print(f"  {compiled} of {count} calls ran {how}", flush=True)
    for f in failures:
        print("  " + f.replace("\n", "\n    "), flush=True)
    return count, [f.splitlines()[0] for f in failures]


def run_models(kind: str, items: list[str], jobs: int, limit_s: float, notes: list[str]) -> tuple[int, list[str]]:
    count, failures, not_run = models.run(kind, items, jobs, limit_s)
    notes += sorted(not_run)
    for f in [*failures, *not_run]:
        print("  " + f.replace("\n", "\n    "), flush=True)
    return count, [f.splitlines()[0] for f in failures]


def run_faults(places: int, jobs: int, limit_s: float) -> tuple[int, list[str]]:
    count, failures, reached = faults.run(places, jobs, limit_s)
    for line in [*failures, *reached]:
        print("  " + line.replace("\n", "\n    "), flush=True)
    return count, [f.splitlines()[0] for f in failures]


def run_sanitized(tool: str, limit_s: float, notes: list[str]) -> tuple[int, list[str]]:
    count, failures = sanitized.run(tool, limit_s, notes)
    for f in failures:
        print("  " + f, flush=True)
    return count, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--jobs", type=int, default=8, help="processes at once")
    parser.add_argument("--samples", type=int, default=2, help="of each operator and dtype")
    parser.add_argument("--models", type=int, default=45, metavar="N", help="models of the zoo")
    parser.add_argument("--random", type=int, default=500, metavar="N", help="random programs")
    parser.add_argument("--faults", type=int, default=200, metavar="N", help="places of faults")
    parser.add_argument(
        "--limit", type=float, default=400.0, metavar="S", help="seconds for a process of models or under a sanitizer"
    )
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU: nothing of this was run: " + ", ".join(options.only))
        return 1

    notes: list[str] = []
    parts: dict[str, Callable[[], tuple[int, list[str]]]] = {
        "programs": run_programs,
        "traps": lambda: run_traps(options.jobs, notes),
        "first calls": run_first_calls,
        "operators": lambda: run_operators(options.jobs, options.samples, "vesta"),
        "recorded operators": lambda: run_operators(options.jobs, options.samples, "vesta-recorded"),
        "models": lambda: run_models(
            "models", models.names_of_models(options.models), options.jobs, options.limit, notes
        ),
        "random": lambda: run_models(
            "random", [str(i) for i in range(options.random)], options.jobs, options.limit, notes
        ),
    }
    parts["faults"] = lambda: run_faults(options.faults, options.jobs, options.limit)
    for tool in sanitized.TOOLS:
        parts[tool] = functools.partial(run_sanitized, tool, options.limit, notes)
    page = [
        "# Results on a GPU",
        "",
        "`tools/test_cuda.sh` wrote this page.",
        "",
        f"{datetime.date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}, "
        f"CUDA {torch.version.cuda}",
        "",
        "| part | runs | failures | seconds |",
        "|---|---|---|---|",
    ]
    details: list[str] = []
    failed = False
    for name in options.only:
        print(name, flush=True)
        start = time.perf_counter()
        count, failures = parts[name]()
        failed |= bool(failures)
        line = f"| {name} | {count} | {len(failures)} | {time.perf_counter() - start:.0f} |"
        print(line, flush=True)
        page.append(line)
        details += [f"- {name}: {f}" for f in failures]
        if options.write:  # after each part: a run that is cut off leaves the results it has
            rest = [*details, *(f"- note: {note}" for note in notes)]
            options.write.write_text("\n".join([*page, "", *rest]).rstrip() + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
