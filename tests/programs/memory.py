"""Programs whose compiles take more or less memory, for tests/programs/test_compile_memory.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Program = tuple[Callable[..., Any], dict[str, Any]]  # with its arguments


def repeated(body: Callable[[torch.Tensor], torch.Tensor], n: int, x: torch.Tensor) -> Program:
    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(n):
            x = body(x)
        return x

    return f, {"x": x}


def model(name: str) -> Program:
    from tests.programs.zoo import ZOO

    entry = ZOO[name]
    return entry.build(), entry.inputs(0, entry.lengths[0])


def program(name: str) -> Program:
    if name == "chain":
        return repeated(lambda x: torch.sin(x) + 1, 1000, torch.randn(64))
    if name == "pointwise":  # almost 20,000 operators, the most that a trace of Python code takes
        return repeated(lambda x: torch.sin(x) + 1, 9_900, torch.randn(64))
    if name == "products":
        return repeated(lambda x: x @ x, 400_000, torch.eye(4))
    if name == "kernel":  # as much code as the plan puts into one kernel
        return repeated(torch.sin, 40, torch.randn(4096))
    return model(name)
