"""The short list of models; all of them by `python -m tests.programs.models --all`."""

from __future__ import annotations

import pytest

from tests.programs.models import MODES, cases_of, run
from tests.programs.zoo import ZOO

SHORT = [name for name, entry in ZOO.items() if entry.short]


# Training and dynamic sizes go through more of PyTorch than `make test` has time for: `pytest -m slow` runs them.
@pytest.mark.parametrize("mode", [m if m == "inference" else pytest.param(m, marks=pytest.mark.slow) for m in MODES])
@pytest.mark.parametrize("name", SHORT)
def test_model(name: str, mode: str):
    cases = cases_of([name], (mode,), "vesta")
    for verdict in run(cases):
        assert not verdict.failure, verdict.failure
