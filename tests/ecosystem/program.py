"""The table of programs and what its files share.

A program is a function that is given `compile` and builds what a user would: with the identity it is the eager program,
with `vesta.compile` the compiled one. It names no seed: the generator is seeded before it is
built and before each call. Libraries are imported inside of it, so that the table is there without them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Built:
    """`call(**inputs(n))` is the n-th call and returns tensors, in any container.

    `modules` hold the numbers it computes with beside its inputs: the float64 run of the rule converts these.
    """

    call: Callable[..., Any]
    inputs: Callable[[int], dict[str, Any]]
    modules: tuple[nn.Module, ...] = ()


Compile = Callable[[Any], Any]


@dataclass(frozen=True)
class Program:
    """`trains`: gradients and optimizer steps are the slow part of a call."""

    name: str
    package: str
    what: str
    build: Callable[[Compile], Built]
    trains: bool = False


PROGRAMS: dict[str, Program] = {}


def program(
    package: str, what: str, *, trains: bool = False
) -> Callable[[Callable[[Compile], Built]], Callable[[Compile], Built]]:
    """Enters a program of a package (as package indexes name it) under FILE.FUNCTION."""

    def enter(build: Callable[[Compile], Built]) -> Callable[[Compile], Built]:
        name = f"{build.__module__.rpartition('.')[2]}.{build.__name__}"
        if name in PROGRAMS:
            raise ValueError(f"two programs named {name}")
        PROGRAMS[name] = Program(name, package, what, build, trains)
        return build

    return enter


def load_programs() -> dict[str, Program]:
    """The table, filled from every file of the folder `programs`."""
    package = importlib.import_module("tests.ecosystem.programs")
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    return PROGRAMS


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(seed: int, *size: int) -> torch.Tensor:
    return torch.randn(*size, generator=generator(seed))


def uniform(seed: int, *size: int) -> torch.Tensor:
    return torch.rand(*size, generator=generator(seed))


def integers(seed: int, end: int, *size: int) -> torch.Tensor:
    return torch.randint(0, end, size, generator=generator(seed))


def no_inputs(_seed: int) -> dict[str, Any]:
    return {}
