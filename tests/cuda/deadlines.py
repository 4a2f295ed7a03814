"""Compiles that take long or much memory: more of traps.TRAPS."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tests.cuda.traps import _equal, _in_threads, _model, trap

DELAY = 2.0  # seconds, of the stage that a trap delays
SOON = 1.0  # a call that does not wait for it takes less, even while other processes use the GPU


@contextmanager
def _delayed(stage: str) -> Iterator[None]:
    from vesta import _C

    _C.inject_fault(stage, "delay", DELAY)
    try:
        yield
    finally:
        _C.inject_fault(stage, "none")


def _soon(compiled: torch.nn.Module, model: torch.nn.Module, x: torch.Tensor) -> None:
    start = time.perf_counter()
    result = compiled(x)
    torch.cuda.synchronize()
    took = time.perf_counter() - start
    assert took < SOON, f"the call took {took:.2f} s"
    _equal(result, model(x))


def _pending(compiled: torch.nn.Module) -> list[bool]:
    import vesta

    return [g.pending for g in vesta.explain(compiled).explanation.graphs]


def _warmed() -> tuple[torch.nn.Module, torch.Tensor]:
    model, x = _model(), torch.randn(7, 64, device="cuda")
    with torch.no_grad():
        model(x)
    torch.cuda.synchronize()
    return model, x


@trap
def a_delayed_compile_delays_no_call() -> None:
    import vesta

    model, x = _warmed()
    with torch.no_grad():
        for stage in ("passes", "plan", "codegen", "assemble", "load"):
            compiled = vesta.compile(model, options={"deadline_ms": 50})
            with _delayed(stage):
                for _ in range(3):
                    _soon(compiled, model, x)
                assert _pending(compiled) == [True], stage
                assert vesta.wait(compiled, timeout=60)
            for _ in range(4):
                x.normal_()
                _equal(compiled(x), model(x))
            assert _pending(compiled) == [False], stage
            (graph,) = vesta.explain(compiled).explanation.graphs
            assert graph.compiled is not None and graph.compiled.kernels, stage


@trap
def a_compile_ends_while_the_caller_captures() -> None:
    """Neither the compile nor its code, which is loaded meanwhile, disturbs the capture."""
    import vesta

    model, x = _warmed()
    compiled = vesta.compile(model, options={"background": True})
    with torch.no_grad(), _delayed("codegen"):
        _soon(compiled, model, x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            before = compiled(x)
            assert vesta.wait(compiled, timeout=60)
            after = compiled(x)
        assert _pending(compiled) == [False]
        for _ in range(3):
            x.normal_()
            graph.replay()
            _equal(before, model(x))
            _equal(after, model(x))


@trap
def a_capture_is_the_first_call_and_does_not_wait() -> None:
    import vesta

    model, x = _warmed()
    compiled = vesta.compile(model, options={"deadline_ms": 50})
    with torch.no_grad():
        with _delayed("plan"):
            graph = torch.cuda.CUDAGraph()
            start = time.perf_counter()
            with torch.cuda.graph(graph):
                y = compiled(x)
            assert time.perf_counter() - start < SOON
            assert _pending(compiled) == [True]
            assert vesta.wait(compiled, timeout=60)
        for _ in range(3):
            x.normal_()
            graph.replay()
            _equal(y, model(x))
            _equal(compiled(x), model(x))


@trap
def threads_and_streams_go_on_while_a_compile_runs() -> None:
    """One thread compiles in the background, others compute on streams of their own and capture graphs."""
    import vesta

    model, _ = _warmed()
    compiled = vesta.compile(model, options={"background": True})

    def work(i: int) -> None:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            x = torch.randn(7 + i, 64, device="cuda")
            for _ in range(50):
                x = torch.randn_like(x)
                _equal(compiled(x), model(x))

    _in_threads(4, work)
    assert vesta.wait(timeout=60)
    _in_threads(4, work)


@trap
def a_compile_of_too_much_memory_runs_eager() -> None:
    """Whether it is the graph, the plan or a kernel for which the memory is too small."""
    import vesta

    def chain(x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            x = (x * (1.0 + i)).sin()
        return x

    x = torch.randn(4096, device="cuda")
    for n, mib, what in ((400, 2, "of which graphs may take"), (100, 2, "the plan of"), (30, 24, "the kernel")):
        options = {"compile_memory": mib << 20, "cache": False}
        compiled = vesta.compile(chain, options=options)
        for _ in range(3):
            assert torch.equal(compiled(x, n), chain(x, n))
        (captured,) = vesta.explain(compiled).explanation.captures
        said = [f.reason for f in captured.fallbacks] + [s.reason for s in captured.skipped]
        assert any("compile_memory" in reason and what in reason for reason in said), (what, said)
    compiled = vesta.compile(chain, options={"compile_memory": 1 << 30, "cache": False})
    _equal(compiled(x, 30), chain(x, 30))
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert graph.compiled is not None and graph.compiled.kernels
