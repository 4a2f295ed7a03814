"""The results of a benchmark: tables, and the file results.json, which is written after every workload."""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from bench import capture, plot, sweep
from bench.processes import COMPILERS, Run
from bench.workloads import DTYPES, KERNELS, MODELS

__all__ = ["KERNEL_COMPILERS", "Results"]

KERNEL_COMPILERS = ("eager", "inductor", "vesta")  # a kernel is the same through both of Vesta's entry points


@dataclass
class Results:
    """The measurements so far. ``machine``: see bench/machine.py. ``models`` and ``kernels``: runs by workload and
    compiler. ``failures``: of what else was measured."""

    machine: dict[str, float]
    models: dict[str, dict[str, Run]] = field(default_factory=dict)
    kernels: dict[str, dict[str, Run]] = field(default_factory=dict)
    capture: list[capture.Row] = field(default_factory=list)
    cpp: dict[str, Any] = field(default_factory=dict)
    sweep: list[sweep.Timing] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def print(self, console: Console) -> None:
        if self.models:
            console.print(model_table(self.models))
        if self.kernels:
            console.print(kernel_table(self.kernels, self.machine))
        if self.cpp:
            console.print(f"C++ entry point, relu(x * y + 1) on 8x8, ns a call: {self.cpp}", highlight=False)
        if self.capture:
            console.print(capture.table(self.capture))
        sweep.print_tables(console, self.sweep)
        for line in self.all_failures():
            console.print(line, style="red", markup=False, soft_wrap=True)

    def all_failures(self) -> list[str]:
        runs = [
            f"{name} with {compiler}: {run.failure}"
            for group in (self.models, self.kernels)
            for name, by_compiler in group.items()
            for compiler, run in by_compiler.items()
            if run.failure
        ]
        return [*self.failures, *runs, *(f"{t.label}, {t.mode}: {t.failure}" for t in self.sweep if t.failure)]

    def write(self, path: Path) -> None:
        """Replaces the file at once, so that it is whole whenever this process ends."""
        as_data = {
            "machine": {
                **self.machine,
                "cores": os.cpu_count(),
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
            },
            "models": {n: {c: asdict(r) for c, r in runs.items()} for n, runs in self.models.items()},
            "kernels": {n: {c: asdict(r) for c, r in runs.items()} for n, runs in self.kernels.items()},
            "capture": capture.as_data(self.capture),
            "cpp": self.cpp,
            "sweep": sweep.summary(self.sweep),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(as_data, indent=1))
        part.replace(path)

    def draw(self, path: Path) -> None:
        plot.draw({n: {c: asdict(r) for c, r in runs.items()} for n, runs in self.models.items()}, path)


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
