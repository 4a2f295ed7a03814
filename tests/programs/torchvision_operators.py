"""Lets torchvision's Python part be imported beside a CPU build of torch."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import torch


@functools.cache
def declare_torchvision_operators() -> torch.library.Library | None:
    """Before torchvision is imported: where its C++ operators cannot be loaded, declares the two it asks for."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    for binary in Path(found.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(str(binary))
            return None
        except OSError:
            continue
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float t) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float t) -> Tensor")
    return library
