"""Faults at random places of compiles, runs and recordings on a GPU (tests/programs/faults.py)."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

A_CHILD = 25  # places


def run(count: int, jobs: int, limit_s: float) -> tuple[int, list[str], list[str]]:
    """The number of places, what was wrong, and a line for each process about the stages that its places reached."""

    def one(first: int) -> tuple[list[str], list[str]]:
        places = f"places {first} to {min(first + A_CHILD, count) - 1}"
        command = [sys.executable, "-m", "tests.programs.faults", "--device", "cuda"]
        command += ["--first", str(first), "--count", str(min(A_CHILD, count - first))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
        except subprocess.TimeoutExpired:
            return [f"{places}: no end after {limit_s:g} s"], []
        lines = done.stdout.strip().splitlines()
        if not lines or " failures:" not in lines[-1]:
            last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
            return ["\n".join([f"{places}: {last}", *lines])], []
        wrong = re.split(r"\n(?=\d+: )", "\n".join(lines[:-1])) if lines[1:] else []
        return wrong, lines[-1:]

    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(one, range(0, count, A_CHILD)))
    return count, [f for failures, _ in results for f in failures], [s for _, stages in results for s in stages]
