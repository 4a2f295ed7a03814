"""A few hundred random programs; thousands by `python -m tests.programs.random_programs`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.programs.generate import generate
from tests.programs.random_programs import Setting, batches, run, shrink


def test_a_seed_is_a_program():
    assert generate(11) == generate(11)
    assert len({generate(seed).text() for seed in range(20)}) == 20


@pytest.mark.parametrize(
    ("setting", "first", "count"),
    [
        (Setting("none"), 1, 40),
        (Setting("direct"), 1, 300),
        (Setting("vesta"), 100001, 30),
        (Setting("direct", threads=2, scale=40), 500001, 30),
    ],
    ids=["harness", "direct", "dynamo", "threads"],
)
def test_random_programs(setting: Setting, first: int, count: int):
    failures = []
    done = 0
    for result in run(batches(first, count, setting), jobs=2):
        done += 1
        if result:
            failures.append(result)
    # Shrinking takes seconds each: the first few tell most.
    shown = [shrink(f, setting, budget=80) for f in failures[:2]] + failures[2:5]
    assert not failures, f"{len(failures)} of {done} programs fail\n" + "\n".join(map(str, shown))
    assert done == count


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_older_instruction_sets(capability: str):
    command = [
        sys.executable,
        "-m",
        "tests.programs.random_programs",
        "--count",
        "60",
        "--seed",
        "600001",
        "--jobs",
        "2",
    ]
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 programs" in done.stdout
