"""Faults at random places of compiles and runs: 0 wrong, 0 lost side effects, 0 hangs, and every one in explain()."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import vesta
from tests import processes
from tests.programs.faults import difference
from vesta import _C

PLACES, A_CHILD = 1000, 50
PROGRAM = "from tests.programs.faults import main; main()"


def run(first: int, count: int, cache: Path) -> str:
    """What a child says that injects faults at these places. A crash, a hang or a wrong result fails the test."""
    env = os.environ | {"VESTA_CACHE_DIR": str(cache)}
    try:
        done = processes.run(PROGRAM, "--first", str(first), "--count", str(count), env=env, timeout=600)
    except subprocess.TimeoutExpired:
        pytest.fail(f"places {first} to {first + count} hang")
    assert done.returncode == 0, f"places {first} to {first + count}:\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout


def test_a_sample(tmp_path: Path) -> None:
    out = run(0, 8, tmp_path)
    assert "8 places, 0 failures" in out


@pytest.mark.slow
def test_a_thousand(tmp_path: Path) -> None:
    reached = 0
    for first in range(0, PLACES, A_CHILD):
        text = run(first, A_CHILD, tmp_path)
        print(text, end="")
        reached += A_CHILD - sum(map(int, re.findall(r"not reached (\d+)", text)))
    assert reached >= 0.9 * PLACES  # where the machine is slow, a call may not reach all places by its deadline


@pytest.fixture
def no_faults() -> Iterator[None]:
    with torch.no_grad():
        yield
    _C.inject_fault("operator", "none")
    _C.inject_fault_at(0, "none")


def test_a_lack_of_memory_in_a_trace_is_no_error_of_the_program(no_faults: None) -> None:
    caught = []

    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            return x.sin() + 1
        except Exception as error:
            caught.append(error)
            return x

    x = torch.randn(4)
    _C.inject_fault("operator", "memory")
    compiled = vesta.compile(f)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), x.sin() + 1)
    captured = vesta.explain(compiled).explanation.captures[0]
    assert {f.reason for f in captured.failures} == {"std::bad_alloc"}
    assert not caught and {b.name for b in captured.breaks} == {"trace-failed"}


@pytest.mark.parametrize("kind", ["throw", "memory"])
def test_a_failed_trace_is_shown_though_another_one_serves(no_faults: None, kind: str) -> None:
    x = torch.randn(4, 3)
    compiled = vesta.compile(lambda x: x.sin() + 1, dynamic=True)
    _C.inject_fault_at(1, kind)
    torch.testing.assert_close(compiled(x), x.sin() + 1)
    assert _C.stages_reached()[1] == "operator"
    captured = vesta.explain(compiled).explanation.captures[0]
    assert [f.name for f in captured.failures] == ["trace-failed"]
    assert "Traces that failed" in str(captured)

    flat = vesta.trace_and_compile(lambda x: x.cos() + 1, dynamic=True)
    _C.inject_fault_at(1, kind)
    torch.testing.assert_close(flat(x), x.cos() + 1)
    assert len(flat.report().variants) == 1 and len(flat.report().failures) == 1
    assert "compiled without symbolic sizes" in str(flat.report())


def test_a_failed_trace_with_a_symbol_is_shown(no_faults: None) -> None:
    """Under a function mode, PyTorch's own Python code gets the symbol, and the operator's error ends it."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.softmax(0) + x.shape[0]

    x = torch.randn(4, 3)
    with torch.device("cpu"):
        compiled = vesta.compile(f, dynamic=True)
        _C.inject_fault_at(2, "throw")
        torch.testing.assert_close(compiled(x), f(x))
    assert _C.stages_reached()[2] == "operator:aten::add"
    captured = vesta.explain(compiled).explanation.captures[0]
    assert [s.reason for s in captured.failures] == ["a fault was injected into the stage operator:aten::add"]


@pytest.mark.parametrize("kind", ["throw", "memory"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_backward_pass_that_fails_runs_as_calls(no_faults: None, kind: str, strict: bool) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x).sum()

    def gradient(call: Any) -> torch.Tensor:
        x = torch.linspace(0, 1, 12).requires_grad_()
        with torch.enable_grad():
            (found,) = torch.autograd.grad(call(x), x)
        return found

    compiled = vesta.compile(f, options={"strict": strict, "only_if_faster": False})
    torch.testing.assert_close(gradient(compiled), gradient(f))
    _C.inject_fault_at(2**62, kind)  # to count the places of a call
    gradient(compiled)
    last = max(i for i, stage in enumerate(_C.stages_reached()) if stage == "run")
    assert last > 0  # the first one is the forward pass
    _C.inject_fault_at(last, kind)
    if strict:
        with pytest.raises(RuntimeError, match="injected" if kind == "throw" else "bad_alloc"):
            gradient(compiled)
        return
    torch.testing.assert_close(gradient(compiled), gradient(f))
    (graph,) = vesta.explain(compiled).explanation.graphs
    (why,) = graph.backward_failures
    assert why.startswith("a run failed: ") and why in str(vesta.explain(compiled))
    torch.testing.assert_close(gradient(compiled), gradient(f))


def test_differences_are_seen() -> None:
    """The comparison of results and states fails where it should."""
    assert difference(([1, 2],), ([1, 2],)) == ""
    assert difference(([1, 2],), ([1],))
    assert difference({"a": "x"}, {"a": "y"})
    assert difference("once\n", "once\nonce\n")
