"""A part of the sweep over op_db, drawn by a fixed seed; all of it by `python -m tests.numerics.sweep_op_db`."""

from __future__ import annotations

import pytest

from tests.numerics.op_samples import Outcome, tasks
from tests.numerics.sweep_op_db import sweep

DRAWN = 1  # samples of each operator and dtype


@pytest.mark.parametrize("backend", ["eager", pytest.param("vesta", marks=pytest.mark.slow)])
def test_op_db_sample(backend: str):
    # The harness has nothing to say about eager itself; a tenth of the operators shows that it still runs.
    part = tasks(backend, seed=4, per_dtype=DRAWN)[:: 10 if backend == "eager" else 1]
    outcomes = [item for item in sweep(part, jobs=2, limit_s=60) if isinstance(item, Outcome)]
    failed = [o for o in outcomes if o.status != "ok"]
    assert len(outcomes) > len(part)
    assert not failed, f"{len(failed)} of {len(outcomes)} calls:\n" + "\n".join(
        f"{o.key()}: {o.status}\n{o.detail}" for o in failed[:40]
    )
