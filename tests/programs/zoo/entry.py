"""The table of models and what builders of its rows share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Inputs = Callable[[int, int], dict[str, Any]]  # (seed, length) -> keyword arguments


@dataclass(frozen=True)
class Entry:
    """`build` gives the module in eval mode; `inputs` its arguments; `lengths` sizes to call it with.

    `tests` are the modes in which `make test` runs it. `trains` is False where a training step of eager's is no
    function of its inputs alone, has no gradients, or cannot run through PyTorch's own AOTAutograd.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Inputs
    lengths: tuple[int, ...] = (16,)
    tests: tuple[str, ...] = ()
    trains: bool = True


ZOO: dict[str, Entry] = {}


def entry(
    name: str,
    build: Callable[[], nn.Module],
    inputs: Inputs,
    lengths: tuple[int, ...] = (16,),
    tests: tuple[str, ...] = (),
    trains: bool = True,
) -> None:
    if name in ZOO:
        raise ValueError(f"two models named {name}")
    ZOO[name] = Entry(name, build, inputs, lengths, tests, trains)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(seed: int, *size: int) -> torch.Tensor:
    return torch.randn(*size, generator=generator(seed))


def integers(seed: int, end: int, *size: int) -> torch.Tensor:
    return torch.randint(0, end, size, generator=generator(seed))
