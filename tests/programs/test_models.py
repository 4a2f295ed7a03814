"""The models and modes that are cheap; all of them by `python -m tests.programs.models --all`."""

from __future__ import annotations

import pytest

from tests.programs.models import Case, run
from tests.programs.zoo import ZOO

CASES = [Case(name, mode, "vesta") for name, entry in ZOO.items() for mode in entry.tests]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model}-{case.mode}")
def test_model(case: Case):
    for verdict in run([case]):
        assert not verdict.failure, verdict.failure
