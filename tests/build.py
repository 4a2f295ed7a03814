"""What the build under test can do."""

from __future__ import annotations

from vesta import _C


def generates_code() -> bool:
    """Whether kernels are made for this CPU. With VESTA_LLVM=OFF none are, and every operator is a call into ATen."""
    return bool(_C.host_target()["generator"] != "none")
