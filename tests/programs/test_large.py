"""Kernels that move more than the caches hold: their results are stored past them, rows are fetched ahead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import vesta

SIDE = 3072  # 36 MiB in float32

PROGRAMS: dict[str, Callable[[torch.Tensor], object]] = {
    "results of three types": lambda x: (x * 2 + 1, x > 0, x.double()),
    "rows that begin anywhere": lambda x: x[:, 1:] * 2,
    "normalised rows": lambda x: F.layer_norm(x, (x.shape[1],)),
    "rows": lambda x: x.softmax(1),
    "columns": lambda x: (x.amax(0), x - 1),
    "turned": lambda x: x.t() + x,
    "joined": lambda x: torch.cat([x, x * 2], 1),
    "updated": lambda x: x.clone().mul_(2).add_(1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_large(name: str, odd: int, dtype: torch.dtype) -> None:
    program = PROGRAMS[name]
    x = torch.randn(SIDE + odd, SIDE + odd, generator=torch.Generator().manual_seed(0)).to(dtype)
    compiled = vesta.trace_and_compile(program, strict=True)
    for _ in range(2):  # the second call writes where the first one did
        torch.testing.assert_close(compiled(x), program(x), rtol=1.6e-2 if dtype is torch.bfloat16 else 2e-6, atol=1e-6)
