"""Eager, Inductor and Vesta side by side: one process per workload and compiler, calls interleaved in rounds.

    make bench                               everything: about half an hour on two cores
    python -m bench --quick                  fewer and shorter rounds
    python -m bench --only llama resnet50    some models or kernels
    python -m bench --no-kernels             models alone

First calls start with empty caches. Ratios are eager's time over the compiler's, taken round by round, the median of
them and their range: the machine's drift falls out. Writes results.json and plots into --out.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from bench import machine, plot
from bench.workloads import DTYPES, KERNELS, MODELS

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("eager", "inductor", "vesta")


@dataclass
class Run:
    """One workload under one compiler."""

    first_s: float = 0.0
    compile_ms: float = 0.0
    rounds_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    peak_mib: float = 0.0
    start_mib: float = 0.0
    tensor_bytes: int = 0
    error: float = 0.0
    failure: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def median_ms(self) -> float:
        return 1e3 * statistics.median(self.rounds_s) if self.rounds_s else float("nan")

    @property
    def tensor_mib(self) -> float:
        """What a call needs beside inputs and weights: the peak of its tensors, and the arena kept for it."""
        arena: int = self.details.get("arena_bytes", 0)
        return (self.tensor_bytes + arena) / 2**20

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios) if self.ratios else float("nan")


class Worker:
    """The process of one Run."""

    def __init__(self, workload: str, compiler: str, cache: str, limit_s: float) -> None:
        self.run = Run()
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": cache,
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self._limit_s = limit_s
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by close)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", workload, compiler],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        self.run.start_mib = self._read().get("rss_mib", 0.0)

    def ask(self, command: str) -> dict[str, Any]:
        """The answer; {} once the process has failed (run.failure says how)."""
        if self.run.failure:
            return {}
        assert self._process.stdin
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._read()

    def _read(self) -> dict[str, Any]:
        import select

        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], self._limit_s)
        line = self._process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        self._process.kill()
        code = self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().strip().splitlines()[-1:] or [""]
        self.run.failure = f"no answer in {self._limit_s:g} s" if not ready else f"exit {code}: {last[0]}"
        return {}

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()


def measure(workload: str, compilers: list[str], rounds: int, seconds: float, limit_s: float) -> dict[str, Run]:
    with ExitStack() as stack:
        cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="vesta-bench-"))
        workers: dict[str, Worker] = {}
        for compiler in compilers:
            worker = workers[compiler] = Worker(workload, compiler, cache, limit_s)
            stack.callback(worker.close)
            got = worker.ask("first")
            worker.run.first_s, worker.run.compile_ms = got.get("first_s", 0.0), got.get("compile_ms", 0.0)
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


def model_table(results: dict[str, dict[str, Run]]) -> Table:
    table = Table(title="Models: batch 1; ratios are eager's time over the compiler's (median, range of rounds)")
    for name in (
        "model",
        "first call s",
        "own compile ms",
        "steady ms",
        "Inductor",
        "Vesta",
        "aim",
        "peak MiB",
        "tensors MiB",
        "packed MiB",
        "error",
    ):
        table.add_column(name, justify="left" if name == "model" else "right")
    table.caption = (
        "first call, steady and peaks: eager / Inductor / Vesta; own compile: Inductor / Vesta. "
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
            each(runs, lambda r: f"{r.compile_ms:.0f}", COMPILERS[1:]),
            each(runs, lambda r: f"{r.median_ms:.4g}"),
            ratio_text(runs.get("inductor"), 0),
            ratio_text(vesta, aim),
            f"{aim:g}",
            each(runs, lambda r: f"{r.peak_mib:.0f}"),
            each(runs, lambda r: f"{r.tensor_mib:.3g}"),
            "-" if vesta is None or vesta.failure else f"{vesta.details['packed_bytes'] / 2**20:.3g}",
            "-" if vesta is None or vesta.failure else f"{vesta.error:.1e}",
        )
    return table


def floor_ms(name: str, dtype: str, what: dict[str, float]) -> tuple[float, str]:
    """The least time of a kernel on this machine, and what bounds it."""
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
        times = [f"{runs[c].median_ms:.2f}" if c in runs and not runs[c].failure else "-" for c in COMPILERS]
        over = "-"
        if vesta and not vesta.failure:
            share = vesta.median_ms / least
            over = f"[{'green' if share <= KERNELS[name].aim else 'red'}]{share:.2f}[/]"
        table.add_row(f"{name} {dtype}", f"{least:.2f}", bound, *times, over)
    return table


def door(path: Path | None) -> dict[str, Any]:
    """What the C++ benchmark of the front door prints: {"hit_ns": ..., "kernel_ns": ..., "eager_ns": ...}."""
    path = path or next(iter(sorted(ROOT.glob("build/*/bench/vesta_bench_door"))), None)
    if path is None or not path.exists():
        return {}
    done = subprocess.run([str(path)], capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout) if done.returncode == 0 else {"failure": done.stderr[-300:]}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help=f"of {', '.join([*MODELS, *KERNELS])}")
    parser.add_argument("--compilers", nargs="*", default=list(COMPILERS), choices=COMPILERS)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 0.1 s instead of 9 of 0.4 s")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--no-kernels", action="store_true")
    parser.add_argument("--no-models", action="store_true")
    parser.add_argument("--limit", type=float, default=240.0, metavar="S", help="seconds for one answer of a process")
    parser.add_argument("--door", type=Path, metavar="PROGRAM", help="the C++ benchmark of the front door")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go; OUT/results.json otherwise")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", metavar="FOLDER")
    options = parser.parse_args(arguments)
    unknown = [n for n in options.only if n not in MODELS and n not in KERNELS]
    if unknown:
        parser.error(f"nothing called {', '.join(unknown)}")
    rounds = options.rounds or (3 if options.quick else 9)
    seconds = 0.1 if options.quick else 0.4

    def wanted(name: str) -> bool:
        return not options.only or name in options.only

    console = Console(width=max(Console().width, 150) if not sys.stdout.isatty() else None)
    compilers: list[str] = options.compilers
    models: dict[str, dict[str, Run]] = {}
    kernels: dict[str, dict[str, Run]] = {}
    with console.status("") as status:
        status.update("the machine")
        what = machine.measure()
        for name in [] if options.no_models else [n for n in MODELS if wanted(n)]:
            status.update(f"model {name}")
            models[name] = measure(f"model:{name}", compilers, rounds, seconds, options.limit)
        for name in [] if options.no_kernels else [n for n in KERNELS if wanted(n)]:
            for dtype in DTYPES:
                status.update(f"kernel {name} {dtype}")
                key = f"{name}:{dtype}"
                kernels[key] = measure(f"kernel:{key}", compilers, rounds, seconds / 2, options.limit)
        status.update("the C++ door")
        door_times = door(options.door)

    if models:
        console.print(model_table(models))
    if kernels:
        console.print(kernel_table(kernels, what))
    if door_times:
        console.print(f"C++ door, relu(x * y + 1) on 8x8, ns a call: {door_times}", highlight=False)
    failures = [
        f"{name} with {compiler}: {run.failure}"
        for group in (models, kernels)
        for name, runs in group.items()
        for compiler, run in runs.items()
        if run.failure
    ]
    for line in failures:
        console.print(line, style="red", markup=False, soft_wrap=True)

    options.out.mkdir(parents=True, exist_ok=True)
    path = options.json or options.out / "results.json"
    as_data: dict[str, Any] = {
        "machine": {**what, "cores": os.cpu_count(), "torch": torch.__version__, "threads": torch.get_num_threads()},
        "models": {n: {c: asdict(r) for c, r in runs.items()} for n, runs in models.items()},
        "kernels": {n: {c: asdict(r) for c, r in runs.items()} for n, runs in kernels.items()},
        "door": door_times,
    }
    path.write_text(json.dumps(as_data, indent=1))
    if models:
        plot.draw(as_data["models"], options.out / "bench.png")
        console.print(f"{path}, {options.out / 'bench.png'}", highlight=False)
    return 1 if failures else 0
