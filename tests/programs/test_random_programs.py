"""A few hundred random programs; thousands by `python -m tests.programs.random_programs`."""

from __future__ import annotations

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
