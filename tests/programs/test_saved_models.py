"""Some models of each kind, saved and run by a C++ program without a compiler; tests.programs.saved_models has all."""

from __future__ import annotations

import pytest

from tests.programs.saved_models import RUNNER, run


def test_models_run_in_cpp() -> None:
    if not RUNNER.exists():
        pytest.skip(f"there is no {RUNNER}")
    verdicts = {v.model: v.failure for v in run(["bert", "llama", "mobilenetv3_small", "lstm"], jobs=2)}
    assert verdicts == {"bert": "", "llama": "", "mobilenetv3_small": "", "lstm": ""}
