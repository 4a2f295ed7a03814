"""The backward passes of x[index] and of F.glu run as kernels, without calls into ATen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import vesta

Program = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
INDICES = {
    "repeated": torch.tensor([3, 0, 3, 3, 1]),
    "negative": torch.tensor([-1, 2, -6, 2]),
    "of two dimensions": torch.tensor([[1, 1], [4, 0]]),
    "of int32": torch.tensor([5, 5, 0], dtype=torch.int32),
    "none": torch.tensor([], dtype=torch.int64),
}
PROGRAMS: dict[str, Program] = {
    "rows": lambda x, i: x[i].exp(),
    "columns": lambda x, i: x[:, i % 4] * 2,
    "pairs": lambda x, i: x[i, i % 4].sin(),
    "table": lambda x, i: x.t().contiguous()[:, i].sum(0),
}


def gradients(
    f: Callable[..., torch.Tensor], x: torch.Tensor, *others: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = x.clone().requires_grad_()
    y = f(leaf, *others)
    weights = torch.arange(1.0, y.numel() + 1, dtype=torch.float64).view(y.shape).to(y.dtype)
    (y * weights / (y.numel() + 1)).sum().backward()
    assert leaf.grad is not None
    return y.detach(), leaf.grad


def calls_in_backward(compiled: object) -> list[str]:
    graphs = [g for c in vesta.explain(compiled).explanation.captures for g in c.graphs]
    backward = [r for g in graphs for r in g.backward]
    assert backward
    return [e.op for r in backward for e in r.externs]


@pytest.mark.kernels
@pytest.mark.parametrize("which", INDICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_indexing(name: str, which: str) -> None:
    f, index = PROGRAMS[name], INDICES[which]
    compiled = vesta.compile(f, fullgraph=True, options={"strict": True, "cache": False})
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
        torch.testing.assert_close(gradients(compiled, x, index), gradients(f, x, index))
    if which not in ("of int32", "none"):
        assert not calls_in_backward(compiled)


def test_an_index_out_of_range_raises() -> None:
    compiled = vesta.compile(PROGRAMS["rows"], options={"cache": False})
    x = torch.randn(6, 4)
    gradients(compiled, x, INDICES["repeated"])
    with pytest.raises(IndexError, match="out of bounds"):
        gradients(compiled, x, torch.tensor([0, 1, 2, 3, 6]))


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_gated_linear_units(dtype: torch.dtype) -> None:
    for dim, sizes in ((-1, (3, 8)), (0, (4, 5)), (1, (2, 6, 3, 4))):

        def f(x: torch.Tensor, dim: int = dim) -> torch.Tensor:
            return F.glu(x, dim)

        compiled = vesta.compile(f, fullgraph=True, options={"strict": True, "cache": False})
        for strided in (False, True):
            x = torch.randn(sizes, generator=torch.Generator().manual_seed(2)).to(dtype)
            x = x.transpose(0, 1).contiguous().transpose(0, 1) if strided else x
            got, eager, exact = gradients(compiled, x), gradients(f, x), gradients(f, x.double())
            for ours, theirs, true in zip(got, eager, exact, strict=True):
                assert ours.stride() == theirs.stride()
                if dtype.itemsize >= 4:
                    torch.testing.assert_close(ours, theirs)
                # Eager rounds the gate to the half type, Vesta rounds only results.
                allowed = (theirs - true).abs().max() + torch.finfo(dtype).eps * true.abs().max()
                assert (ours - true).abs().max() <= allowed
        assert not calls_in_backward(compiled)


def test_gated_linear_units_of_infinities() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return F.glu(x)

    inf, nan = float("inf"), float("nan")
    numbers = torch.tensor([0.0, 1.0, inf, -inf, nan, 1e30])
    x = torch.cartesian_prod(numbers, numbers)
    torch.testing.assert_close(gradients(vesta.compile(f), x), gradients(f, x), equal_nan=True)
