"""Kernels whose schedules are measured: more of traps.TRAPS."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.nn.functional as F

from tests.cuda.processes import _in_a_process, _variants
from tests.cuda.traps import _equal, _model, trap


def _entropy(x: torch.Tensor) -> torch.Tensor:
    return -(F.softmax(x, -1) * F.log_softmax(x, -1)).sum(-1)


def _programs() -> list[tuple[Any, tuple[torch.Tensor, ...]]]:
    x = torch.randn(512, 4096, device="cuda")
    return [
        (_model(), (torch.randn(7, 64, device="cuda"),)),
        (_entropy, (x,)),
        (lambda x: F.layer_norm(x, (4096,)) + x.t().contiguous().t(), (x,)),
        (lambda x, y: F.gelu(x) * y + 1, (x, x + 1)),
        (lambda x: (x.sum(0), x.amax(0), (x.t() * 2).contiguous()), (x,)),
        (lambda w, i: F.embedding(i, w) * 2, (x, torch.randint(0, 512, (900,), device="cuda"))),
        # Places that zeros do not have.
        (lambda w, i: F.embedding(i - 3, w) * 2, (x, torch.randint(3, 512, (900,), device="cuda"))),
        (F.cross_entropy, (x, torch.randint(0, 4096, (512,), device="cuda"))),
    ]


def _check(mode: str) -> list[Any]:
    """Reports of the programs, each compared with eager in its first calls."""
    import vesta

    kept = []  # reports are of functions that are alive
    with torch.no_grad():
        for function, inputs in _programs():
            torch._dynamo.reset()
            compiled = vesta.compile(function, mode=mode)
            kept.append(compiled)
            for _ in range(4):
                ours, eagers = compiled(*inputs), function(*inputs)
                for a, b in zip(
                    ours if isinstance(ours, tuple) else (ours,),
                    eagers if isinstance(eagers, tuple) else (eagers,),
                    strict=True,
                ):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
    assert not vesta.explain().fallbacks, vesta.explain()
    return _variants()


@trap
def schedules_are_measured() -> None:
    reports = [r.tuning for r in _check("max-autotune")]
    assert len(reports) == 8 and all(reports)
    for r in reports:
        assert not r.why_none or r.why_none == "no kernel has another schedule", r
        assert r.left == 0 and r.seconds < 20 and r.after_us <= r.before_us, r
        assert r.measured == r.kernels and r.known == 0 and r.schedules >= 2 * r.measured, r
        # Nothing takes less than a launch, nor a second.
        assert r.measured == 0 or 0.5 * r.measured < r.before_us < 1e6, r
    assert sum(r.measured for r in reports) >= 7


@trap
def schedules_without_graphs() -> None:
    reports = _check("max-autotune-no-cudagraphs")
    assert all(r.tuning and not r.tuning.why_none.startswith("measuring") for r in reports)
    assert not any(r.graphs and r.graphs.recorded for r in reports)


def tune(expect: str) -> None:
    reports = _check("max-autotune")
    measured = sum(r.tuning.measured for r in reports if r.tuning)
    if expect == "measured":
        assert measured > 0
    else:
        assert measured == 0 and all(r.cached for r in reports), reports


def another_program() -> None:
    """Another program with a kernel that has been measured: its choice is known."""
    import vesta

    x = torch.randn(512, 4096, device="cuda")
    function = lambda x: (_entropy(x), x @ x.t())  # noqa: E731
    with torch.no_grad():
        compiled = vesta.compile(function, mode="max-autotune")
        found = compiled(x)
        for a, b in zip(found, function(x), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-2)
    (report,) = _variants()
    assert not report.cached and report.tuning.known >= 1 and report.tuning.measured == 0, report.tuning


@trap
def choices_are_kept() -> None:
    with tempfile.TemporaryDirectory() as cache:
        for expect in ("measured", "known"):
            _in_a_process("tuned.tune", expect, VESTA_CACHE_DIR=cache)
        _in_a_process("tuned.another_program", VESTA_CACHE_DIR=cache)


@trap
def no_time_to_measure() -> None:
    import vesta

    x = torch.randn(512, 4096, device="cuda")
    with torch.no_grad():
        kept = [vesta.compile(_entropy, options={"autotune_seconds": seconds}) for seconds in (1e-9, 10)]
        for compiled in kept:
            _equal(compiled(x), _entropy(x))
    reports = [r.tuning for r in _variants()]
    assert len(reports) == 2 and {(r.measured > 0, r.left > 0) for r in reports} == {(False, True), (True, False)}


@trap
def measuring_in_the_callers_capture() -> None:
    """The first call, which compiles and measures, is inside of a capture."""
    import vesta

    x = torch.randn(512, 4096, device="cuda")
    compiled = vesta.compile(_entropy, mode="max-autotune")
    with torch.no_grad():
        expected = _entropy(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = compiled(x)
        for _ in range(3):
            graph.replay()
        _equal(result, expected)


@trap
def tuned_training() -> None:
    import vesta

    losses = []
    for mode in (None, "max-autotune"):
        model = _model()
        run = vesta.compile(model, mode=mode) if mode else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(1)
        for _ in range(4):
            x = torch.randn(16, 64, device="cuda")
            loss = F.mse_loss(run(x), x.softmax(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.detach())
    _equal(losses[1], losses[0])


@trap
def tuned_symbolic_sizes() -> None:
    import vesta

    compiled = vesta.compile(_entropy, options={"autotune_seconds": 10, "dynamic": True})
    with torch.no_grad():
        for rows, columns in ((512, 4096), (3, 7), (1000, 33), (2, 100000)):
            x = torch.randn(rows, columns, device="cuda")
            torch.testing.assert_close(compiled(x), _entropy(x), rtol=1e-4, atol=1e-4)
