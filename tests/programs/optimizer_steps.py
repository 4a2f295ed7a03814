"""Steps of torch.optim's optimizers, eager and compiled side by side: what both tests and measurements run.

``python -m tests.programs.optimizer_steps [NAME ...]`` measures the whole grid, or some of its optimizers.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import vesta
from vesta.number_rule import judge

Optimizer = torch.optim.Optimizer
COUNTS = (2, 20, 150)
FOREACH = (None, True, False)

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "SGD": lambda p, **k: torch.optim.SGD(p, lr=0.01, **k),
    "SGD-momentum": lambda p, **k: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.01, **k),
    "SGD-nesterov": lambda p, **k: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, **k),
    "Adam": lambda p, **k: torch.optim.Adam(p, lr=0.01, **k),
    "Adam-amsgrad": lambda p, **k: torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.01, **k),
    "AdamW": lambda p, **k: torch.optim.AdamW(p, lr=0.01, **k),
    "NAdam": lambda p, **k: torch.optim.NAdam(p, lr=0.01, **k),
    "RAdam": lambda p, **k: torch.optim.RAdam(p, lr=0.01, **k),
    "Adamax": lambda p, **k: torch.optim.Adamax(p, lr=0.01, **k),
    "Adagrad": lambda p, **k: torch.optim.Adagrad(p, lr=0.01, **k),
    "Adadelta": lambda p, **k: torch.optim.Adadelta(p, lr=0.01, **k),
    "RMSprop": lambda p, **k: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True, **k),
    "Rprop": lambda p, **k: torch.optim.Rprop(p, lr=0.01, **k),
    "ASGD": lambda p, **k: torch.optim.ASGD(p, lr=0.01, **k),
    "Adafactor": lambda p, **k: torch.optim.Adafactor(p, lr=0.01, **k),
}
if hasattr(torch.optim, "Muon"):
    OPTIMIZERS["Muon"] = lambda p, **k: torch.optim.Muon([x for x in p if x.dim() == 2], lr=0.01)


def has_foreach(name: str) -> bool:
    return name != "Muon"


def parameters(count: int, dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    """Parameters of a few shapes, with gradients; the same ones in each call."""
    generator = torch.Generator().manual_seed(1)
    out = []
    for i in range(count):
        shape = ((32, 32), (32,), (128, 32), (64, 32))[i % 4]
        p = torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype))
        p.grad = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        out.append(p)
    return out


def state_tensors(optimizer: Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    for i, p in enumerate(q for group in optimizer.param_groups for q in group["params"]):
        yield f"parameter {i}", p
        for name, value in optimizer.state.get(p, {}).items():
            if isinstance(value, torch.Tensor):
                yield f"{name} of parameter {i}", value


class Pair:
    """An optimizer twice, and a float64 copy. ``step`` is the compiled one; each step starts from eager's numbers.

    ``within``: the type in which the optimizer computes its updates, if there is no float64 of them; they may then
    differ by two of its roundings.
    """

    def __init__(
        self, make: Callable[..., Optimizer], count: int, within: torch.dtype | None = None, **options: Any
    ) -> None:
        self.eager = make(parameters(count), **options)
        self.compiled = make(parameters(count), **options)
        self.wide = make(parameters(count, torch.float64), **options)
        self.all = (self.eager, self.compiled, self.wide)
        self.step = vesta.compile(self.compiled.step, options={"only_if_faster": False})
        self.within = within
        self._before: dict[str, torch.Tensor] = {}
        self._generator = torch.Generator().manual_seed(2)

    def set_lr(self, lr: float) -> None:
        for optimizer in self.all:
            for group in optimizer.param_groups:
                group["lr"] = lr

    def new_gradients(self) -> None:
        for ps in zip(*([q for g in o.param_groups for q in g["params"]] for o in self.all), strict=True):
            grad = torch.randn(ps[0].shape, generator=self._generator)
            for p in ps:
                p.grad.copy_(grad)

    @torch.no_grad()
    def start_from_eager(self) -> None:
        self._before = {name: tensor.detach().clone() for name, tensor in state_tensors(self.eager)}
        for other in self.all[1:]:
            for name, tensor in state_tensors(other):
                tensor.copy_(self._before[name])

    def run(self) -> None:
        self.new_gradients()
        self.start_from_eager()
        self.eager.step()
        self.step()
        self.wide.step()

    def differences(self) -> list[str]:
        """What breaks the rule, by name."""
        out = []
        tensors = (state_tensors(self.eager), state_tensors(self.compiled), state_tensors(self.wide))
        for (name, a), (other, b), (_, w) in zip(*tensors, strict=True):
            if name != other or a.shape != b.shape or a.dtype != b.dtype:
                out.append(f"{name} is {other}")
            elif self.within and name in self._before:
                update = (a - self._before[name]).abs().max().item()
                if (a - b).abs().max().item() > 2 * torch.finfo(self.within).eps * update:
                    out.append(f"{name}: {(a - b).abs().max().item():.2e} of an update of {update:.2e}")
            elif not judge(b.detach(), a.detach(), w.detach(), lambda: ()).holds:
                out.append(f"{name}: {(a - b).abs().max().item():.2e}")
        return out


@dataclass(frozen=True)
class Row:
    """Medians of single steps in microseconds."""

    name: str
    count: int
    foreach: bool | None
    eager_us: float
    compiled_us: float
    graphs: int
    breaks: tuple[str, ...]
    recompiles: int

    @property
    def ratio(self) -> float:
        return self.eager_us / self.compiled_us

    def __str__(self) -> str:
        breaks = ", ".join(self.breaks) or "none"
        return (
            f"{self.name:13} {self.count:4} tensors, foreach {self.foreach!s:5}: eager {self.eager_us:8.1f} us, "
            f"compiled {self.compiled_us:8.1f} us ({self.ratio:5.2f}x), {self.graphs} graphs, "
            f"{self.recompiles} recompiles, breaks: {breaks}"
        )


def measure(name: str, count: int, foreach: bool | None, steps: int = 60) -> Row:
    """Interleaved steps after a warm-up, with a learning rate that changes in each."""
    options = {} if foreach is None or not has_foreach(name) else {"foreach": foreach}
    eager = OPTIMIZERS[name](parameters(count), **options)
    other = OPTIMIZERS[name](parameters(count), **options)
    compiled = vesta.compile(other.step)
    times: dict[bool, list[float]] = {False: [], True: []}
    for i in range(steps + 60):
        for group in (*eager.param_groups, *other.param_groups):
            group["lr"] = 0.01 * 0.999**i
        for is_compiled, step in ((False, eager.step), (True, compiled)):
            begin = time.perf_counter()
            step()
            if i >= 60:
                times[is_compiled].append(time.perf_counter() - begin)
    seen = vesta.explain(compiled).explanation
    return Row(
        name,
        count,
        foreach,
        statistics.median(times[False]) * 1e6,
        statistics.median(times[True]) * 1e6,
        len(seen.graphs),
        tuple(sorted({b.name for b in seen.breaks})),
        len(seen.recompiles),
    )


def grid(names: list[str]) -> Iterator[Row]:
    for name in names or OPTIMIZERS:
        for count in COUNTS:
            for foreach in FOREACH if has_foreach(name) else (None,):
                yield measure(name, count, foreach)


if __name__ == "__main__":
    for row in grid(sys.argv[1:]):
        print(row, flush=True)
