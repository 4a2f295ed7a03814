"""Runs a compiled graph on random numbers and measures its time and memory, for estimates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from vesta import _C
from vesta.cases import BOUNDS, Inputs
from vesta.recording import versions
from vesta.replay import options_of, seeded

__all__ = ["kept_compiles", "measured_graph"]

SECONDS = 0.2  # of runs, for one graph
# Operators of these namespaces are safe to call on any numbers. Others may crash, wait for other processes, or have
# side effects.
NAMESPACES = {"aten", "mkldnn", "prims", "vesta"}
# Operators of libraries that are written in Python upon these, and take every number that their graphs compute.
OPERATORS = {"transformers::grouped_mm_fallback"}


@contextlib.contextmanager
def kept_compiles() -> Iterator[_C.CaseKeeper]:
    """Keeps the compiles that begin inside, as :class:`vesta.record` does, but without a file."""
    keeper = _C.CaseKeeper("", versions())
    try:
        yield keeper
    finally:
        keeper.stop()


def measured_graph(compiles: _C.CaseKeeper, report: _C.CompileReport) -> _C.MeasuredRun | None:
    """Runs the graph that ``report`` describes a few times, on a CPU, on random floats and small integers. Returns None
    if the graph calls operators of other libraries, if an operator raises an error on these numbers, or if
    ``compiles`` has no compile of this graph."""
    if not all(e.op.partition("::")[0] in NAMESPACES or e.op in OPERATORS for e in report.externs):
        return None
    _, cases = _C.parse_cases(_C.join_cases([], compiles.cases()))
    for case in cases:
        if case.outcome != "compiled":
            continue
        repeated = case.repeat(options_of(case, cache=case.options.cache))
        if names(repeated.report) != names(report):  # a compile of another thread
            continue
        for bound in reversed(BOUNDS):  # 0 is an index of every table
            with contextlib.suppress(Exception), torch.no_grad(), seeded(case.seed):
                return repeated.measure(Inputs(case, bound).given, case.integers, SECONDS)
    return None


def names(report: _C.CompileReport) -> list[str]:
    return [*(k.name for k in report.kernels), *(e.op for e in report.externs)]
