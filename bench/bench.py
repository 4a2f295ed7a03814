"""Eager, torch.compile and Vesta side by side: one process per workload and compiler, calls interleaved in rounds.

    make bench                               everything: about three quarters of an hour on two cores
    python -m bench --quick                  fewer and shorter rounds
    python -m bench --only llama resnet50    some models or kernels
    python -m bench --sections capture       the cost of capture: first calls, hits, guards, breaks
    python -m bench --sections sweep         single operators against eager: see bench/sweep.py

The compilers are torch.compile (inductor), torch.compile(backend="vesta") (backend) and vesta.compile (vesta). First
calls start with empty caches and with everything imported. A ratio is eager's time over the compiler's in the same
round, so that the machine's drift cancels; shown are their median and range. Writes results.json and plots to --out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from bench import capture, machine, plot, sweep
from bench.processes import COMPILERS, ROOT, Run, Worker, built_program
from bench.workloads import DTYPES, KERNELS, MODELS

SECTIONS = ("models", "kernels", "capture", "cpp", "sweep")
KERNEL_COMPILERS = ("eager", "inductor", "vesta")  # a kernel is the same through both of Vesta's entry points


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


# ---- tables ----------------------------------------------------------------------------------------------------------


def ratio_text(run: Run | None, aim: float) -> str:
    if run is None or not run.ratios:
        return "-"
    text = f"{run.ratio:.2f} ({min(run.ratios):.2f}..{max(run.ratios):.2f})"
    colour = "green" if run.ratio >= aim else "yellow" if max(run.ratios) >= aim else "red"
    return f"[{colour}]{text}[/{colour}]" if aim else text


def over_text(runs: dict[str, Run]) -> str:
    """The ratio of a call through torch.compile(backend="vesta") to one through vesta.compile."""
    rounds = [runs[c].rounds_s if c in runs else [] for c in ("backend", "vesta")]
    if not all(rounds):
        return "-"
    ratios = [a / b for a, b in zip(*rounds, strict=False)]
    colour = "green" if statistics.median(ratios) >= 1 else "yellow" if max(ratios) >= 1 else "red"
    return f"[{colour}]{statistics.median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})[/{colour}]"


def model_table(results: dict[str, dict[str, Run]]) -> Table:
    table = Table(title="Models: batch 1; ratios are eager's time over the compiler's (median, range of rounds)")
    for name in (
        "model",
        "first call s",
        "warm ms",
        "loaded ms",
        "file KiB",
        "own compile ms",
        "steady ms",
        "Inductor",
        "backend",
        "Vesta",
        "aim",
        "over backend",
        "breaks",
        "peak MiB",
        "tensors MiB",
        "packed MiB",
        "error",
    ):
        table.add_column(name, justify="left" if name == "model" else "right")
    table.caption = (
        'first call, steady and peaks: eager / torch.compile / torch.compile(backend="vesta") / vesta.compile; own '
        "compile: the same without eager; warm: the first call of a further process beyond a steady one, with caches "
        "that the first has filled (of eager, what torch itself does once); loaded: vesta.load of the saved program "
        "and its first call, beyond a steady one; file: such a file without weights; over backend: the time through "
        "torch.compile's entry point over vesta.compile's. "
        "peak: the process, with compilers and Python; tensors: what a call holds beside inputs and weights, "
        "Vesta's arena included"
    )

    def each(runs: dict[str, Run], show: Any, which: tuple[str, ...] = COMPILERS) -> str:
        return " / ".join("-" if c not in runs else "fails" if runs[c].failure else show(runs[c]) for c in which)

    for name, runs in results.items():
        aim = MODELS[name].aim
        vesta = runs.get("vesta")
        table.add_row(
            name,
            each(runs, lambda r: f"{r.first_s:.2f}"),
            each(runs, lambda r: f"{r.warm_ms:.0f}"),
            "-" if vesta is None or not vesta.loaded_beyond_s else f"{vesta.loaded_ms:.0f}",
            "-" if vesta is None or not vesta.file_bytes else f"{vesta.file_bytes / 1024:.0f}",
            each(runs, lambda r: f"{r.compile_ms:.0f}", COMPILERS[1:]),
            each(runs, lambda r: f"{r.median_ms:.4g}"),
            ratio_text(runs.get("inductor"), 0),
            ratio_text(runs.get("backend"), 0),
            ratio_text(vesta, aim),
            f"{aim:g}",
            over_text(runs),
            "-" if vesta is None or vesta.failure else str(len(vesta.details.get("breaks", []))),
            each(runs, lambda r: f"{r.peak_mib:.0f}"),
            each(runs, lambda r: f"{r.tensor_mib:.3g}"),
            "-" if vesta is None or vesta.failure else f"{vesta.details['packed_bytes'] / 2**20:.3g}",
            "-" if vesta is None or vesta.failure else f"{vesta.error:.1e}",
        )
    return table


def floor_ms(name: str, dtype: str, what: dict[str, float]) -> tuple[float, str]:
    """The least possible time of a kernel on this machine, and its bound."""
    kernel = KERNELS[name]
    inputs = kernel.inputs(DTYPES[dtype])
    moved = sum(t.nbytes for t in inputs) + kernel.written(inputs)
    by_memory = 1e3 * moved / what["copy_bytes_per_s"]
    by_math = 1e3 * inputs[0].numel() * what[f"{kernel.math}_s"] if kernel.math else 0.0
    return max(by_memory, by_math), "memory" if by_memory >= by_math else kernel.math


def kernel_table(results: dict[str, dict[str, Run]], what: dict[str, float]) -> Table:
    table = Table(
        title=f"Single kernels against {what['copy_bytes_per_s'] / 1e9:.1f} GB/s (copy) and in-cache vector functions"
    )
    for column in ("kernel", "floor ms", "bound by", "eager ms", "Inductor ms", "Vesta ms", "Vesta / floor"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    for key, runs in results.items():
        name, _, dtype = key.partition(":")
        least, bound = floor_ms(name, dtype, what)
        vesta = runs.get("vesta")
        times = [f"{runs[c].median_ms:.2f}" if c in runs and not runs[c].failure else "-" for c in KERNEL_COMPILERS]
        over = "-"
        if vesta and not vesta.failure:
            share = vesta.median_ms / least
            over = f"[{'green' if share <= KERNELS[name].aim else 'red'}]{share:.2f}[/]"
        table.add_row(f"{name} {dtype}", f"{least:.2f}", bound, *times, over)
    return table


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
    rounds = options.rounds or (3 if options.quick else 9)
    seconds = 0.1 if options.quick else 0.4
    processes = 1 if options.quick else 3

    def wanted(name: str) -> bool:
        return not options.only or name in options.only

    console = Console(width=max(Console().width, 150) if not sys.stdout.isatty() else None)
    compilers: list[str] = options.compilers
    models: dict[str, dict[str, Run]] = {}
    kernels: dict[str, dict[str, Run]] = {}
    rows: list[capture.Row] = []
    failures: list[str] = []
    cpp_times: dict[str, Any] = {}
    timings: list[sweep.Timing] = []
    model_names = [n for n in MODELS if "models" in options.sections and wanted(n)]
    kernel_names = [n for n in KERNELS if "kernels" in options.sections and wanted(n)]
    with console.status("") as status:

        def say(what: str) -> None:
            status.update(what)
            if not console.is_terminal:
                print(f"{datetime.now():%H:%M:%S} {what}", file=sys.stderr, flush=True)

        say("the machine")
        what = machine.measure()
        for i, name in enumerate(model_names, 1):
            say(f"model {name}, {i} of {len(model_names)}")
            models[name] = measure(f"model:{name}", compilers, rounds, seconds, options.limit, processes)
        for i, name in enumerate(kernel_names, 1):
            for dtype in DTYPES:
                say(f"kernel {name} {dtype}, {i} of {len(kernel_names)}")
                key = f"{name}:{dtype}"
                some = [c for c in compilers if c in KERNEL_COMPILERS]
                kernels[key] = measure(f"kernel:{key}", some, rounds, seconds / 2, options.limit, 0)
        if "capture" in options.sections:
            called, failures = capture.calls(compilers, rounds, seconds / 4, options.limit, say)
            rows = capture.first_calls([c for c in compilers if c != "eager"], options.limit, models, say) + called
        if "cpp" in options.sections:
            say("the C++ entry point")
            cpp_times = cpp_call(options.cpp)
        if "sweep" in options.sections and not options.only:
            timings = sweep.sweep(list(sweep.MODES), options.quick, options.limit, say)

    if models:
        console.print(model_table(models))
    if kernels:
        console.print(kernel_table(kernels, what))
    if cpp_times:
        console.print(f"C++ entry point, relu(x * y + 1) on 8x8, ns a call: {cpp_times}", highlight=False)
    if rows:
        console.print(capture.table(rows))
    sweep.print_tables(console, timings)
    failures += [
        f"{name} with {compiler}: {run.failure}"
        for group in (models, kernels)
        for name, runs in group.items()
        for compiler, run in runs.items()
        if run.failure
    ]
    failures += [f"{t.label}, {t.mode}: {t.failure}" for t in timings if t.failure]
    for line in failures:
        console.print(line, style="red", markup=False, soft_wrap=True)

    options.out.mkdir(parents=True, exist_ok=True)
    path = options.json or options.out / "results.json"
    as_data: dict[str, Any] = {
        "machine": {**what, "cores": os.cpu_count(), "torch": torch.__version__, "threads": torch.get_num_threads()},
        "models": {n: {c: asdict(r) for c, r in runs.items()} for n, runs in models.items()},
        "kernels": {n: {c: asdict(r) for c, r in runs.items()} for n, runs in kernels.items()},
        "capture": capture.as_data(rows),
        "cpp": cpp_times,
        "sweep": sweep.summary(timings),
    }
    path.write_text(json.dumps(as_data, indent=1))
    if models:
        plot.draw(as_data["models"], options.out / "bench.png")
        console.print(f"{path}, {options.out / 'bench.png'}", highlight=False)
    return 1 if failures else 0
