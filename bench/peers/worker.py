"""Runs one workload in eager and in one engine, by turns. Reads commands from stdin and prints JSON lines.

    python -m bench.peers.worker WORKLOAD BATCH ENGINE THREADS FOLDER

`FOLDER` has the engines' packages. PyTorch has called the model once before the first command.

first            makes the program and calls it once, all imports done; answers seconds, or why that failed
round SECONDS    calls eager for so long, then the engine, or first the engine in every second round; answers the
                 median of a call of each in seconds
read             answers the bytes per second at which PyTorch's sum reads 400 MB, and the bytes of weights that a call
                 reads
finish           compares with eager; answers the largest difference, or why there is none, and the process's peak
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from bench.peers import workloads
from bench.peers.engines import ENGINES, Call, Engine, one_line
from bench.worker import memory_mib
from tests.programs.torchvision_operators import declare_torchvision_operators

READ_BYTES = 400_000_000


def median_seconds(call: Call, rewind: Callable[[], Any], seconds: float) -> float:
    """Of a call. One is made before the clock runs: it meets the other's threads, which wait in a loop for a while, and
    the caches as the other left them."""
    rewind()
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        rewind()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def read_bytes_per_s(rounds: int = 7) -> float:
    memory = torch.ones(READ_BYTES // 4)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        memory.sum()
        times.append(time.perf_counter() - start)
    return READ_BYTES / statistics.median(times)


def difference(ours: list[torch.Tensor], eager: list[torch.Tensor]) -> dict[str, Any]:
    """The largest difference between two results, as a part of the largest number of eager's tensor; or what is wrong
    with the result."""
    shapes, expected = [tuple(t.shape) for t in ours], [tuple(t.shape) for t in eager]
    if shapes != expected:
        return {"failure": f"returns tensors of shapes {shapes}, eager of shapes {expected}"}
    worst = 0.0
    for a, e in zip(ours, eager, strict=True):
        if not e.numel():
            continue
        if not bool(torch.isfinite(e).all()):
            return {"failure": "eager's result has numbers that are not finite, so that nothing can be compared"}
        if not bool(torch.isfinite(a).all()):
            return {"failure": "returns numbers that are not finite"}
        largest = e.double().abs().max().item()
        apart = (a.double() - e.double()).abs().max().item()
        worst = max(worst, apart / largest if largest else apart)
    return {"difference": worst}


class Bench:
    """The workload and the engine of this process."""

    def __init__(self, workload: workloads.Workload, engine: Engine, threads: int) -> None:
        self.work, self.engine, self.threads = workload, engine, threads
        self.program: Call | None = None
        self.rounds = 0

    def eager(self) -> Any:
        return self.work.model(*self.work.arguments)

    def first(self) -> dict[str, Any]:
        self.work.rewind()
        start = time.perf_counter()
        try:
            self.program = self.engine.make(self.work.model, self.work.arguments, self.threads)
            self.program()
        except Exception as error:
            return {"failure": one_line(error), "notes": self.engine.notes}
        seconds = time.perf_counter() - start - self.engine.lost_s
        self.engine.wait()
        return {"first_s": seconds, "parts": self.engine.parts, "notes": self.engine.notes}

    def round(self, seconds: float) -> dict[str, Any]:
        assert self.program
        calls: dict[str, Call] = {"eager": self.eager, "engine": self.program}
        order = list(calls) if self.rounds % 2 == 0 else list(reversed(calls))
        self.rounds += 1
        times = {name: median_seconds(calls[name], self.work.rewind, seconds) for name in order}
        return {"pair": [times["eager"], times["engine"]]}

    def finish(self) -> dict[str, Any]:
        assert self.program
        peak = memory_mib("VmHWM")
        self.work.rewind()
        ours = [t.clone() for t in self.engine.tensors(self.program())]
        self.work.rewind()
        eager = [t for t in pytree.tree_leaves(self.eager()) if isinstance(t, torch.Tensor)]
        return {"peak_mib": peak, **difference(ours, eager)}


def main() -> None:
    name, batch, engine_name, threads, folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to stdout too: the parent reads answers only
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(threads))
    declare_torchvision_operators()
    engine = ENGINES[engine_name]()
    workload = workloads.build(name, int(batch), engine.writes)

    def answer(values: dict[str, Any]) -> None:
        print(json.dumps(values), file=answers, flush=True)

    with torch.no_grad():
        bench = Bench(workload, engine, int(threads))
        workload.rewind()
        bench.eager()
        if engine.packages:
            sys.path.append(folder)
        try:
            engine.load()
        except Exception as error:
            raise SystemExit(f"cannot load {engine.title}: {one_line(error)}") from error
        answer({"ready": True, "rss_mib": memory_mib("VmRSS")})
        for line in sys.stdin:
            command, *rest = line.split()
            if command == "first":
                answer(bench.first())
            elif command == "round":
                answer(bench.round(float(rest[0])))
            elif command == "read":
                answer({"bytes_per_s": read_bytes_per_s(), "weight_bytes": workload.weight_bytes})
            elif command == "finish":
                answer(bench.finish())
                break
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
