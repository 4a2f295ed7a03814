"""Vesta: torch.compile rebuilt as native C++.

Compile a function, method or module with :func:`compile`, or through PyTorch's own entry point::

    model = vesta.compile(model)
    model = torch.compile(model, backend="vesta")

and see what happened with :func:`explain`, :func:`stats` and :func:`events`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch  # noqa: F401  (its libraries must be loaded before vesta._C)

import vesta.torch_version  # noqa: F401  (must run before vesta._C is loaded)
from vesta import errors
from vesta._build import VERSION as __version__
from vesta._C import passes
from vesta.compile import compile
from vesta.eager import disable, is_compiling
from vesta.events import Event, Events, events
from vesta.explain import Explainer, Explanation, explain
from vesta.function import reset, trace_and_compile
from vesta.misses import Miss
from vesta.options import OPTION_NAMES, make_options
from vesta.saving import Loaded, Saved, load, save
from vesta.stats import Stats, reset_stats, stats
from vesta.waiting import wait
from vesta.warming import Warmed, warm
from vesta.why_miss import why_miss

if TYPE_CHECKING:
    from vesta.comparing import compare
    from vesta.comparison import Comparison
    from vesta.estimating import Estimate, estimate
    from vesta.recording import record

__all__ = [
    "OPTION_NAMES",
    "Comparison",
    "Estimate",
    "Event",
    "Events",
    "Explainer",
    "Explanation",
    "Loaded",
    "Miss",
    "Saved",
    "Stats",
    "Warmed",
    "__version__",
    "compare",
    "compile",
    "disable",
    "errors",
    "estimate",
    "events",
    "explain",
    "is_compiling",
    "load",
    "make_options",
    "passes",
    "record",
    "reset",
    "reset_stats",
    "save",
    "stats",
    "trace_and_compile",
    "wait",
    "warm",
    "why_miss",
]

# The modules of these names are loaded at the first use: that takes an eighth of the time of `import vesta`.
_LATER = {
    "Comparison": "vesta.comparison",
    "Estimate": "vesta.estimating",
    "compare": "vesta.comparing",
    "estimate": "vesta.estimating",
    "record": "vesta.recording",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(importlib.import_module(_LATER[name]), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
