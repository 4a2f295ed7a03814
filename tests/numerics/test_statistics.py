"""Means and variances of numbers that are hard on sums."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import vesta


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_the_mean_of_equal_numbers_is_that_number(dim: int | tuple[int, ...]):
    x = torch.full((6936, 24), 0.96109766) if dim == (0, 1) else torch.rand(1, 24).expand(6936, 24)
    if dim == 1:
        x = x.t()
    _, mean = vesta.trace_and_compile(lambda x: torch.var_mean(x, dim))(x)
    expected = torch.var_mean(x.double(), dim)[1].float()
    assert (mean - expected).abs().max() <= 1.2e-7 * expected.abs().max()


@pytest.mark.parametrize("spread", [torch.var, torch.std])
def test_equal_numbers_do_not_vary(spread: Callable[..., torch.Tensor]):
    x = torch.randn(1, 200).expand(33, 200)
    for dim, given in ((0, x), (1, x.t().contiguous())):
        assert not vesta.trace_and_compile(lambda x, dim=dim: spread(x, dim), strict=True)(given).any()


def test_infinities_and_nans():
    x = torch.tensor([[1.0, float("inf"), 2], [float("nan"), 1, 2], [1, 2, 3]])
    variance, mean = vesta.trace_and_compile(lambda x: torch.var_mean(x, 1))(x)
    assert not mean[:2].isfinite().any() and mean[1].isnan() and mean[2] == 2
    assert variance[:2].isnan().all() and variance[2] == 1
    x = torch.tensor([[3e38, 1e38, -2e38], [1.0, 2.0, 4.0]])
    torch.testing.assert_close(vesta.trace_and_compile(lambda x: x.var(1))(x), x.var(1))


@pytest.mark.parametrize("spread", [torch.var, torch.std])
def test_squares_need_not_fit_a_float(spread: Callable[..., torch.Tensor]):
    x = torch.randn(4, 1000) * torch.tensor([[1e19], [3e19], [1e-22], [1.0]])
    torch.testing.assert_close(vesta.trace_and_compile(lambda x: spread(x, 1))(x), spread(x, 1), rtol=1e-6, atol=0)
