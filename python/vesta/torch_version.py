"""Importing this module fails if the installed torch is not the one that this build is for.

The compiler is linked against torch's C++ interface, which changes with every minor version. With another version its
library would fail to load with the name of a missing symbol or, worse, load and misbehave.
"""

from __future__ import annotations

import torch

from vesta._build import TORCH_VERSION

__all__ = ["mismatch"]


def mismatch(built_for: str, running: str) -> str:
    """Why a build for torch ``built_for`` cannot run with torch ``running``; empty if it can."""
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
