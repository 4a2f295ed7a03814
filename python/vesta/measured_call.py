"""Runs compiled code on random numbers and measures its time and memory, for estimates."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from vesta import _C
from vesta.cases import BOUNDS
from vesta.replay import seeded

__all__ = ["MeasuredCall", "calls_known_operators", "measured_call"]

SECONDS = 0.2  # how long the calls of one graph are measured
FEWEST = 3  # measured calls
BLOCK = 1 << 18  # random numbers, of which a tensor's memory holds as many copies as it needs
# Operators of these namespaces are safe to call on any numbers. Others may crash, wait for other processes, or have
# side effects.
NAMESPACES = {"aten", "mkldnn", "prims", "vesta"}
# Operators of libraries that are written in Python upon these, and take every number that their graphs compute.
OPERATORS = {"transformers::grouped_mm_fallback"}


@dataclass(frozen=True)
class MeasuredCall:
    """``us``: microseconds of the shortest call. ``bytes``: what stays allocated after calls, which are packed weights
    and the arena, and the most that a call allocates beside it."""

    us: float
    bytes: int


def calls_known_operators(report: _C.CompileReport) -> bool:
    """Whether the graph calls no operators of other libraries."""
    return all(e.op.partition("::")[0] in NAMESPACES or e.op in OPERATORS for e in report.externs)


def measured_call(
    run: Callable[[], _C.WarmUp], weights: Iterable[torch.Tensor], arguments: Iterable[torch.Tensor]
) -> MeasuredCall | None:
    """Measures calls of ``run``, which runs compiled code on these tensors, after it has filled them with random floats
    and small integers. Returns None if an operator raises an error on these numbers."""
    scales = [*((t, scale_of(t)) for t in weights), *((t, 1.0) for t in arguments)]
    for bound in reversed(BOUNDS):  # 0 is an index of every table
        with contextlib.suppress(Exception), warnings.catch_warnings(), seeded(0):
            warnings.simplefilter("ignore")
            for t, scale in scales:
                fill(t, bound, scale)
            if not (warmed := run()).ready:
                continue
            us = least_us(run)
            kept, most = _C.bytes_of_calls(run)
            return MeasuredCall(us, warmed.packed_bytes + kept + most)
    return None


def least_us(call: Callable[[], object]) -> float:
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(times) < FEWEST or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e6 * min(times)


def scale_of(weight: torch.Tensor) -> float:
    """That of initial weights: a product with the matrix has numbers as large as what it multiplies."""
    return 1 / math.sqrt(max(1, weight[0].numel())) if weight.dim() > 1 and len(weight) else 1.0


def fill(t: torch.Tensor, bound: int, scale: float) -> None:
    """Fills the memory of ``t``: matrices with normal numbers times ``scale``, vectors, which may be variances, with
    positive numbers near 1, and integers with numbers below ``bound``."""
    memory = t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)
    count = min(memory.numel(), BLOCK)
    if t.dtype is torch.bool:
        block = torch.randint(0, 2, (count,))
    elif not t.is_floating_point() and not t.is_complex():
        block = torch.randint(0, bound, (count,))
    elif t.dim() > 1:
        block = torch.randn(count) * scale
    else:
        block = 0.5 + torch.rand(count)
    block = block.to(t.dtype)
    for part in memory.split(BLOCK):
        part.copy_(block[: part.numel()])
