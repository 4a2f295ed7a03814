"""Refuses, when it is imported, a torch that this build cannot run with.

The compiler is linked against torch's C++ interface, which changes with every minor version: with another one its
library would fail to load with the name of some missing symbol, or worse, load.
"""

from __future__ import annotations

import torch

from vesta._build import TORCH_VERSION

__all__ = ["mismatch"]


def mismatch(built_for: str, running: str) -> str:
    """What is wrong with running a build for torch ``built_for`` in torch ``running``; empty if nothing is."""
    wanted, found = built_for.split(".")[:2], running.split(".")[:2]
    if wanted == found:
        return ""
    return (
        f"this vesta was built for torch {built_for}, but torch {running} is installed; "
        f"install torch {'.'.join(wanted)}, or build vesta with this torch (pip install . in its source folder)"
    )


_message = mismatch(TORCH_VERSION, torch.__version__)
if _message:
    raise ImportError(_message)
