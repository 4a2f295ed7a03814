"""A call waits for compiles no longer than its deadline; compiles end in the background, and later calls use them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import vesta
from tests.build import generates_code
from vesta import _C

STAGES = ("passes", "plan", "codegen", "assemble", "load")
DELAY = 1.0  # seconds, of the stage that a test delays
SOON = 0.6  # a call that does not wait for it takes less, even on a busy machine


@pytest.fixture(autouse=True)
def _no_faults() -> Iterator[None]:
    yield
    for stage in (*STAGES, "split", "operator"):
        _C.inject_fault(stage, "none")
    assert vesta.wait(timeout=60)


def _soon(call: Callable[[], torch.Tensor], expected: torch.Tensor) -> None:
    """The call gives this, and does not wait for the stage that is delayed."""
    start = time.perf_counter()
    result = call()
    assert time.perf_counter() - start < SOON
    torch.testing.assert_close(result, expected)


def _graphs(compiled: object) -> tuple[vesta.explain_capture.Graph, ...]:
    return vesta.explain(compiled).explanation.graphs


def _captured(compiled: object) -> vesta.explain_capture.Captured:
    return vesta.explain(compiled).explanation.captures[0]


FEW_STAGES = [s if s == "codegen" else pytest.param(s, marks=pytest.mark.slow) for s in STAGES]


@pytest.mark.parametrize("stage", FEW_STAGES)
def test_a_delayed_stage_delays_no_call(stage: str) -> None:
    seen = []

    def f(x: torch.Tensor) -> torch.Tensor:
        seen.append(None)
        return (x.sin() + 1).sum(-1)

    x = torch.randn(8, 16)
    _C.inject_fault(stage, "delay", DELAY)
    compiled = vesta.compile(f, options={"deadline_ms": 50})
    expected = f(x)
    _soon(lambda: compiled(x), expected)
    assert len(seen) == 2  # one for each of the two calls
    assert [g.pending for g in _graphs(compiled)] == [True]
    assert "the compile goes on in the background" in str(vesta.explain(compiled))
    _soon(lambda: compiled(x), expected)
    assert vesta.wait(compiled, timeout=60)
    assert not _graphs(compiled)[0].pending
    before = _graphs(compiled)[0].hits
    torch.testing.assert_close(compiled(x), expected)
    assert _graphs(compiled)[0].hits == before + 1
    assert len(seen) == 4


def test_background_waits_for_no_compile() -> None:
    _C.inject_fault("codegen", "delay", DELAY)
    compiled = vesta.compile(lambda x: x.exp() * 2, options={"background": True})
    x = torch.randn(64)
    _soon(lambda: compiled(x), x.exp() * 2)
    assert not vesta.wait(compiled, timeout=0)
    assert vesta.wait(compiled)
    torch.testing.assert_close(compiled(x), x.exp() * 2)
    (graph,) = _graphs(compiled)
    assert bool(graph.compiled.kernels) == generates_code()


def test_a_call_waits_once_for_all_its_parts() -> None:
    _C.inject_fault("plan", "delay", DELAY)

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = torch.sin(x) + 1
            torch._dynamo.graph_break()
        return x

    @vesta.disable
    def outside(g: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return g(x)

    inner = vesta.compile(f, options={"deadline_ms": 100})

    def nested(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = outside(inner, x.cos())
        return x

    outer = vesta.compile(nested, options={"deadline_ms": 100})
    x = torch.randn(4)
    _soon(lambda: outer(x), nested(x))


@pytest.mark.parametrize("kind", ["throw", "memory"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_compile_that_fails_in_the_background(stage: str, kind: str) -> None:
    _C.inject_fault(stage, kind)
    compiled = vesta.compile(lambda x: x.tanh() + 3, options={"background": True})
    x = torch.randn(16)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), x.tanh() + 3)
        vesta.wait(compiled)
    assert not any(g.compiled for g in _graphs(compiled))
    assert [s.name for s in _captured(compiled).skipped] == ["compile-failed"]


def test_strict_is_about_failures_alone() -> None:
    _C.inject_fault("plan", "delay", 0.3)
    _C.inject_fault("codegen", "throw")
    compiled = vesta.compile(lambda x: x.tanh() + 4, options={"background": True, "strict": True})
    x = torch.randn(16)
    torch.testing.assert_close(compiled(x), x.tanh() + 4)  # a compile that has not ended is no error
    vesta.wait(compiled)
    with pytest.raises(vesta.errors.Unsupported, match="injected"):
        compiled(x)


def test_a_trace_that_takes_too_long_is_given_up() -> None:
    calls = []

    def f(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        for i in range(3000):
            x = x + i
        return x

    compiled = vesta.compile(f, options={"deadline_ms": 5})
    x = torch.zeros(2)
    for _ in range(5):
        torch.testing.assert_close(compiled(x), f(x))
    assert len(calls) == 10
    e = _captured(compiled)
    assert [s.name for s in e.skipped] == ["deadline-passed"] and not e.graphs
    assert any("deadline_ms" in f.reason for f in e.fallbacks)
    named = re.search(r"\(5 ms; (\d+) ms would be enough\)", e.skipped[0].reason)
    assert named and int(named[1]) > 5, e.skipped
    # Twice, because the machine may become slower.
    patient = vesta.compile(f, options={"deadline_ms": 2 * int(named[1])})
    torch.testing.assert_close(patient(x), f(x))
    assert len(_graphs(patient)) == 1
    with pytest.raises(vesta.errors.Unsupported, match="deadline_ms"):
        vesta.compile(f, options={"deadline_ms": 5, "strict": True})(x)
    unbounded = vesta.compile(f, options={"deadline_ms": -1})
    torch.testing.assert_close(unbounded(x), f(x))
    assert len(_graphs(unbounded)) == 1


def test_flat_functions() -> None:
    _C.inject_fault("codegen", "delay", DELAY)
    f = vesta.trace_and_compile(lambda x: x.sigmoid() * 2, deadline_ms=20)
    x = torch.randn(16)
    for _ in range(2):
        _soon(lambda: f(x), x.sigmoid() * 2)
    assert f.report().hits == 0 and not f.report().variants
    assert vesta.wait()
    torch.testing.assert_close(f(x), x.sigmoid() * 2)
    assert f.report().hits == 1 and len(f.report().variants) == 1
    _C.inject_fault("codegen", "throw")
    g = vesta.trace_and_compile(lambda x: x.sigmoid() * 3, background=True)
    for _ in range(2):
        torch.testing.assert_close(g(x), x.sigmoid() * 3)
        vesta.wait()
    assert any("injected" in f.reason for f in g.report().fallbacks)

    def long(x: torch.Tensor) -> torch.Tensor:
        for i in range(3000):
            x = x + i
        return x

    h = vesta.trace_and_compile(long, deadline_ms=5)
    for _ in range(2):
        torch.testing.assert_close(h(x), long(x))
    first, second = (f.reason for f in h.report().fallbacks)
    assert first.endswith("deadline_ms allows (5 ms)")
    assert re.search(r"deadline_ms allows \(5 ms; \d+ ms would be enough\)$", second)


def test_a_trace_that_took_too_long_is_tried_again() -> None:
    """The machine may have been busy: three times, and then whenever the calls have doubled."""

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = x.sin()
        return x

    x = torch.randn(4)
    compiled = vesta.compile(f, options={"deadline_ms": 200, "only_if_faster": False})
    _C.inject_fault("operator", "delay", 0.05)
    slow = []
    for call in range(1, 41):
        start = time.perf_counter()
        torch.testing.assert_close(compiled(x), f(x))
        if time.perf_counter() - start > 0.1:
            slow.append(call)
    assert slow[:3] == [1, 2, 3] and slow[3] > 16 and len(slow) < 6, slow
    _C.inject_fault("operator", "none")
    for _ in range(100):
        torch.testing.assert_close(compiled(x), f(x))
    (graph,) = _graphs(compiled)
    assert graph.hits > 10 and not _captured(compiled).skipped


def test_other_threads_run_while_a_compile_goes_on() -> None:
    _C.inject_fault("codegen", "delay", DELAY)
    compiled = vesta.compile(lambda x: x.relu() - 2, options={"deadline_ms": 2000})
    x = torch.randn(8)
    results: list[torch.Tensor] = []
    threads = [threading.Thread(target=lambda: results.append(compiled(x))) for _ in range(6)]
    for t in threads:
        t.start()
    ticks = 0
    while any(t.is_alive() for t in threads):
        ticks += 1
        time.sleep(0.001)
    assert ticks > 100  # the GIL is free while the calls wait
    assert len(results) == 6
    for result in results:
        torch.testing.assert_close(result, x.relu() - 2)


def test_reset_and_saving_while_a_compile_goes_on(tmp_path) -> None:
    _C.inject_fault("codegen", "delay", 0.3)
    compiled = vesta.compile(lambda x: x.abs() + 5, options={"background": True})
    x = torch.randn(8)
    compiled(x)
    vesta.reset()
    torch.testing.assert_close(compiled(x), x.abs() + 5)
    saved = vesta.save(compiled, tmp_path / "program.vesta")
    assert saved.variants == 1
    torch.testing.assert_close(vesta.load(tmp_path / "program.vesta")(x), x.abs() + 5)


def test_the_longest_deadline() -> None:
    x = torch.randn(16)
    for options in ({"deadline_ms": 2**62}, {"deadline_ms": -1}):
        compiled = vesta.compile(lambda x: x.sin() - 1, options=options)
        torch.testing.assert_close(compiled(x), x.sin() - 1)
        assert [g.pending for g in _graphs(compiled)] == [False] and _graphs(compiled)[0].hits == 1
    assert vesta.trace_and_compile(lambda x: x.cos() - 1, deadline_ms=2**62)(x).shape == x.shape
    assert vesta.wait(timeout=1e300)


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESTA_DEADLINE_MS", "70")
    assert vesta.make_options().deadline_ms == 70
    assert vesta.make_options({"deadline_ms": 90}).deadline_ms == 90
    monkeypatch.delenv("VESTA_DEADLINE_MS")
    assert vesta.make_options().deadline_ms == 10_000
    for text in ("soon", "-2", "1.5"):
        monkeypatch.setenv("VESTA_DEADLINE_MS", text)
        with pytest.raises(vesta.errors.UserError, match="VESTA_DEADLINE_MS"):
            vesta.make_options()
    monkeypatch.delenv("VESTA_DEADLINE_MS")
    with pytest.raises(vesta.errors.UserError, match="deadline_ms"):
        vesta.make_options({"deadline_ms": -2})
    with pytest.raises(vesta.errors.UserError, match="timeout"):
        vesta.wait(timeout=-1)
    with pytest.raises(vesta.errors.UserError, match=r"vesta\.wait"):
        vesta.wait(torch.sin)


class Training:
    """A model, and its outputs and gradients eager and compiled."""

    def __init__(self, **options: object) -> None:
        self.model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        self.compiled = vesta.compile(self.model, options={"cache": False, **options})
        self.x = torch.randn(5, 8)

    def step(self, model: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        out = model(self.x)
        return [out.detach(), *torch.autograd.grad(out.square().sum(), list(self.model.parameters()))]

    def check(self) -> float:
        """Compares a step with eager, and returns its seconds."""
        start = time.perf_counter()
        found = self.step(self.compiled)
        seconds = time.perf_counter() - start
        for a, b in zip(found, self.step(self.model), strict=True):
            torch.testing.assert_close(a, b)
        return seconds


@pytest.mark.parametrize("options", [{"deadline_ms": 50}, pytest.param({"background": True}, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stage", ["split", pytest.param("plan", marks=pytest.mark.slow), "codegen"])
def test_a_delayed_stage_delays_no_training_call(stage: str, options: dict[str, object]) -> None:
    training = Training(**options)
    _C.inject_fault(stage, "delay", DELAY)
    assert training.check() < SOON
    (graph,) = _graphs(training.compiled)
    assert graph.pending
    assert training.check() < SOON
    assert vesta.wait(training.compiled, timeout=60)
    training.check()
    (graph,) = _graphs(training.compiled)
    assert not graph.pending and graph.hits > 0 and len(graph.backward) == 1


def test_a_derivative_that_takes_too_long_to_trace() -> None:
    """A trace is given up in the backward pass, too, and the time that is named is enough for both passes."""

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = x.sin()
        return x

    _C.inject_fault("operator", "delay", 0.05)
    x = torch.randn(4, requires_grad=True)
    compiled = vesta.compile(f, options={"deadline_ms": 600})
    for _ in range(3):
        start = time.perf_counter()
        result = compiled(x)
        assert time.perf_counter() - start < 0.8  # 0.4 s for the eight operators, 0.8 s for their derivatives
        torch.testing.assert_close(result, f(x))
    (skipped,) = _captured(compiled).skipped
    assert skipped.name == "deadline-passed"
    named = re.search(r"\(600 ms; (\d+) ms would be enough\)", skipped.reason)
    assert named and int(named[1]) > 1200, skipped.reason
    patient = vesta.compile(f, options={"deadline_ms": int(named[1])})
    torch.testing.assert_close(patient(x), f(x))
    (graph,) = _graphs(patient)
    assert graph.trains and graph.hits == 1 and not graph.pending


def test_a_backward_half_that_is_late() -> None:
    """Its passes run as calls of its operators."""
    training = Training(deadline_ms=50)
    training.check()
    other = torch.randn(5, 8)

    def step(model: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        return [*torch.autograd.grad(model(other).sum(), list(training.model.parameters()))]  # of another tangent

    _C.inject_fault("codegen", "delay", DELAY)
    for _ in range(2):
        _soon(lambda: step(training.compiled)[0], step(training.model)[0])
        assert len(_graphs(training.compiled)[0].backward) == 1
    assert vesta.wait(training.compiled, timeout=60)
    torch.testing.assert_close(step(training.compiled), step(training.model))
    assert len(_graphs(training.compiled)[0].backward) == 2


@pytest.mark.parametrize("kind", ["throw", "memory"])
def test_a_backward_half_that_fails(kind: str) -> None:
    training = Training()
    _C.inject_fault("plan", kind)
    for _ in range(2):
        training.check()
    _C.inject_fault("plan", "none")
    assert {s.name for s in _captured(training.compiled).skipped} == {"compile-failed"}
    later = Training()
    later.check()
    _C.inject_fault("plan", kind)
    parameters = list(later.model.parameters())
    for _ in range(2):
        ours, theirs = (torch.autograd.grad(m(later.x).sum(), parameters) for m in (later.compiled, later.model))
        torch.testing.assert_close(ours, theirs)
    (failure,) = _graphs(later.compiled)[0].backward_failures
    assert "calls of its operators: " + failure in str(vesta.explain(later.compiled))


def test_a_training_call_that_may_wait_is_compiled_at_once() -> None:
    training = Training()
    training.check()
    (graph,) = _graphs(training.compiled)
    assert graph.hits == 1 and not graph.pending and len(graph.backward) == 1


def test_a_flat_trace_that_takes_too_long_is_tried_again() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if slow:
            time.sleep(0.1)
        return x.sin() + 7

    slow = True
    compiled = vesta.trace_and_compile(f, deadline_ms=50)
    x = torch.randn(4)
    torch.testing.assert_close(compiled(x), x.sin() + 7)
    assert not compiled.report().variants
    slow = False
    torch.testing.assert_close(compiled(x), x.sin() + 7)
    torch.testing.assert_close(compiled(x), x.sin() + 7)
    assert len(compiled.report().variants) == 1 and compiled.report().hits >= 1


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"VESTA_CACHE_DIR": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("seconds", [pytest.param(0.2, marks=pytest.mark.slow), 30])
def test_exit_does_not_wait_for_a_compile(seconds: float) -> None:
    start = time.perf_counter()
    out = _run(
        f"""
        import atexit, torch, vesta
        vesta._C.inject_fault("plan", "delay", {seconds})
        f = vesta.compile(lambda x: x.sin() * 2, options={{"background": True}})
        f(torch.randn(16, 64))
        print(vesta.wait(timeout=0))
        atexit.register(lambda: print("left"))
        """
    )
    assert out.split() == ["False", "left"]
    assert time.perf_counter() - start < 25  # most of it is the import of torch


def test_a_child_of_a_fork_compiles_itself() -> None:
    out = _run(
        """
        import os, torch, vesta
        f = vesta.compile(lambda x: x.sin() + 1, options={"background": True})
        g = vesta.trace_and_compile(lambda x: x.cos() + 1, background=True)
        x = torch.ones(8)
        vesta._C.inject_fault("plan", "delay", 0.5)
        f(x), g(x)
        child = os.fork()
        vesta._C.inject_fault("plan", "none")
        for _ in range(3):
            torch.testing.assert_close(f(x), x.sin() + 1)
            torch.testing.assert_close(g(x), x.cos() + 1)
            assert vesta.wait(f, timeout=60) and vesta.wait(timeout=60)
        (graph,) = vesta.explain(f).explanation.graphs
        line = f"{'parent' if child else 'child'} {graph.pending} {graph.hits > 0} {g.report().hits > 0}\\n"
        os.write(1, line.encode())  # at once: both processes write
        if child:
            assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert sorted(out.splitlines()) == ["child False True True", "parent False True True"]


