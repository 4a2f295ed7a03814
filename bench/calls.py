"""Measures calls of small functions under one compiler. Reads commands from stdin and prints JSON lines.

plain             a round of a call-heavy program that is not compiled; answers seconds
first             compiles and calls all probes; answers how many graph breaks the one with a break had
round PROBE S     calls for so long; answers the median of a call in microseconds
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from bench.compilers import compiled, load
from bench.workloads import tiny

no_operation = gc.isenabled  # a function written in C that no compiler looks into


def nothing(x: torch.Tensor) -> torch.Tensor:
    return x


def before_break(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def after_break(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def with_break(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    no_operation()
    return y * 2


class Layers(torch.nn.Module):
    """Reads each parameter of its layers, and with `sizes` also their shapes."""

    def __init__(self, count: int, sizes: bool = False) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(count))
        self.sizes = sizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = 0
        layer: Any
        for layer in self.layers:
            if self.sizes:
                n += layer.weight.shape[0] + layer.bias.shape[0]
            elif layer.weight is not None and layer.bias is not None:
                n += 1
        return x + n


class Weight(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


class Decoder(torch.nn.Module):
    """The tensors of a decoder step with little work: 32 layers, each with nine weights and two written caches."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(*(Weight() for _ in range(9))) for _ in range(32))
        self.keys = [torch.zeros(4, 8) for _ in range(32)]
        self.values = [torch.zeros(4, 8) for _ in range(32)]
        self.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, keys, values in zip(self.layers, self.keys, self.values, strict=True):
            x = layer(x)
            keys[1] = x[0]
            values[1] = x[1]
        return x


def probes() -> dict[str, tuple[Callable[..., Any], int]]:
    """The callables by name, each with its number of tensors."""
    return {
        "hit": (tiny, 2),
        "no layers": (Layers(0), 1),
        "300 parameters": (Layers(150), 1),
        "300 sizes": (Layers(150, sizes=True), 1),
        "decoder": (Decoder(), 1),
        "nothing": (nothing, 1),
        "before break": (before_break, 1),
        "after break": (after_break, 1),
        "with break": (with_break, 1),
    }


# ---- a program that is all calls


class Node:
    def __init__(self, value: int) -> None:
        self._value = value

    @property
    def value(self) -> int:
        return self._value

    def added(self, other: Node, *, scale: int = 1) -> int:
        return self.value + scale * other.value


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def call_heavy() -> int:
    nodes = [Node(i) for i in range(300)]
    total = fibonacci(22)
    for a, b in zip(nodes, reversed(nodes), strict=True):
        total += a.added(b, scale=2) + sum(x for x in range(5))
    return total


# ---- timing


def microseconds(call: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> float:
    """The median over batches of the mean time of a call."""
    start = time.perf_counter()
    call(*arguments)
    batch = max(1, min(50, int(1e-3 / (time.perf_counter() - start + 1e-9))))  # a batch is short against a time slice
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(batch):
            call(*arguments)
        times.append((time.perf_counter() - start) / batch)
    return 1e6 * statistics.median(times)


def breaks_of(compiler: str, call: Callable[..., Any]) -> int:
    if compiler == "vesta":
        import vesta

        return len(vesta.explain(call).explanation.breaks)
    if compiler == "eager":
        return 0
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values())


def main() -> None:
    compiler = sys.argv[1]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to stdout too: the parent reads answers only
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(os.environ.get("VESTA_BENCH_THREADS", os.cpu_count() or 1)))
    load(compiler)
    torch.manual_seed(0)
    tensors = (torch.randn(8, 8), torch.randn(8, 8))
    plain = probes()
    ready: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "C function": (no_operation, ()),
    }
    call_heavy()

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    answer(ready=True)
    with torch.no_grad():
        for line in sys.stdin:
            command, _, rest = line.strip().partition(" ")
            if command == "plain":
                start = time.perf_counter()
                call_heavy()
                answer(seconds=time.perf_counter() - start)
            elif command == "first":
                for name, (function, count) in plain.items():
                    ready[name] = compiled(compiler, function), tensors[:count]
                    ready[name][0](*ready[name][1])
                answer(breaks=breaks_of(compiler, ready["with break"][0]))
            elif command == "round":
                probe, _, seconds = rest.rpartition(" ")
                answer(us=microseconds(*ready[probe], float(seconds)))


if __name__ == "__main__":
    main()
