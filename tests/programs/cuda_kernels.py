"""The kernels that a GPU would run for the models of the zoo, on a machine that has none.

    python -m tests.programs.cuda_kernels llama bert
    python -m tests.programs.cuda_kernels --all
    python -m tests.programs.cuda_kernels --random 500

Each model, or random program, is traced on the CPU; its graphs are planned for a GPU, and test_cuda_graphs compiles
their kernels for several generations, reads what they take of a multiprocessor, and runs the small ones on the CPU,
thread by thread, against the interpreter.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import vesta
from tests import isolation
from tests.programs.generate import generate
from tests.programs.models import train
from tests.programs.zoo import ZOO

BUILD = Path(__file__).resolve().parents[2] / os.environ.get("VESTA_BUILD", "build/release")
RUNNER = BUILD / "tests/unit/test_cuda_graphs"
PROGRAMS = 25  # random ones at once
# NVRTC lies beside torch.
LIBRARIES = Path(torch.__file__).resolve().parents[1] / "nvidia/cu13/lib"


@dataclass(frozen=True)
class Task:
    """A model of the zoo with weights of a dtype, called or trained for a step, or 25 random programs from a seed."""

    model: str = ""
    dtype: str = "float32"
    seed: int = 0
    training: bool = False
    schedules: int = 0

    def __str__(self) -> str:
        how = " training" if self.training else ""
        return (
            f"{self.model} {self.dtype}{how}" if self.model else f"programs {self.seed} to {self.seed + PROGRAMS - 1}"
        )


@dataclass
class Verdict:
    task: Task
    graphs: int
    failure: str


def inputs_of(task: Task) -> dict[str, Any]:
    dtype = getattr(torch, task.dtype)
    entry = ZOO[task.model]
    return {
        key: value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for key, value in entry.inputs(0, entry.lengths[0]).items()
    }


def run_and_dump(task: Task, dumps: Path) -> None:
    options = {"dump_dir": str(dumps)}
    if not task.model:
        for seed in range(task.seed, task.seed + PROGRAMS):
            make_inputs, function = generate(seed).load()
            with torch.no_grad(), contextlib.suppress(Exception):  # it may raise what eager raises
                vesta.compile(function, options=options)(*make_inputs(seed))
        return
    module = ZOO[task.model].build().to(getattr(torch, task.dtype))
    if task.training:
        module.train()
        train(torch.compile(module, backend="vesta", options=options), module, inputs_of(task))
    else:
        with torch.no_grad():
            vesta.compile(module, options=options)(**inputs_of(task))


def eager_raises(task: Task) -> bool:
    """Where an operator has no kernel for the dtype, say."""
    try:
        with torch.no_grad():
            ZOO[task.model].build().to(getattr(torch, task.dtype))(**inputs_of(task))
    except Exception:
        return True
    return False


def schema(operator: str) -> str:
    """The base name "add" in "aten::add.Tensor"."""
    space, _, name = operator.partition("::")
    packet, _, overload = name.partition(".")
    return str(getattr(getattr(getattr(torch.ops, space), packet), overload or "default")._schema)


def trace(task: Task, folder: Path) -> int:
    """Writes the texts of the task's graphs into the folder; returns how many there are."""
    dumps = folder / "dumps"
    run_and_dump(task, dumps)
    graphs = sorted(dumps.glob("**/*graph_traced.txt"))
    operators = {
        name for graph in graphs for name in re.findall(r"(?:^|= )(\w+::[\w.]+)\(", graph.read_text(), re.MULTILINE)
    }
    (folder / "operators").write_text("".join(f"{schema(name)}\n" for name in sorted(operators)))
    for i, graph in enumerate(graphs):
        shutil.copy(graph, folder / f"{task.model or f'program_{task.seed}'}_{i}.txt")
    shutil.rmtree(dumps, ignore_errors=True)
    return len(graphs)


def check(folder: Path, limit_s: float = 600, schedules: int = 0) -> str:
    """'' or what is wrong with the graphs' kernels; with every schedule of so many of each graph."""
    environment = os.environ | {
        "VESTA_CUDA_GRAPHS": str(folder),
        "VESTA_CACHE_DIR": "",
        "VESTA_CUDA_SCHEDULES": str(schedules),
        "LD_LIBRARY_PATH": f"{LIBRARIES}:{os.environ.get('LD_LIBRARY_PATH', '')}",
    }
    done = subprocess.run([RUNNER], env=environment, capture_output=True, text=True, timeout=limit_s, check=False)
    return "" if done.returncode == 0 else done.stdout[-6000:] + done.stderr[-2000:]


def work(task: Task, emit: Callable[[Any], None]) -> None:
    warnings.simplefilter("ignore")
    torch._dynamo.config.allow_rnn = True
    emit(("begin", task))
    graphs = 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            graphs = trace(task, Path(folder))
            failure = check(Path(folder), schedules=task.schedules) if graphs else "nothing was compiled"
    except Exception:
        failure = "" if eager_raises(task) else "raises\n" + traceback.format_exc(limit=-6)
    emit(("verdict", graphs, failure))


def run(tasks: list[Task], jobs: int = 1, limit_s: float = 900.0) -> Iterator[Verdict]:
    lost: list[Verdict] = []

    def resume(task: Task, _step: Any, reason: str) -> None:
        lost.append(Verdict(task, 0, reason))

    preload = ("tests.programs.zoo", "vesta", "rich.console", "transformers")
    for task, message in isolation.run(tasks, work, resume, jobs=jobs, limit_s=limit_s, preload=preload):
        while lost:
            yield lost.pop()
        yield Verdict(task, *message[1:])
    yield from lost


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.cuda_kernels", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("models", nargs="*", help="names of the zoo")
    parser.add_argument("--all", action="store_true", help="every model of the zoo")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many random programs")
    parser.add_argument("--dtypes", nargs="+", default=["float32"], help="of weights and inputs")
    parser.add_argument("--training", action="store_true", help="forward and backward graphs of a training step")
    parser.add_argument("--schedules", type=int, default=0, metavar="N", help="all of so many kernels of each graph")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time")
    given = parser.parse_args()
    names = list(ZOO) if given.all else given.models
    tasks = [
        Task(name, dtype, training=given.training, schedules=given.schedules)
        for name in names
        for dtype in given.dtypes
    ]
    tasks += [Task(seed=seed, schedules=given.schedules) for seed in range(0, given.random, PROGRAMS)]
    if not tasks:
        parser.error("name a model, or give --all or --random")
    console, wrong = Console(), 0
    for n, verdict in enumerate(run(tasks, given.jobs), 1):
        result = f"{verdict.graphs} graphs, ok" if verdict.graphs else "raises, as eager does"
        if verdict.failure:
            result = "WRONG"
        console.print(f"[{n}/{len(tasks)}] {verdict.task}: {result}", markup=False, highlight=False)
        if verdict.failure:
            wrong += 1
            console.print(verdict.failure, markup=False, highlight=False)
    console.print(f"{len(tasks)} tasks, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
