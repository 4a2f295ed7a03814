"""Processes that share a cache or a saved program, with NVRTC and without: more of traps.TRAPS."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from tests.cuda.traps import _compiled, _equal, _model, trap


def _maps() -> str:
    return Path("/proc/self/maps").read_text(encoding="utf-8")


def _loaded() -> set[str]:
    """The compiler's libraries in this process. PyTorch may have loaded them itself."""
    return {name for name in ("libnvrtc.", "libnvrtc-builtins", "libnvJitLink") if name in _maps()}


def _in_a_process(function: str, *arguments: object, **environment: str) -> str:
    """Runs "tuned.tune", say, of this folder in a process of its own; what it logged."""
    call = f"from tests.cuda import {function.split('.')[0]}; {function}(*{[str(a) for a in arguments]!r})"
    done = subprocess.run(
        [sys.executable, "-c", call], env=os.environ | environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def _variants() -> list[Any]:
    import vesta

    return [g.compiled for c in vesta.explain().captures for g in c.graphs if g.compiled]


def _program(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ x).softmax(-1) + x.sum(-1, keepdim=True)


def compile_and_run(expect: str) -> None:
    model = _model()
    torch.zeros(1, device="cuda") @ torch.zeros(1, 1, device="cuda")
    before, kept = _loaded(), []  # reports are of functions that are alive
    with torch.no_grad():
        for function, x in ((model, torch.randn(7, 64, device="cuda")), (_program, torch.randn(64, 64, device="cuda"))):
            compiled = _compiled(function)
            for _ in range(3):
                _equal(compiled(x), function(x))
            kept.append(compiled)
    reports = _variants()
    assert len(reports) == 2 and all(r.kernels for r in reports)
    assert {r.cached for r in reports} == {expect == "found"}
    assert expect != "found" or _loaded() == before


def run_what_is_not_there() -> None:
    import vesta

    function, x = (lambda x: torch.tanh(x) * 7 + 3), torch.randn(123, device="cuda")
    function(x)
    before, compiled = _loaded(), _compiled(function)
    for _ in range(3):
        assert torch.equal(compiled(x), function(x))
    assert _loaded() - {"libnvJitLink"} <= before
    assert any("not in the cache" in f.reason for f in vesta.explain().fallbacks), vesta.explain()


@trap
def a_second_process_loads_no_compiler() -> None:
    with tempfile.TemporaryDirectory() as cache:
        _in_a_process("processes.compile_and_run", "made", VESTA_CACHE_DIR=cache)
        _in_a_process("processes.compile_and_run", "found", VESTA_CACHE_DIR=cache)
        _in_a_process("processes.compile_and_run", "found", VESTA_CACHE_DIR=cache, VESTA_NVRTC="")


@trap
def no_compiler_and_no_code() -> None:
    with tempfile.TemporaryDirectory() as cache:
        _in_a_process("processes.compile_and_run", "made", VESTA_CACHE_DIR=cache)
        log = _in_a_process(
            "processes.run_what_is_not_there", VESTA_CACHE_DIR=cache, VESTA_NVRTC="", VESTA_LOG="fallbacks"
        )
        assert log.count("not in the cache") == 1, log


def save_program(path: str) -> None:
    import vesta

    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        for rows in (5, 7):
            compiled(torch.randn(rows, 64, device="cuda"))
        vesta.save(compiled, path)


def load_program(path: str) -> None:
    import vesta

    model, before = _model(), _loaded()
    loaded = vesta.load(path)
    with torch.no_grad():
        for rows in (5, 7, 31):
            x = torch.randn(rows, 64, device="cuda")
            for _ in range(3):
                _equal(loaded(x), model(x))
    assert _loaded() - {"libnvJitLink"} <= before


@trap
def a_saved_program_runs_without_a_compiler() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.vesta")
        _in_a_process("processes.save_program", path, VESTA_CACHE_DIR="")
        _in_a_process("processes.load_program", path, VESTA_CACHE_DIR="", VESTA_NVRTC="")
