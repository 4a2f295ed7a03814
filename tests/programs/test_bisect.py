"""`vesta bisect` finds the kernel, the pass and the rewrite at fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import vesta
import vesta.bisect
from tests.programs.test_replay import run
from vesta import _C
from vesta.bisect import Culprit, bisect
from vesta.cases import read
from vesta.replay import Replayed


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cases") / "case.vesta"

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.mm(x.sin() + 1, x), -1)

    with vesta.record(path):
        vesta.compile(f)(torch.randn(8, 8))
    return path


def found(case: Path, fault: str, stage: str, *arguments: str) -> dict[str, Any]:
    done = run("bisect", str(case), "--json", *arguments, fault=fault, stage=stage)
    assert done.returncode == int(bool(fault)), (done.stdout, done.stderr)
    (one,) = json.loads(done.stdout)["compiles"]
    told: dict[str, Any] = one
    return told


@pytest.mark.slow
def test_nothing_is_at_fault(case: Path) -> None:
    assert found(case, "", "")["right"]
    said = run("bisect", str(case))
    assert "compile 1: it is right, so nothing is at fault" in said.stdout and "the case: right" in said.stderr


@pytest.mark.slow
@pytest.mark.kernels
def test_a_wrong_kernel_and_a_case_that_has_it_alone(case: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.vesta"
    culprit = found(case, "wrong", "kernel:sin_add", "--write", str(small))
    assert culprit["kernels"] == ["sin_add"] and culprit["passes"] == []
    assert "aten::mm" not in small.read_text() and "aten::sin" in small.read_text()
    assert run("replay", str(small), fault="wrong", stage="kernel:sin_add").returncode == 1
    assert run("replay", str(small)).returncode == 0


@pytest.mark.kernels
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["throw", "crash"])
def test_a_kernel_that_cannot_be_compiled(case: Path, fault: str) -> None:
    assert found(case, fault, "kernel:sin_add")["kernels"] == ["sin_add"]


@pytest.mark.slow
def test_a_pass_that_is_wrong_or_crashes(case: Path) -> None:
    said = run("bisect", str(case), fault="wrong", stage="pass:decomposed-identities")
    assert said.returncode == 1 and "compile 1: the pass is at fault: decomposed-identities\n" in said.stdout
    assert "without decomposed-identities: right" in said.stderr
    assert found(case, "crash", "pass:views")["passes"] == ["views"]


def test_what_no_pass_and_no_kernel_explains(case: Path) -> None:
    assert "the fault is in the graph or in the runtime" in found(case, "throw", "assemble")["what"]


def searched(case: Path, monkeypatch: Any, right: Callable[[_C.Options], bool]) -> tuple[Culprit, list[str]]:
    """What is found if the case is right with such options alone."""

    def replay(case: _C.Case, options: _C.Options, *, seconds: float) -> Replayed:
        return Replayed("right" if right(options) else "wrong")

    monkeypatch.setattr(vesta.bisect, "replay", replay)
    monkeypatch.setattr(vesta.bisect, "_wrong_kernels", lambda case, seconds, tell: [])
    lines: list[str] = []
    return bisect(read(case)[1][1], tell=lines.append), lines


def test_the_smallest_set_of_passes(case: Path, monkeypatch: Any) -> None:
    culprit, lines = searched(
        case, monkeypatch, lambda o: not o.kernels or {"views", "decompose"} <= set(o.skip_passes)
    )
    assert culprit.passes == ("views", "decompose") and culprit.rewrite is None
    assert "the passes are at fault: views, decompose" in culprit.what
    assert len(lines) < 40


def test_the_first_wrong_rewrite(case: Path, monkeypatch: Any) -> None:
    def right(options: _C.Options) -> bool:
        return not options.kernels or "linear" in options.skip_passes or options.rewrite_limit == 0

    culprit, lines = searched(case, monkeypatch, right)
    assert culprit.passes == ("linear",) and culprit.rewrite == 1
    changed = culprit.change.splitlines()
    assert any(line.startswith("-") and "aten::mm(" in line for line in changed)
    assert any(line.startswith("+") and "aten::linear(" in line for line in changed)
    assert "with rewrite_limit 1: wrong" in lines


def test_the_plan_and_the_rest(case: Path, monkeypatch: Any) -> None:
    assert "the fault is in the plan" in searched(case, monkeypatch, lambda o: not o.kernels)[0].what
    culprit, _ = searched(case, monkeypatch, lambda o: not o.kernels and "views" in o.skip_passes)
    assert culprit.passes == ("views",)
    assert "in the runtime" in searched(case, monkeypatch, lambda o: False)[0].what
