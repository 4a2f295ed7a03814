"""While a compile goes on in the background, calls run in Python or as calls into ATen, whichever is faster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.programs.zoo import ZOO
from vesta import _C
from vesta.errors import UserError

HELD = 60.0  # seconds at most that the machine code is held back
BACKGROUND = {"background": True, "cache": False}

pytestmark = pytest.mark.kernels  # without kernels, tier 1 is the last one


@pytest.fixture(autouse=True)
def _code_is_late() -> Iterator[None]:
    _C.inject_fault("codegen", "hold", HELD)
    yield
    for stage in ("codegen", "plan"):
        _C.inject_fault(stage, "none")
    assert vesta.wait(timeout=60)


def release() -> None:
    _C.inject_fault("codegen", "none")


def graph_of(compiled: object) -> vesta.explain_capture.Graph:
    (graph,) = vesta.explain(compiled).explanation.graphs
    return graph


def many_small(x: torch.Tensor) -> torch.Tensor:
    for i in range(24):
        x = torch.add(x.reshape(-1), i).reshape(4, 4).t()
    return x


def run_until_decided(compiled: Callable[..., Any], *args: Any) -> vesta.explain_capture.Graph:
    for _ in range(12):
        compiled(*args)
    return graph_of(compiled)


def test_calls_run_in_tier_1_until_the_code_is_there() -> None:
    compiled = vesta.compile(many_small, options=BACKGROUND)
    x = torch.randn(4, 4)
    early = _C.stats().early_hits  # the first call may already run in tier 1
    compiled(x)
    assert graph_of(compiled).pending
    assert vesta.wait(compiled, timeout=60, tier=1)
    assert graph_of(compiled).pending  # the code takes longer
    graph = run_until_decided(compiled, x)
    assert graph.pending
    assert graph.early_hits >= 3
    assert vesta.stats().early_hits - early == graph.early_hits
    text = str(vesta.explain(compiled))
    assert f"tier {graph.tier}: " in text and "in tier 0 and" in text
    assert torch.equal(compiled(x), many_small(x))
    release()
    assert vesta.wait(compiled)
    torch.testing.assert_close(compiled(x), many_small(x))
    graph = graph_of(compiled)
    assert (graph.tier, graph.pending) == (2, False) and graph.compiled.kernels
    assert "tier 2: machine code" in str(vesta.explain(compiled))
    assert "  in tier 1" in str(vesta.stats()) and "vesta_early_hits_total" in vesta.stats().prometheus()


def test_the_faster_tier_runs_the_calls() -> None:
    compiled = vesta.compile(many_small, options=BACKGROUND)
    x = torch.randn(4, 4)
    compiled(x)
    assert vesta.wait(compiled, tier=1)
    graph = run_until_decided(compiled, x)
    assert graph.tier == int(graph.early_us < graph.python_us)


def test_slow_calls_into_aten_are_left_to_python() -> None:
    """The program computes in place; the graph takes new memory each time. Whichever is slower does not run."""

    def in_place(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        for _ in range(12):
            y.add_(1)
        return y

    compiled = vesta.compile(in_place, options=BACKGROUND)
    x = torch.randn(1 << 20)
    compiled(x)
    assert vesta.wait(compiled, tier=1)
    graph = run_until_decided(compiled, x)
    assert graph.tier == int(graph.early_us < graph.python_us)
    hits = graph.early_hits
    compiled(x)
    assert graph_of(compiled).early_hits - hits == graph.tier


@pytest.mark.parametrize("name", ["llama", "vit", "convnext_small", "lstm"])
def test_tier_1_gives_what_eager_gives(name: str) -> None:
    entry = ZOO[name]
    model, inputs = entry.build(), entry.inputs(0, entry.lengths[0])
    compiled = vesta.compile(model, options=BACKGROUND)
    with torch.no_grad():
        expected = model(**inputs)
        compiled(**inputs)
        assert vesta.wait(compiled, timeout=60, tier=1)
        before = vesta.stats().early_hits
        results = [compiled(**inputs) for _ in range(4)]
        assert vesta.stats().early_hits > before
    for result in results:
        torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_side_effects_and_breaks() -> None:
    seen: list[float] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        for i in range(6):
            x = x.reshape(2, 8).t().reshape(16) + i
        seen.append(len(seen))
        torch._dynamo.graph_break()
        for i in range(6):
            x = x.reshape(2, 8).t().reshape(16) * i
        seen.append(len(seen))
        return x

    compiled = vesta.compile(f, options=BACKGROUND)
    x = torch.randn(16)
    for i in range(12):
        assert torch.equal(compiled(x), f(x))
        assert seen == list(range(4 * (i + 1)))
        vesta.wait(compiled, timeout=60, tier=1)
    assert vesta.stats().early_hits > 0


def test_errors_of_the_program() -> None:
    table = nn.Embedding(8, 4)

    def f(i: torch.Tensor) -> torch.Tensor:
        x = table(i)
        for _ in range(8):
            x = x.t().reshape(-1, 4)
        return x

    compiled = vesta.compile(f, options=BACKGROUND)
    with torch.no_grad():
        good, bad = torch.tensor([1, 2]), torch.tensor([1, 99])
        compiled(good)
        vesta.wait(compiled, tier=1)
        for _ in range(6):
            assert torch.equal(compiled(good), f(good))
            with pytest.raises(IndexError, match="out of range"):
                compiled(bad)
    assert graph_of(compiled).early_hits > 0


def test_threads_and_the_swap() -> None:
    """Calls run in tier 1 while another thread takes the code."""
    compiled = vesta.compile(many_small, options=BACKGROUND)
    x = torch.randn(4, 4)
    expected = many_small(x)
    compiled(x)
    vesta.wait(compiled, tier=1)
    wrong: list[torch.Tensor] = []
    end = time.monotonic() + 0.6

    def call() -> None:
        while time.monotonic() < end:
            if not torch.allclose(y := compiled(x), expected):
                wrong.append(y)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    time.sleep(0.3)
    release()
    for t in threads:
        t.join()
    assert not wrong
    vesta.wait(compiled)
    compiled(x)
    assert graph_of(compiled).tier == 2 and graph_of(compiled).early_hits > 0


def test_a_deadline_that_passes() -> None:
    compiled = vesta.compile(many_small, options={"deadline_ms": 30, "cache": False})
    x = torch.randn(4, 4)
    assert torch.equal(compiled(x), many_small(x))
    assert vesta.wait(compiled, tier=1)
    assert graph_of(compiled).pending
    assert run_until_decided(compiled, x).early_hits >= 3


def test_gradients_stay_in_tier_0() -> None:
    compiled = vesta.compile(lambda x: many_small(x) * 2, options=BACKGROUND)
    x = torch.randn(4, 4, requires_grad=True)
    for _ in range(3):
        compiled(x).sum().backward()
    graph = graph_of(compiled)
    assert (graph.tier, graph.early_hits) == (0, 0)
    assert "tier 0: calls run in Python" in str(vesta.explain(compiled))


def test_a_plan_that_fails_leaves_calls_in_python() -> None:
    _C.inject_fault("plan", "throw")
    compiled = vesta.compile(many_small, options=BACKGROUND)
    x = torch.randn(4, 4)
    for _ in range(4):
        assert torch.equal(compiled(x), many_small(x))
        vesta.wait(compiled, tier=1)
    assert vesta.explain(compiled).explanation.captures[0].skipped


def test_events_name_the_tiers() -> None:
    with vesta.events(True) as recorded:
        compiled = vesta.compile(many_small, options=BACKGROUND)
        x = torch.randn(4, 4)
        compiled(x)
        vesta.wait(compiled, tier=1)
        compiled(x)
        release()
        vesta.wait(compiled)
        compiled(x)
    tiers = [e for e in recorded if e.type == "tier"]
    assert [e.detail for e in tiers] == ["1: calls into ATen", "2: machine code"]
    assert len({e.variant for e in tiers}) == 1 and tiers[0].variant > 0


def test_wait_takes_a_tier_of_a_function() -> None:
    with pytest.raises(UserError, match="tier 1 or 2"):
        vesta.wait(tier=3)
    with pytest.raises(UserError, match="compiled function"):
        vesta.wait(tier=1)


def test_programs_without_kernels_stay_in_tier_1() -> None:
    compiled = vesta.compile(many_small, backend="aot_eager")
    x = torch.randn(4, 4)
    assert torch.equal(compiled(x), many_small(x))
    assert graph_of(compiled).tier == 1
