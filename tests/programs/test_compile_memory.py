"""All compiles of a process together take no more memory than the option compile_memory allows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vesta
from tests import processes
from tests.programs.threads import in_threads
from vesta import _C

MIB = 1 << 20


def chain(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(n):
            x = torch.sin(x) + 1
        return x

    return f


def _captured(compiled: object) -> Any:
    return vesta.explain(compiled).explanation.captures[0]


def test_values(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vesta.make_options().compile_memory == -1
    monkeypatch.setenv("VESTA_COMPILE_MEMORY", "70000")
    assert vesta.make_options().compile_memory == 70000
    assert vesta.make_options({"compile_memory": 90}).compile_memory == 90
    for text in ("much", "-2", "1.5"):
        monkeypatch.setenv("VESTA_COMPILE_MEMORY", text)
        with pytest.raises(vesta.errors.UserError, match="VESTA_COMPILE_MEMORY takes bytes"):
            vesta.make_options()
    monkeypatch.delenv("VESTA_COMPILE_MEMORY")
    with pytest.raises(vesta.errors.UserError, match="compile_memory"):
        vesta.make_options({"compile_memory": -2})


def test_a_graph_that_is_too_large_is_given_up() -> None:
    f, x = chain(400), torch.randn(8)
    compiled = vesta.compile(f, options={"compile_memory": 2 * MIB})  # 256 KiB for graphs
    vesta.reset_stats()
    for _ in range(4):
        torch.testing.assert_close(compiled(x), f(x))
    e = _captured(compiled)
    assert [s.name for s in e.skipped] == ["graph-memory"] and not e.graphs
    assert any("compile_memory allows (2.0 MiB, of which graphs may take 256.0 KiB)" in f.reason for f in e.fallbacks)
    stats = vesta.stats()
    assert stats.stages["trace"].runs == 3  # other compiles may have held the memory
    assert 128 << 10 < stats.peak_bytes["graph_bytes"] < 320 << 10
    assert any("compile_memory" in reason for reason in stats.fallbacks)
    assert stats.graph_bytes == 0
    with pytest.raises(vesta.errors.Unsupported, match="compile_memory"):
        vesta.compile(f, options={"compile_memory": 2 * MIB, "strict": True})(x)
    enough = vesta.compile(f, options={"compile_memory": 200 * MIB})
    torch.testing.assert_close(enough(x), f(x))
    assert len(_captured(enough).graphs) == 1


def test_a_plan_that_is_too_large_is_refused_with_what_is_enough() -> None:
    f, x = chain(100), torch.randn(8)  # about 180 KiB of graph and 0.8 MiB of plan
    compiled = vesta.compile(f, options={"compile_memory": 2 * MIB, "cache": False})
    for _ in range(2):
        torch.testing.assert_close(compiled(x), f(x))
    (skipped,) = _captured(compiled).skipped
    assert skipped.name == "compile-failed"
    assert "the plan of 200 operators takes about" in skipped.reason
    assert "with 2.1 MiB it would fit" in skipped.reason, skipped.reason
    enough = vesta.compile(f, options={"compile_memory": int(2.2 * MIB), "cache": False, "kernels": False})
    torch.testing.assert_close(enough(x), f(x))
    assert len(_captured(enough).graphs) == 1


@pytest.mark.kernels
def test_a_kernel_that_is_too_large_is_refused() -> None:
    f, x = chain(60), torch.randn(4096)
    compiled = vesta.compile(f, options={"compile_memory": 8 * MIB, "cache": False})
    for _ in range(2):
        torch.testing.assert_close(compiled(x), f(x))
    (skipped,) = _captured(compiled).skipped
    assert "the kernel k0_sin_add" in skipped.reason and "compile_memory (8.0 MiB) leaves 4.0 MiB" in skipped.reason


def test_flat_functions() -> None:
    f, x = chain(400), torch.randn(8)
    compiled = vesta.trace_and_compile(f, compile_memory=2 * MIB)
    for _ in range(4):
        torch.testing.assert_close(compiled(x), f(x))
    (fallback,) = compiled.report().fallbacks
    assert fallback.count == 4 and "compile_memory" in fallback.reason


def test_compiles_of_several_threads_share_the_memory() -> None:
    x = torch.randn(8)
    budget = 4 * MIB
    functions = [chain(90 + i) for i in range(4)]  # 0.7 MiB of plan each, of 1.5
    compiled = [
        vesta.compile(f, options={"compile_memory": budget, "cache": False, "kernels": False}) for f in functions
    ]
    _C.inject_fault("assemble", "delay", 0.05)
    vesta.reset_stats()
    try:
        in_threads(len(compiled), lambda n: compiled[n](x))
        assert vesta.wait(timeout=60)
    finally:
        _C.inject_fault("assemble", "none")
    for f, c in zip(functions, compiled, strict=True):
        torch.testing.assert_close(c(x), f(x))
    assert 0.6 * MIB < vesta.stats().peak_bytes["plan_bytes"] <= budget * 3 / 8


# A process that runs a program eager or compiled, and prints the most memory that it held at once, in bytes.
PROGRAM = r"""
import json, re, sys
import torch, vesta
from tests.programs.memory import program
name, budget = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
f, arguments = program(name)
call, report = f, ""
vesta.compile(lambda x: x.sin() + 1)(torch.ones(3))  # what a process needs once: LLVM's tables, pages of libraries
if budget and name == "products":
    flat = vesta.trace_and_compile(f, deadline_ms=-1, compile_memory=budget, cache=False)
    call = lambda x: flat(x)
elif budget:
    call = vesta.compile(f, options={"deadline_ms": -1, "compile_memory": budget, "cache": False})
with torch.no_grad():
    call(**arguments)
peak = int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) << 10
print(json.dumps([peak, "compile_memory" in str(vesta.explain())]))  # eager, or in parts that fit
"""


def _peak(name: str, budget: int) -> tuple[int, bool]:
    done = processes.run(PROGRAM, name, str(budget), env=os.environ | {"VESTA_CACHE_DIR": ""}, timeout=500)
    assert done.returncode == 0, done.stderr
    peak, refused = json.loads(done.stdout.splitlines()[-1])
    return peak, refused


def _check(name: str, budget: int, refused: bool) -> None:
    eager, _ = _peak(name, 0)
    compiled, was_refused = _peak(name, budget)
    print(f"{name}: eager {eager / MIB:.0f} MiB, compiled {compiled / MIB:.0f} MiB, budget {budget / MIB:.0f} MiB")
    assert was_refused == refused
    assert compiled <= eager + budget + 8 * MIB  # besides the compile, Vesta's code that a call touches first


@pytest.mark.parametrize(
    ("budget", "refused"), [pytest.param(256 * MIB, False, marks=pytest.mark.slow), (16 * MIB, True)]
)
def test_peak_of_a_process(budget: int, refused: bool) -> None:
    _check("chain", budget, refused)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "budget", "refused"),
    [
        ("pointwise", 300 * MIB, False),
        ("pointwise", 64 * MIB, True),
        ("products", 500 * MIB, True),  # its plan alone would take 10 GB
        ("kernel", 8 * MIB, True),
        ("kernel", 64 * MIB, False),
        ("llama", 128 * MIB, False),
        ("llama", MIB, True),
        ("vit", 128 * MIB, False),
        ("mobilenetv3_small", 128 * MIB, False),
        ("mobilenetv3_small", MIB, True),
    ],
)
def test_peaks_of_processes(name: str, budget: int, refused: bool) -> None:
    _check(name, budget, refused)
