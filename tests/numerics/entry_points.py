"""The ways to compile a Python callable on flat tensors without Dynamo, by name. The sweep of operators tests each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Flat = Callable[..., Sequence[Any]]


@dataclass
class Path:
    """How a call ran."""

    compiled: bool = True
    reason: str = ""  # why it ran eager
    kernels: list[list[str]] = field(default_factory=list)  # the operators of each fused kernel
    externs: dict[str, str] = field(default_factory=dict)  # operator -> why it is an ATen call
    recorded: bool = False  # into a CUDA graph


class EagerEntry:
    """No compiler: what the harness itself may not complain about."""

    def __init__(self, function: Flat) -> None:
        self._function = function

    def __call__(self, *tensors: torch.Tensor) -> Sequence[Any]:
        return self._function(*tensors)

    def path(self) -> Path:
        return Path(compiled=False, reason="eager")


class FxEntry:
    """PyTorch's own Python tracer and interpreter: a second, independent subject for the harness."""

    def __init__(self, function: Flat) -> None:
        self._function = function

    def __call__(self, *tensors: torch.Tensor) -> Sequence[Any]:
        from torch.fx.experimental.proxy_tensor import make_fx

        from tests.numerics.wide_runs import copies

        state = torch.get_rng_state()
        graph = make_fx(self._function, tracing_mode="fake")(*copies(tensors))
        torch.set_rng_state(state)
        return graph(*tensors)

    def path(self) -> Path:
        return Path()


class VestaEntry:
    """Vesta's tracer and compiler, entered as a C++ caller would."""

    def __init__(self, function: Flat) -> None:
        import vesta

        self._compiled = vesta.trace_and_compile(function)

    def __call__(self, *tensors: torch.Tensor) -> Sequence[Any]:
        return self._compiled(*tensors)

    def path(self) -> Path:
        report = self._compiled.report()
        if not report.variants:
            return Path(compiled=False, reason="; ".join(f.reason for f in report.fallbacks))
        path = Path(compiled=not report.fallbacks, reason="; ".join(f.reason for f in report.fallbacks))
        for variant in report.variants:
            path.kernels += [list(kernel.ops) for kernel in variant.kernels]
            path.externs.update({extern.op: extern.reason for extern in variant.externs})
            path.recorded |= bool(variant.graphs and variant.graphs.kept)
        return path


class RecordedEntry(VestaEntry):
    """On a GPU: the third call, which launches what was recorded with other numbers at the same addresses.

    A graph has two steps at least, so a kernel of Vesta's follows the operator.
    """

    def __init__(self, function: Flat) -> None:
        def more(*tensors: torch.Tensor) -> Sequence[Any]:
            results = list(function(*tensors))
            floats = [r for r in results if isinstance(r, torch.Tensor) and r.is_floating_point() and r.is_cuda]
            return results + [torch.tanh(r) * 2 for r in floats]

        self._function = function
        self._results = 0
        super().__init__(more)

    def __call__(self, *tensors: torch.Tensor) -> Sequence[Any]:
        from tests.numerics.wide_runs import copies

        states = torch.get_rng_state(), torch.cuda.get_rng_state()
        originals = copies(tensors)
        self._results = len(self._function(*copies(tensors)))
        self._compiled(*copies(tensors))
        try:
            for t in tensors:
                if t.is_floating_point():
                    t.mul_(0.5)
            self._compiled(*tensors)
        finally:
            for t, original in zip(tensors, originals, strict=True):
                t.copy_(original)
            torch.set_rng_state(states[0])
            torch.cuda.set_rng_state(states[1])
        return list(self._compiled(*tensors))[: self._results]


ENTRY_POINTS: dict[str, Callable[[Flat], Any]] = {
    "vesta": VestaEntry,
    "vesta-recorded": RecordedEntry,
    "eager": EagerEntry,
    "fx": FxEntry,
}
