"""Time and memory of a compiled graph on tensors of its own, for estimates."""

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
# Of operators that are safe to call on any numbers. Others may crash, wait for other processes, or have effects.
NAMESPACES = {"aten", "mkldnn", "prims", "vesta"}


@contextlib.contextmanager
def kept_compiles() -> Iterator[list[_C.Case]]:
    """The compiles that begin inside, when they have ended."""
    cases: list[_C.Case] = []
    keeper = _C.CaseKeeper("", versions())
    try:
        yield cases
    finally:
        keeper.stop()
        cases += _C.parse_cases(_C.join_cases(versions(), keeper.cases()))[1]


def measured_graph(cases: list[_C.Case], report: _C.CompileReport) -> _C.MeasuredRun | None:
    """A few runs of the graph that ``report`` describes, on a CPU, on random floats and small integers. None if it
    calls operators of other libraries, if these numbers make an operator raise an error, or no case is that graph's."""
    if not {e.op.partition("::")[0] for e in report.externs} <= NAMESPACES:
        return None
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
