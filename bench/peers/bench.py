"""Vesta beside OpenVINO and ONNX Runtime: a process for each model, batch size and engine, by turns with eager.

    make bench-peers                                   installs the engines, then everything: about an hour on two cores
    make bench-peers BENCH_ARGS="--quick"              fewer and shorter rounds
    python -m bench.peers --models bert --batches 1    one model
    python -m bench.peers --engines vesta              what needs no installation
    python -m bench.peers --sections products decode   matrix products on one core; one token of a decoder
    python -m bench.peers --show build/bench/peers.json    tables and plots of an earlier run

A ratio is eager's time over the engine's in the same round of the same process; shown are medians and ranges. Vesta is
compared with the engine whose calls take less time: that engine's time over Vesta's in the same round, in which their
processes take turns. The engines use as many threads as eager, and are set for the latency of one call in float32. A
model that an engine cannot convert, or computes differently from eager, is a row that says so. Writes peers.json and
plots to --out. Fails if Vesta fails or differs, whatever the others do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from bench.peers import report
from bench.peers.engines import ENGINES, versions
from bench.peers.products import GRID
from bench.peers.results import Cell, Product, Results, Run
from bench.peers.workloads import DECODE, MODELS
from bench.processes import ROOT, Worker, built_program

SECTIONS = ("models", "products", "decode")
FOLDER = ROOT / "build" / "peers"  # where tools/setup.sh --peers installs the engines
Say = Callable[[str], None]


class Asked:
    """A process with one workload and one engine, and what it has answered."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.run = worker, Run(start_mib=worker.run.start_mib)

    def ask(self, command: str) -> dict[str, Any]:
        self.worker.resume()
        got = {} if self.run.failure else self.worker.ask(command)
        self.worker.pause()
        self.run.failure = self.run.failure or self.worker.run.failure or got.get("failure", "")
        return got

    def first(self, seconds: float) -> None:
        run, got = self.run, self.ask("first")
        run.first_s, run.parts, run.notes = got.get("first_s", 0.0), got.get("parts", {}), got.get("notes", [])
        self.ask(f"round {seconds / 4}")  # warms up

    def round(self, seconds: float, reads: bool) -> None:
        run = self.run
        if reads and (got := self.ask("read")):
            run.read_bytes_per_s.append(got["bytes_per_s"])
            run.weight_bytes = got["weight_bytes"]
        if pair := self.ask(f"round {seconds}").get("pair"):
            run.pairs.append(pair)

    def finish(self) -> Run:
        got = self.ask("finish")
        self.run.peak_mib, self.run.difference = got.get("peak_mib", 0.0), got.get("difference", 0.0)
        return self.run


def asked(workers: dict[str, Worker], rounds: int, seconds: float, reads: bool) -> dict[str, Run]:
    """Each engine's run. In a round, the engines' processes take turns, so that they meet the same machine. A process
    is stopped when it is not its turn."""
    engines = {engine: Asked(worker) for engine, worker in workers.items()}
    for one in engines.values():
        one.first(seconds)
    for _ in range(rounds):
        for one in engines.values():
            one.round(seconds, reads)
    return {engine: one.finish() for engine, one in engines.items()}


def measure(
    workload: str, batch: int, options: argparse.Namespace, rounds: int, seconds: float, reads: bool
) -> dict[str, Run]:
    """One workload in each engine. `reads`: measures the bandwidth before each round."""
    with ExitStack() as open_now:
        workers = {}
        for engine in options.engines:
            cache = open_now.enter_context(tempfile.TemporaryDirectory(prefix="vesta-bench-"))
            arguments = [workload, str(batch), engine, str(options.threads), str(options.peers)]
            workers[engine] = Worker("bench.peers.worker", arguments, cache, options.limit)
            open_now.callback(workers[engine].close)
            workers[engine].pause()
        return asked(workers, rounds, seconds, reads)


def measure_products(grid: tuple[tuple[int, int, int], ...], rounds: int, limit_s: float, say: Say) -> list[Product]:
    """All in one process, and in a new one after a failure of the process."""
    found = []
    worker: Worker | None = None
    with tempfile.TemporaryDirectory(prefix="vesta-bench-") as cache:
        for m, n, k in grid:
            say(f"product {m} x {n} x {k}")
            if worker is None:
                worker = Worker("bench.peers.products", [], cache, limit_s)
            got = worker.ask(f"{m} {n} {k} 0.01 {rounds}")
            product = Product(m, n, k)
            product.failure = worker.run.failure or got.get("failure", "")
            if not product.failure:
                product.rounds, product.kernels, product.difference = got["rounds"], got["kernels"], got["difference"]
            found.append(product)
            if worker.run.failure:
                worker.close()
                worker = None
        if worker:
            worker.close()
    return found


