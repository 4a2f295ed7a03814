"""Reads at computed places: generated kernels give eager's result, and eager's error where a place does not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import vesta
from tests.build import generates_code

Program = Callable[..., Any]


def table() -> torch.Tensor:
    return torch.arange(5 * 7 * 9, dtype=torch.float32).reshape(5, 7, 9)


def fused(compiled: Any) -> bool:
    (variant,) = compiled.report().variants
    return not variant.externs


RIGHT: dict[str, tuple[Program, list[torch.Tensor]]] = {
    "embedding": (lambda i, w: F.embedding(i, w) + 1, [torch.tensor([[3, 0], [4, 4]]), table()[:, :, 0]]),
    "rows": (lambda x, i: x[i].relu(), [table(), torch.tensor([4, -5, 0])]),
    "columns": (lambda x, i: x[:, :, i] * 2, [table(), torch.tensor([[8], [-9]])]),
    "apart": (lambda x, i, j: x[i, :, j] * 2, [table(), torch.tensor([0, -1, 2]), torch.tensor([[8], [1]])]),
    "side by side": (lambda x, i, j: x[:, i, j], [table(), torch.tensor([0, -1, 2]), torch.tensor([[8], [1]])]),
    "transposed": (lambda x, i: x.mT[i].sin(), [table(), torch.tensor([3, 3, -1])]),
    "int32": (lambda x, i: x.index_select(1, i) + 1, [table(), torch.tensor([6, 0], dtype=torch.int32)]),
    "gather": (lambda x, i: x.gather(1, i) + 1, [table(), torch.tensor([6, 0, 3]).expand(5, 3).unsqueeze(2)]),
    "take": (lambda x, i: x.take(i) + 1, [table(), torch.tensor([[314, -315, 7]])]),
    "computed": (lambda x, i: x[(i * i).clamp(max=4)], [table(), torch.tensor([0, 1, 2, 9])]),
}

WRONG: dict[str, tuple[Program, list[torch.Tensor]]] = {
    "embedding": (RIGHT["embedding"][0], [torch.tensor([[3, 5]]), table()[:, :, 0]]),
    "embedding, negative": (RIGHT["embedding"][0], [torch.tensor([[3, -1]]), table()[:, :, 0]]),
    "rows": (RIGHT["rows"][0], [table(), torch.tensor([4, -6])]),
    "far": (RIGHT["rows"][0], [table(), torch.tensor([1 << 40])]),
    "index_select": (RIGHT["int32"][0], [table(), torch.tensor([7])]),
    "gather": (RIGHT["gather"][0], [table(), torch.full((5, 1, 1), 7)]),
    "take": (RIGHT["take"][0], [table(), torch.tensor([315])]),
    "cross-entropy": (lambda x, t: F.cross_entropy(x, t), [torch.randn(4, 6), torch.tensor([0, 1, 2, 6])]),
    "pooling, no channels": (lambda x: F.max_pool3d(x, 1), [torch.randn(0, 1, 2, 10)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_places_that_exist(name: str) -> None:
    program, inputs = RIGHT[name]
    compiled = vesta.trace_and_compile(program, strict=True)
    got, expected = compiled(*inputs), program(*inputs)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-6)
    assert got.stride() == expected.stride()
    assert fused(compiled) == generates_code()


@pytest.mark.parametrize("name", WRONG)
def test_places_that_do_not_exist(name: str) -> None:
    program, inputs = WRONG[name]
    with pytest.raises(Exception) as eager:
        program(*inputs)
    compiled = vesta.trace_and_compile(program)
    for _ in range(2):
        with pytest.raises(type(eager.value)) as ours:
            compiled(*inputs)
        assert str(ours.value) == str(eager.value)


def test_a_failing_read_leaves_inputs_as_they_were() -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = x[i]
        x.add_(1)
        return y

    x = table()
    compiled = vesta.trace_and_compile(program)
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9]))
    assert torch.equal(x, table())
    compiled(x, torch.tensor([1]))
    assert torch.equal(x, table() + 1)


def test_an_element_that_a_loop_writes_again_and_again_is_read_anew():
    # A short loop around it is written out.
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.triu(1)
        return y.scatter_add(-1, torch.zeros_like(y, dtype=torch.int64), y)

    x = torch.arange(1.0, 13.0).reshape(3, 4)
    assert torch.equal(vesta.trace_and_compile(program)(x), program(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_long_sums_of_half_precision_are_as_exact_as_eagers(dtype: torch.dtype):
    x = torch.rand(400, 6, generator=torch.Generator().manual_seed(8)).to(dtype)
    index = torch.zeros(400, 1, dtype=torch.int64).expand(400, 6)

    def program(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x[:3]).scatter_add(0, index, x * 1)

    ours, eager = vesta.trace_and_compile(program)(x, index), program(x, index)
    exact = program(x.double(), index)
    assert (ours.double() - exact).abs().max() <= 2 * (eager.double() - exact).abs().max()
