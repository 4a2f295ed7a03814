"""Eager, torch.compile and Vesta side by side: one process per workload and compiler, calls interleaved in rounds.

    make bench                               everything: about an hour on two cores
    python -m bench --quick                  fewer and shorter rounds
    python -m bench --only llama resnet50    some models or kernels
    python -m bench --sections capture       the cost of capture: first calls, hits, guards, breaks
    python -m bench --sections sweep         single operators against eager: see bench/sweep.py

The compilers are torch.compile (inductor), torch.compile(backend="vesta") (backend) and vesta.compile (vesta). First
calls start with empty caches and with everything imported. A ratio is eager's time over the compiler's in the same
round, so that the machine's drift cancels; shown are their median and range. Writes results.json and plots to --out;
the file is written after every workload, and Ctrl-C shows what was measured until then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import capture, machine, sweep
from bench.processes import COMPILERS, ROOT, Run, Worker, built_program
from bench.results import KERNEL_COMPILERS, Results
from bench.workloads import DTYPES, KERNELS, MODELS

SECTIONS = ("models", "kernels", "capture", "cpp", "sweep")


def measure(
    workload: str, compilers: list[str], rounds: int, seconds: float, limit_s: float, processes: int
) -> dict[str, Run]:
    """`processes`: the number of processes that measure a warm first call."""
    with ExitStack() as stack:
        cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="vesta-bench-"))
        workers: dict[str, Worker] = {}
        for compiler in compilers:
            worker = workers[compiler] = Worker(
                "bench.worker", [workload, compiler], f"{cache}/{compiler}", limit_s, keeps=True
            )
            stack.callback(worker.close)
            got = worker.ask("first")
            worker.run.first_s, worker.run.compile_ms = got.get("first_s", 0.0), got.get("compile_ms", 0.0)
            worker.run.trace_ms = got.get("trace_ms", 0.0)

        def beyond(compiler: str, folder: str) -> list[float]:
            """The additional time of first calls in new processes over later calls."""
            took = []
            for _ in range(1 if compiler == "inductor" else processes):
                again = Worker("bench.worker", [workload, compiler], f"{cache}/{folder}", limit_s, keeps=True)
                first, steady = again.ask("first").get("first_s"), again.ask("round 0.1").get("median_s")
                if first and steady:
                    took.append(first - steady)
                again.close()
            return took

        for compiler in [c for c in compilers if not workers[c].run.failure]:
            workers[compiler].run.warm_beyond_s = beyond(compiler, compiler)
        if "vesta" in workers:
            saved = workers["vesta"]
            saved.run.file_bytes = saved.ask("save").get("file_bytes", 0)
            if saved.run.file_bytes:
                saved.run.loaded_beyond_s = beyond("loaded", "vesta")
        for worker in workers.values():
            worker.ask(f"round {seconds / 4}")  # warms up
        for i in range(rounds):
            order = compilers[i % len(compilers) :] + compilers[: i % len(compilers)]
            times = {c: workers[c].ask(f"round {seconds}").get("median_s") for c in order}
            for compiler, t in times.items():
                if t:
                    workers[compiler].run.rounds_s.append(t)
                    if times.get("eager"):
                        workers[compiler].run.ratios.append(times["eager"] / t)
        for worker in workers.values():
            got = worker.ask("finish")
            worker.run.peak_mib, worker.run.error = got.pop("peak_mib", 0.0), got.pop("error", 0.0)
            worker.run.tensor_bytes = got.pop("tensor_bytes", 0)
            worker.run.details = got
        return {compiler: worker.run for compiler, worker in workers.items()}


def cpp_call(path: Path | None) -> dict[str, Any]:
    """The output of the C++ benchmark of a call: {"hit_ns": ..., "kernel_ns": ..., "eager_ns": ...}."""
    path = path or built_program("vesta_bench_cpp_call")
    if path is None or not path.exists():
        return {}
    done = subprocess.run([str(path)], capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout) if done.returncode == 0 else {"failure": done.stderr[-300:]}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help=f"only these of {', '.join([*MODELS, *KERNELS])}"
    )
    parser.add_argument("--compilers", nargs="*", default=list(COMPILERS), choices=COMPILERS)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 0.1 s instead of 9 of 0.4 s")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--sections", nargs="*", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument(
        "--limit", type=float, default=240.0, metavar="S", help="seconds to wait for one answer of a process"
    )
    parser.add_argument(
        "--cpp",
        type=Path,
        metavar="PROGRAM",
        help="the C++ benchmark of a call (default: that of the build that is imported)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the results (default: OUT/results.json)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", metavar="FOLDER")
    options = parser.parse_args(arguments)
    unknown = [n for n in options.only if n not in MODELS and n not in KERNELS]
    if unknown:
        parser.error(f"nothing called {', '.join(unknown)}")
    console = Console(width=max(Console().width, 150) if not sys.stdout.isatty() else None)
    path = options.json or options.out / "results.json"
    with console.status("") as status:

        def say(what: str) -> None:
            status.update(what)
            if not console.is_terminal:
                print(f"{datetime.now():%H:%M:%S} {what}", file=sys.stderr, flush=True)

        say("the machine")
        results = Results(machine.measure())
        stopped = False
        try:
            for _ in measurements(options, results, say):
                results.write(path)
        except KeyboardInterrupt:
            stopped = True
    results.print(console)
    if stopped:
        console.print("stopped: these are the results so far", style="red")
    if results.models:
        options.out.mkdir(parents=True, exist_ok=True)
        results.draw(options.out / "bench.png")
        console.print(f"{path}, {options.out / 'bench.png'}", highlight=False)
    return 130 if stopped else 1 if results.all_failures() else 0


def measurements(options: argparse.Namespace, results: Results, say: Callable[[str], None]) -> Iterator[None]:
    """Adds to the results what each measurement finds, and yields after it."""
    rounds = options.rounds or (3 if options.quick else 9)
    seconds = 0.1 if options.quick else 0.4
    processes = 1 if options.quick else 3
    compilers: list[str] = options.compilers

    def wanted(section: str, of: Iterable[str]) -> list[str]:
        return [n for n in of if section in options.sections and (not options.only or n in options.only)]

    names = wanted("models", MODELS)
    for i, name in enumerate(names, 1):
        say(f"model {name}, {i} of {len(names)}")
        results.models[name] = measure(f"model:{name}", compilers, rounds, seconds, options.limit, processes)
        yield
    names = wanted("kernels", KERNELS)
    for i, name in enumerate(names, 1):
        for dtype in DTYPES:
            say(f"kernel {name} {dtype}, {i} of {len(names)}")
            key = f"{name}:{dtype}"
            some = [c for c in compilers if c in KERNEL_COMPILERS]
            results.kernels[key] = measure(f"kernel:{key}", some, rounds, seconds / 2, options.limit, 0)
            yield
    if "capture" in options.sections:
        called, results.failures = capture.calls(compilers, rounds, seconds / 4, options.limit, say)
        first = capture.first_calls([c for c in compilers if c != "eager"], options.limit, results.models, say)
        results.capture = first + called
        yield
    if "cpp" in options.sections:
        say("the C++ entry point")
        results.cpp = cpp_call(options.cpp)
        yield
    if "sweep" in options.sections and not options.only:
        results.sweep = sweep.sweep(list(sweep.MODES), options.quick, options.limit, say)
        yield
