"""Strides of results are eager's where ATen has a way of its own to choose them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import vesta


def line(strides: tuple[int, int, int]) -> torch.Tensor:
    return torch.arange(120, dtype=torch.float32).as_strided((4, 5, 6), strides)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], list[torch.Tensor]]]] = {
    "hardtanh of one element": (F.hardtanh, lambda: [torch.randn(3)[1::2]]),
    "hardtanh of nothing": (F.hardtanh, lambda: [torch.randn(1, 0, 5, 1).expand(8, 0, 5, 1)]),
    "hardtanh expanded": (F.hardtanh, lambda: [torch.randn(1, 5).expand(4, 5)]),
    "relu6 of one element": (F.relu6, lambda: [torch.randn(3)[1::2]]),
    "prelu of one element": (lambda x: F.prelu(x, torch.full((1,), 0.5)), lambda: [torch.randn(3)[1::2]]),
    "stack of one image": (
        lambda x: torch.stack([x, x * 2], -3),
        lambda: [torch.randn(1, 5, 4, 3).contiguous(memory_format=torch.channels_last)],
    ),
    "stack of images": (
        lambda x: torch.stack([x, x * 2], 1),
        lambda: [torch.randn(2, 5, 4, 3).contiguous(memory_format=torch.channels_last)],
    ),
    "conv1d": (F.conv1d, lambda: [line((30, 6, 1)), torch.randn(3, 5, 2)]),
    "conv1d of a permuted line": (F.conv1d, lambda: [line((30, 1, 5)), torch.randn(3, 5, 2)]),
    "conv1d of a permuted computed line": (
        lambda x, w: F.conv1d(x.abs() + 1, w),
        lambda: [line((30, 1, 5)), torch.randn(3, 5, 2)],
    ),
    "conv1d of a line of one channel": (
        F.conv1d,
        lambda: [torch.randn(24).as_strided((4, 1, 6), (6, 1, 1)), torch.randn(3, 1, 2)],
    ),
    "batch norm of a line of pixels": (
        lambda x: F.batch_norm(x, torch.zeros(2), torch.ones(2)),
        lambda: [torch.randn(1, 3, 2, 1).permute(0, 2, 1, 3)],
    ),
    "batch norm of a permuted line": (
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda: [torch.randn(1, 1, 4, 2).permute(0, 3, 1, 2)],
    ),
    "batch norm of a permuted volume": (
        lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3)),
        lambda: [torch.randn(1, 2, 3, 1, 1).transpose(1, 2)],
    ),
    "conv1d of a permuted weight": (F.conv1d, lambda: [line((30, 6, 1)), torch.randn(3, 2, 5).transpose(1, 2)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_are_eagers(name: str):
    program, make = PROGRAMS[name]
    inputs = make()
    compiled = vesta.trace_and_compile(program)
    ours, eager = compiled(*inputs), program(*inputs)
    assert ours.stride() == eager.stride()
    torch.testing.assert_close(ours, eager)
    assert not compiled.report().fallbacks
