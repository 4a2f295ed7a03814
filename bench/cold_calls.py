"""Times a call in a loop, and a call after other work has used the caches: `python -m bench.cold_calls`.

On a CPU. The checks of a call are the same for a GPU, which has been computing meanwhile.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from bench.calls import Decoder, Layers
from bench.workloads import tiny

EVICTED_BYTES = 96 << 20  # more than the caches hold


class Weights(torch.nn.Module):
    """One layer of a decoder: two norms and seven products."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.norms = torch.nn.ParameterList(torch.ones(side) for _ in range(2))
        self.products = torch.nn.ModuleList(torch.nn.Linear(side, side, bias=False) for _ in range(7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v, o, gate, up, down = self.products
        y = x * self.norms[0]
        x = x + o(q(y) + k(y) + v(y))
        y = x * self.norms[1]
        return x + down(gate(y) * up(y))


def microseconds(call: Callable[..., Any], arguments: tuple[Any, ...], calls: int, other: torch.Tensor | None) -> float:
    """The median time of a call. `other`: memory that is written before each call."""
    times = []
    for _ in range(calls):
        if other is not None:
            other.add_(1)
        start = time.perf_counter_ns()
        call(*arguments)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1e3


def main() -> None:
    import vesta

    torch.set_num_threads(1)
    torch.manual_seed(0)
    other = torch.zeros(EVICTED_BYTES, dtype=torch.int8)
    x = torch.randn(8, 8)
    programs: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "hit": (tiny, (x, x)),
        "300 parameters": (Layers(150), (x,)),
        "decoder": (Decoder(), (x,)),
        "decoder with products": (torch.nn.Sequential(*(Weights(4) for _ in range(32))), (torch.randn(1, 4),)),
    }
    print(f"{'microseconds of a call':28}{'loop':>10}{'evicted':>10}")
    with torch.no_grad():
        for name, (function, arguments) in programs.items():
            call = vesta.compile(function)
            microseconds(call, arguments, 20, None)
            loop, evicted = (microseconds(call, arguments, n, o) for n, o in ((1000, None), (100, other)))
            print(f"{name:28}{loop:10.2f}{evicted:10.2f}")


if __name__ == "__main__":
    main()