def fma_operations_per_s() -> float:
    """Of one core; 0 if the build has no program that measures it."""
    program = built_program("vesta_bench_fma_peak")
    if program is None:
        return 0.0
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=True)
    return float(json.loads(done.stdout)["operations_per_s"])


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=list(MODELS),
        choices=list(MODELS),
        metavar="NAME",
        help=f"only these of {', '.join(MODELS)}",
    )
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8], metavar="N")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 0.1 s instead of 7 of 0.4 s")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="of eager and of each engine")
    parser.add_argument(
        "--limit", type=float, default=300.0, metavar="S", help="seconds to wait for one answer of a process"
    )
    parser.add_argument("--peers", type=Path, default=FOLDER, metavar="FOLDER", help="has the engines' packages")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measures nothing: shows the results in this file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the results (default: OUT/peers.json)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", metavar="FOLDER")
    options = parser.parse_args(arguments)
    options.peers = options.peers.resolve()
    for name in ("rounds", "threads"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if min(options.batches) < 1:
        parser.error("--batches must be at least 1")
    if options.show is None:
        missing = {e: p for e in options.engines for p, v in versions(e, options.peers).items() if v is None}
        if missing:
            parser.error(
                f"{', '.join(missing.values())} is not installed in {options.peers}: `make bench-peers` does so, and "
                "--engines vesta does without"
            )
    elif not options.show.exists():
        parser.error(f"there is no {options.show}")
    return options


def measure_all(options: argparse.Namespace, results: Results, keep: Callable[[], None]) -> None:
    """Adds to `results`, and calls `keep` after each model."""
    rounds = options.rounds or (3 if options.quick else 7)
    seconds = 0.1 if options.quick else 0.4
    models = options.models if "models" in options.sections else []
    products = GRID if "products" in options.sections else ()
    decodes = "decode" in options.sections
    steps = len(models) * len(options.batches) + len(products) + decodes
    console = Console(stderr=True)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=steps)
        begun = 0

        def say(what: str) -> None:
            nonlocal begun
            progress.update(task, completed=begun, description=what)
            begun += 1
            if not console.is_terminal:
                print(f"{datetime.now():%H:%M:%S} {what}, {begun} of {steps}", file=sys.stderr, flush=True)

        for name in models:
            for batch in options.batches:
                say(f"{name}, batch {batch}")
                results.peers.append(Cell(name, batch, measure(name, batch, options, rounds, seconds, False)))
                keep()
        if products:
            results.machine["fma_operations_per_s"] = fma_operations_per_s()
            results.products = measure_products(products, rounds, options.limit, say)
            keep()
        if decodes:
            say("decode")
            results.decode = measure(DECODE, 1, options, rounds, seconds, True)
            keep()


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments)
    console = Console(width=max(Console().width, 180) if not sys.stdout.isatty() else None)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.show:
        results = Results.of_data({k: v for k, v in json.loads(options.show.read_text()).items() if k != "summary"})
    else:
        installed = {p: v for e in options.engines for p, v in versions(e, options.peers).items()}
        machine = {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "threads": options.threads,
            "load": os.getloadavg()[0],
            "versions": {"torch": torch.__version__, **installed},
        }
        results = Results(machine)
        path = options.json or options.out / "peers.json"

        def keep() -> None:
            path.write_text(json.dumps(results.as_data(), indent=1))

        measure_all(options, results, keep)
        console.print(str(path), highlight=False)
    report.print_report(console, results)
    if results.peers:
        report.draw_models(results.peers, options.out / "peers.png")
        console.print(str(options.out / "peers.png"), highlight=False)
    if any(p.is_right for p in results.products):
        report.draw_products(results.products, *report.peak_of(results), options.out / "products.png")
        console.print(str(options.out / "products.png"), highlight=False)
    return 1 if any(engine == "vesta" for engine, _ in results.failures()) else 0


if __name__ == "__main__":
    sys.exit(main())
