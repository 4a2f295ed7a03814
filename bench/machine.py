"""The limits of this machine: copy bandwidth, and vector functions on data that stays in cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


def seconds(function: Callable[[], Any], rounds: int = 9) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)  # what the machine can do, not what it was doing besides


def copy_bandwidth(mib: int = 64) -> float:
    """Bytes per second, read and written, of a copy between existing buffers."""
    source = torch.ones(mib * 2**20 // 4)
    target = torch.zeros_like(source)
    return 2 * source.nbytes / seconds(lambda: target.copy_(source))


def clone_bandwidth(mib: int = 64) -> float:
    """The same for a copy into new memory, like that of an operator's result."""
    source = torch.ones(mib * 2**20 // 4)
    source.clone()
    return 2 * source.nbytes / seconds(source.clone)


def element_seconds(function: str) -> float:
    """The time per float32 element of a vector function on all threads."""
    count = 2**18
    x, out = torch.rand(count) + 0.5, torch.empty(count)
    call = getattr(torch, function)
    return seconds(lambda: [call(x, out=out) for _ in range(20)]) / (20 * count)


def measure() -> dict[str, float]:
    found = {"copy_bytes_per_s": copy_bandwidth(), "clone_bytes_per_s": clone_bandwidth()}
    return found | {f"{name}_s": element_seconds(name) for name in ("exp", "log", "erf")}
