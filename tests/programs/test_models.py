"""The models and modes that are cheap; all of them by `python -m tests.programs.models --all`."""

from __future__ import annotations

import pytest
import torch

from tests.programs.models import Case, run
from tests.programs.zoo import ZOO

CASES = [Case(name, mode, "vesta") for name, entry in ZOO.items() for mode in entry.tests]
# Errors of AOTAutograd before a version of torch, for every backend ("aot_eager", too).
TORCHS_OWN = {("lstm", "training"): ((2, 13), "an LSTM's state has a dimension too many")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model}-{case.mode}")
def test_model(case: Case, request: pytest.FixtureRequest):
    right_from, fault = TORCHS_OWN.get((case.model, case.mode), ((0, 0), ""))
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) < right_from:
        request.applymarker(pytest.mark.xfail(reason=fault, strict=True))
    for verdict in run([case]):
        assert not verdict.failure, verdict.failure
