"""What PyTorch's profiler shows of compiled code."""

from __future__ import annotations

import contextlib
from collections import Counter

import torch
from torch.profiler import profile

import vesta
from tests.build import generates_code


def broken(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x @ w).sin() + 1
    print(end="")
    return y.exp().sum(-1)


def test_segments_kernels_and_operators_are_ranges() -> None:
    compiled = vesta.compile(broken)
    # A product in double precision is a call.
    x, w = torch.randn(64, 64, dtype=torch.float64), torch.randn(64, 64, dtype=torch.float64)
    expected = compiled(x, w)
    with profile() as shown:
        for _ in range(3):
            result = compiled(x, w)
    torch.testing.assert_close(result, expected)
    events = shown.events()
    counts = Counter(e.name for e in events)
    graphs = vesta.explain(compiled).explanation.graphs
    segments = {f"{g.where.function}:{g.where.line}" for g in graphs}
    kernels = {k.name for g in graphs if g.compiled for k in g.compiled.kernels}
    assert len(segments) == 2 and len(kernels) == (2 if generates_code() else 0)
    for name in segments | kernels:
        assert counts[name] == 3, counts
    around = {e.name: e.cpu_parent.name for e in events if e.name in kernels}
    assert set(around.values()) == (segments if kernels else set())
    outermost = {e.name for e in events if e.cpu_parent is None}
    assert outermost == segments  # calls into ATen, such as aten::mm, are inside of them
    assert counts["aten::mm"] == 3


def test_kernels_of_backward_passes_are_ranges() -> None:
    compiled = vesta.compile(lambda x, w: ((x @ w).sin() + 1).exp().sum(-1), fullgraph=True)
    x, w = torch.randn(64, 64, requires_grad=True), torch.randn(64, 64)
    compiled(x, w).sum().backward()
    with profile() as shown:
        for _ in range(3):
            compiled(x, w).sum().backward()
    events = shown.events()
    (graph,) = vesta.explain(compiled).explanation.graphs
    kernels = [k.name for half in graph.backward for k in half.kernels]
    assert bool(kernels) == generates_code()
    for name, count in Counter(kernels).items():
        ranges = [e for e in events if e.name == name and e.cpu_parent.name == "VestaBackward"]
        assert len(ranges) == 3 * count, Counter(e.name for e in events)


def test_a_call_after_the_profiler_leaves_no_range() -> None:
    compiled = vesta.compile(broken)
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    with profile() as shown:
        compiled(x, w)
    before = len(shown.events())
    compiled(x, w)
    assert len(shown.events()) == before


def test_errors_end_their_ranges() -> None:
    compiled = vesta.compile(lambda x, i: x[i].sin() + 1)
    x = torch.randn(4)
    compiled(x, torch.tensor([1, 2]))
    with profile() as shown:
        with contextlib.suppress(IndexError):
            compiled(x, torch.tensor([1, 9]))
        compiled(x, torch.tensor([1, 2]))
    ranges = [e for e in shown.events() if e.name.startswith("test_errors_end_their_ranges.<locals>.<lambda>:")]
    assert len(ranges) == 2
    assert ranges[1].cpu_parent is None
