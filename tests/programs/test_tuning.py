"""Kernels of a CPU whose schedules are measured (autotune_seconds, mode="max-autotune")."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vesta

pytestmark = pytest.mark.kernels


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(96, 200), nn.GELU(), nn.Linear(200, 72), nn.LayerNorm(72)).eval()


def tuning_of(compiled: Any) -> Any:
    (graph,) = vesta.explain(compiled).explanation.graphs
    return graph.compiled.tuning


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_are_the_same(dtype: torch.dtype) -> None:
    m = model().to(dtype)
    compiled = vesta.compile(m, options={"autotune_seconds": 20, "cache": False})
    x = torch.randn(50, 96).to(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), m(x), rtol=tolerance, atol=tolerance)
    report = tuning_of(compiled)
    assert report.kernels > 0 and report.measured == report.kernels and report.left == 0
    assert report.schedules > report.measured and 0 < report.after_us <= report.before_us
    assert "measured" in str(vesta.explain(compiled))


def test_the_mode() -> None:
    compiled = vesta.compile(model(), mode="max-autotune")
    with torch.no_grad():
        compiled(torch.randn(40, 96))
    assert tuning_of(compiled).kernels > 0


def test_the_time_is_bounded() -> None:
    m = model()
    compiled = vesta.compile(m, options={"autotune_seconds": 1e-9, "cache": False})
    x = torch.randn(50, 96)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), m(x), rtol=1e-5, atol=1e-5)
    report = tuning_of(compiled)
    assert report.measured == 0 and report.left == report.kernels > 0


def test_without_the_option_nothing_is_measured() -> None:
    compiled = vesta.compile(model(), options={"cache": False})
    with torch.no_grad():
        compiled(torch.randn(50, 96))
    assert tuning_of(compiled) is None


PROGRAM = """
import torch, vesta
from tests.programs.test_tuning import model, tuning_of
longer = torch.nn.Sequential(*model(), *MORE).eval()
compiled = vesta.compile(longer, options={"autotune_seconds": 20})
with torch.no_grad():
    compiled(torch.randn(50, 96))
    report = tuning_of(compiled)
print("cached" if report is None else f"{report.known} {report.measured}")
"""


def test_choices_are_kept(tmp_path: Path) -> None:
    """A process with the same program finds it in the cache; one with other kernels measures those alone."""

    def run(more: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.replace("MORE", more)],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env={**os.environ, "VESTA_CACHE_DIR": str(tmp_path)},
        )
        assert "measures kernel" not in done.stderr  # stderr is no terminal
        return done.stdout.strip()

    known, measured = map(int, run("[]").split())
    assert known == 0 and measured > 0
    assert run("[]") == "cached"
    assert run("[torch.nn.Linear(72, 300)]") == f"{measured} 1"
