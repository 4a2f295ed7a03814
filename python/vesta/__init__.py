"""Vesta: torch.compile rebuilt as native C++.

Use it through PyTorch's own door::

    model = torch.compile(model, backend="vesta")

and ask what happened with :func:`explain`.
"""

from __future__ import annotations

import torch  # noqa: F401  (its libraries must be loaded before ours)

import vesta.torch_version  # noqa: F401  (before vesta._C, which another torch cannot load)
from vesta import errors
from vesta._build import VERSION as __version__
from vesta._C import passes
from vesta.explain import Explanation, explain
from vesta.function import reset, trace_and_compile
from vesta.options import OPTION_NAMES, make_options

__all__ = [
    "OPTION_NAMES",
    "Explanation",
    "__version__",
    "errors",
    "explain",
    "make_options",
    "passes",
    "reset",
    "trace_and_compile",
]
