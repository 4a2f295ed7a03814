"""A part of the sweep over op_db, drawn by a fixed seed; all of it by `python -m tests.numerics.sweep_op_db`."""

from __future__ import annotations

import pytest

from tests.numerics.op_samples import Outcome, tasks
from tests.numerics.sweep_op_db import sweep

DRAWN = 1  # samples of each operator and dtype


# The harness has nothing to say about eager itself; a tenth of the operators shows that it still runs.
@pytest.mark.parametrize(
    ("backend", "every"),
    [("eager", 10), ("vesta", 2), pytest.param("vesta", 1, marks=pytest.mark.slow)],
    ids=["eager", "half", "all"],
)
def test_op_db_sample(backend: str, every: int):
    part = tasks(backend, seed=4, per_dtype=DRAWN)[::every]
    outcomes = [item for item in sweep(part, jobs=2, limit_s=60) if isinstance(item, Outcome)]
    failed = [o for o in outcomes if o.status != "ok"]
    assert len(outcomes) > len(part)
    assert not failed, f"{len(failed)} of {len(outcomes)} calls:\n" + "\n".join(
        f"{o.key()}: {o.status}\n{o.detail}" for o in failed[:40]
    )
