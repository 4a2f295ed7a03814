"""The compilers of a benchmark process, by name: how each compiles, and what is imported before the clock runs.

"loaded" is no compiler: the program that "vesta" has saved is loaded from its file.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import torch


def load(compiler: str) -> None:
    """Imports what the first call would import, so that the time of a first call does not include it."""
    if compiler in ("inductor", "backend"):
        importlib.import_module("torch._dynamo")
    if compiler == "inductor":
        importlib.import_module("torch._inductor.compile_fx")
    if compiler in ("backend", "vesta", "loaded"):
        importlib.import_module("vesta")
    if compiler == "backend":
        importlib.import_module("vesta.backend")


def compiled(compiler: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if compiler == "vesta":
        import vesta

        # What is measured is compiled code, however slow.
        return vesta.compile(function, options={"only_if_faster": False})
    if compiler == "loaded":
        import vesta

        return vesta.load(os.environ["VESTA_BENCH_FILE"])
    if compiler == "eager":
        return function
    return torch.compile(function, backend="vesta" if compiler == "backend" else compiler)
