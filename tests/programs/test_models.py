"""The short list of models; all of them by `python -m tests.programs.models --all`."""

from __future__ import annotations

import pytest

from tests.programs.models import MODES, cases_of, run
from tests.programs.zoo import ZOO

SHORT = [name for name, entry in ZOO.items() if entry.short]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SHORT)
def test_model(name: str, mode: str):
    cases = cases_of([name], (mode,), "vesta")
    for verdict in run(cases):
        assert not verdict.failure, verdict.failure
