"""A GPU that is none, for a CPU build of PyTorch: the driver, allocator and operators of tests/unit/fake_gpu in this
process. Tensors on "cuda" lie in the process's memory, ATen's operators compute there, kernels are launched and do
nothing."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import torch

BUILD = Path(__file__).resolve().parents[2] / os.environ.get("VESTA_BUILD", "build/release")
FOLDER = BUILD / "tests/unit/fake_gpu"
DRIVER, TORCH, ALLOCATOR = (FOLDER / name for name in ("libcuda.so.1", "libvesta_cuda.so", "libc10_cuda.so"))
AVAILABLE = TORCH.exists() and torch.version.cuda is None


def use() -> None:
    for library in (DRIVER, ALLOCATOR, TORCH):
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    torch.cuda._lazy_init = lambda: None  # what asks for NVIDIA's


def run(function: str, *arguments: object, gpu: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Calls "tests.programs.test_x.f" in a process of its own, without a cache."""
    module, name = function.rsplit(".", 1)
    call = f"from {module} import {name}; {name}(*{[str(a) for a in arguments]!r})"
    if gpu:
        call = f"from tests.programs import fake_gpu; fake_gpu.use(); {call}"
    return subprocess.run(
        [sys.executable, "-c", call],
        env=os.environ | {"VESTA_CACHE_DIR": ""} | environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