@pytest.mark.slow
def test_forks_at_any_time_of_a_first_compile() -> None:
    """Locks, static objects and kernels that the parent's compile holds or makes: some of 40 forks meet each."""
    out = _run(
        """
        import os, random, time, torch, traceback, vesta
        random.seed(0)
        def first_compile(delay):
            f = vesta.compile(lambda x: x.sin() + 1, options={"background": True})
            g = vesta.trace_and_compile(lambda x: x.cos() + 1, background=True)
            x = torch.ones(8)
            f(x), g(x)
            time.sleep(delay)
            child = os.fork()
            for _ in range(3):
                torch.testing.assert_close(f(x), x.sin() + 1)
                torch.testing.assert_close(g(x), x.cos() + 1)
                assert vesta.wait(f, timeout=20) and vesta.wait(timeout=20)
            if child:
                assert os.waitpid(child, 0)[1] == 0
        for i in range(40):
            child = os.fork()  # nothing is compiled yet in this process
            if child == 0:
                status = 1
                try:
                    first_compile(random.random() * 0.03 if i % 2 else 0)
                    status = 0
                except BaseException:
                    traceback.print_exc()
                os._exit(status)
            assert os.waitpid(child, 0)[1] == 0, i
        print("done")
        """
    )
    assert out.endswith("done\n")
