"""Weights that take longer to pack than a call may wait are packed in the background."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import vesta
from tests.build import generates_code
from vesta import _C

DELAY = 1.0  # seconds that a packing takes
SOON = 0.6  # a call that does not wait for it takes less, even on a busy machine
REASON = "its weights are packed in the background"

pytestmark = pytest.mark.skipif(not generates_code(), reason="packs no weights")


@pytest.fixture(autouse=True)
def _no_faults() -> Iterator[None]:
    yield
    _C.inject_fault("pack", "none")
    assert vesta.wait(timeout=60)


def _integers(*sizes: int) -> torch.Tensor:
    """Their products and sums have no rounding errors."""
    return torch.randint(-3, 4, sizes).float()


class Packed:
    """A model whose weight is packed, 4 MiB, and compiled without a call that waits."""

    def __init__(self, results: int = 1024, **options: object) -> None:
        self.model = nn.Sequential(nn.Linear(1024, results, bias=False), nn.ReLU()).eval()
        self.model[0].weight.data = _integers(results, 1024)
        self.compiled = vesta.compile(self.model, options={"cache": False, **options})
        self.x = _integers(64, 1024)

    def call(self) -> float:
        """Compares a call with eager, and returns its seconds."""
        with torch.no_grad():
            start = time.perf_counter()
            found = self.compiled(self.x)
            seconds = time.perf_counter() - start
            torch.testing.assert_close(found, self.model(self.x))
        return seconds

    def hits(self) -> int:
        """Of the machine code."""
        (graph,) = vesta.explain(self.compiled).explanation.graphs
        return graph.hits - graph.early_hits

    def times_packing(self) -> int:
        fallbacks = vesta.explain(self.compiled).explanation.captures[0].fallbacks
        return sum(f.count for f in fallbacks if f.reason == REASON)


def _call_before_code(p: Packed) -> None:
    """A call that ends before its machine code is there, however fast the compile is."""
    _C.inject_fault("codegen", "delay", 0.2)
    p.call()
    _C.inject_fault("codegen", "none")


def _compiled_only() -> Packed:
    p = Packed(background=True)
    _call_before_code(p)
    assert vesta.wait(p.compiled, timeout=60)
    return p


def test_calls_run_eager_until_weights_are_packed() -> None:
    before = vesta.stats().packed_bytes
    p = _compiled_only()
    _C.inject_fault("pack", "delay", DELAY)
    for _ in range(3):
        assert p.call() < SOON
    assert p.times_packing() == 3 and p.hits() == 0
    assert f"3 times: {REASON}" in str(vesta.explain(p.compiled))
    assert vesta.wait(p.compiled, timeout=60)
    assert vesta.stats().stages["pack"].ms >= 1e3 * DELAY
    assert p.call() < SOON  # it packs nothing
    assert p.hits() == 1 and p.times_packing() == 3
    assert vesta.stats().packed_bytes - before >= 4 << 20


def test_weights_that_take_longer_than_the_deadline() -> None:
    p = Packed(results=16 * 1024, deadline_ms=50)  # 64 MiB
    _C.inject_fault("pack", "delay", DELAY)
    for _ in range(2):  # the first call may not find the machine code yet
        assert p.call() < SOON
        assert vesta.wait(p.compiled, timeout=60)
    assert p.times_packing() == 1
    before = p.hits()
    assert p.call() < SOON and p.hits() == before + 1


def test_weights_that_change_are_packed_again() -> None:
    p = _compiled_only()
    p.call()
    vesta.wait(p.compiled)
    p.call()
    assert p.hits() == 1
    _C.inject_fault("pack", "delay", DELAY)
    with torch.no_grad():
        p.model[0].weight.mul_(2)
    assert p.call() < SOON
    with torch.no_grad():
        p.model[0].weight.mul_(2)  # while the first change is packed
    assert p.call() < SOON
    assert vesta.wait(p.compiled, timeout=60)
    assert p.call() < SOON  # what was packed is of the first change
    assert p.hits() == 1
    assert vesta.wait(p.compiled, timeout=60)
    assert p.call() < SOON and p.hits() == 2


def test_memory_that_is_replaced_while_it_is_packed() -> None:
    p = _compiled_only()
    _C.inject_fault("pack", "delay", DELAY)
    p.call()
    p.model[0].weight.data = _integers(1024, 1024)
    p.call()
    vesta.wait(p.compiled, timeout=60)
    _C.inject_fault("pack", "none")
    for _ in range(3):
        p.call()
        vesta.wait(p.compiled, timeout=60)
    assert p.hits() >= 1


class Flat(Packed):
    """The same by trace_and_compile."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled = vesta.trace_and_compile(lambda x: self.model(x), cache=False, background=True)

    def hits(self) -> int:
        return self.compiled.report().hits

    def times_packing(self) -> int:
        return sum(f.count for f in self.compiled.report().fallbacks if f.reason == REASON)


def _flat_only() -> Flat:
    p = Flat()
    _call_before_code(p)
    assert vesta.wait(timeout=60)
    return p


def test_calls_of_flat_functions_run_eager_until_weights_are_packed() -> None:
    p = _flat_only()
    _C.inject_fault("pack", "delay", DELAY)
    assert p.call() < SOON and p.times_packing() == 1
    assert vesta.wait(timeout=60)
    p.call()
    assert p.times_packing() == 1 and p.hits() >= 1


@pytest.mark.parametrize("make", [_compiled_only, _flat_only])
def test_calls_of_distributed_programs_pack_themselves(tmp_path: Path, make: Callable[[], Packed]) -> None:
    """FSDP frees parameters between calls."""
    p = make()
    before = p.hits()
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        p.call()
    finally:
        torch.distributed.destroy_process_group()
    assert p.hits() == before + 1 and p.times_packing() == 0


def test_a_call_that_may_wait_packs_itself() -> None:
    p = Packed()
    _C.inject_fault("pack", "delay", 0.1)
    p.call()
    assert p.hits() == 1 and p.times_packing() == 0


@pytest.mark.parametrize("kind", ["throw", "memory"])
def test_a_packing_that_fails(kind: str) -> None:
    """The next call packs itself."""
    p = _compiled_only()
    _C.inject_fault("pack", kind)
    p.call()
    vesta.wait(timeout=60)
    _C.inject_fault("pack", "none")
    p.call()
    assert p.hits() == 1


def test_warm_packs() -> None:
    p = Packed(background=True)
    with torch.no_grad():
        assert vesta.warm(p.compiled, [p.x])
    _C.inject_fault("pack", "delay", DELAY)
    assert p.call() < SOON and p.hits() == 1


def test_exit_while_weights_are_packed(tmp_path: Path) -> None:
    program = """
import torch, vesta
from vesta import _C
model = torch.nn.Linear(1024, 1024).eval()
compiled = vesta.compile(model, options={"background": True, "cache": False})
x = torch.randn(64, 1024)
with torch.no_grad():
    compiled(x)
    vesta.wait()
    _C.inject_fault("pack", "delay", 30.0)
    compiled(x)
    assert "packed in the background" in str(vesta.explain(compiled))
"""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=tmp_path)
    assert time.perf_counter() - start < 25
