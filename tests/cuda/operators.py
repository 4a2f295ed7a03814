"""Samples of PyTorch's op_db on a GPU, compared with eager as those on the CPU are (tests/numerics).

Processes that live long, for op_db starts CUDA when it is imported, and children forked after that could not use it.
Each takes every n-th operator. One that dies costs the operators that it had before it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

DTYPES = ("float32", "bfloat16", "int64")


def work_on(part: int, parts: int, samples: int, entry: str) -> None:
    """Prints an outcome a line, and the name of each operator before it."""
    import torch

    torch.cuda.init()
    from tests.numerics import op_samples

    def emit(message: Any) -> None:
        if message[0] == "outcome":
            print("outcome " + json.dumps(message[1]), flush=True)

    # A call in place may give its argument other sizes: it cannot be called again on what it was called with.
    variants = ("function", "inplace") if entry == "vesta" else ("function",)
    todo = op_samples.tasks(entry, dtypes=DTYPES, variants=variants, per_dtype=samples, device="cuda")
    for task in todo[part::parts]:
        print("operator " + task.name, flush=True)
        op_samples.work(task, emit)
    print("end", flush=True)


def run(jobs: int, samples: int, entry: str) -> tuple[int, list[str], int]:
    """The number of calls, the failures, and how many calls ran compiled ("vesta-recorded": as a CUDA graph)."""

    def one(part: int) -> tuple[int, list[str], int]:
        command = [sys.executable, "-m", "tests.cuda.operators", str(part), str(jobs), str(samples), entry]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        outcomes = [json.loads(line[8:]) for line in lines if line.startswith("outcome ")]
        failures = [
            f"{o['op']} {o['dtype']} sample {o['sample']} {o['variant']}: {o['status']}: {o['detail']}"
            for o in outcomes
            if o["status"] != "ok"
        ]
        if "end" not in lines:
            names = [line[9:] for line in lines if line.startswith("operator ")]
            last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
            failures.append(f"the process died in {names[-1] if names else 'its first lines'}: {last}")
        return len(outcomes), failures, sum(o["compiled" if entry == "vesta" else "recorded"] for o in outcomes)

    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(one, range(jobs)))
    return sum(d[0] for d in done), [f for d in done for f in d[1]], sum(d[2] for d in done)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("part", "parts", "samples"):
        parser.add_argument(name, type=int)
    parser.add_argument("entry")
    given = parser.parse_args()
    work_on(given.part, given.parts, given.samples, given.entry)
