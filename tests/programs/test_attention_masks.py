"""Masks that follow from numbers alone and hide nothing, or what comes later, are no tensors of compiled attention."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import vesta

LENGTH = 16


def everything(q: Tensor) -> Tensor:
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool)


def of_places(q: Tensor) -> Tensor:
    """As transformers 5.17 makes it for an encoder without padding: no stride of its last dimension."""
    return (torch.arange(LENGTH)[None, None, :, None] >= 0).expand(q.shape[0], -1, LENGTH, LENGTH)


def zeros(q: Tensor) -> Tensor:
    return torch.zeros(1, 1, LENGTH, LENGTH)


def a_row(q: Tensor) -> Tensor:
    return torch.zeros(1, LENGTH, dtype=torch.int64) == 0


def lower_triangle(q: Tensor) -> Tensor:
    return torch.arange(LENGTH)[:, None] >= torch.arange(LENGTH)


def infinities(q: Tensor) -> Tensor:
    return torch.zeros(LENGTH, LENGTH).masked_fill(~lower_triangle(q), float("-inf"))


def of_places_before(q: Tensor) -> Tensor:
    places = torch.arange(LENGTH)
    return (places[:, None] >= places[None, :]).expand(q.shape[0], q.shape[1], LENGTH, LENGTH)


def window(q: Tensor) -> Tensor:
    places = torch.arange(LENGTH)
    return (places[:, None] - places[None, :]).abs() < 3


def weights(q: Tensor) -> Tensor:
    return torch.full((LENGTH, LENGTH), -1e4).triu(1)


def upper_triangle(q: Tensor) -> Tensor:
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu()


def of_contents(q: Tensor) -> Tensor:
    return q[0, 0].mm(q[0, 0].T) == q[0, 0].mm(q[0, 0].T)


def compiled_mask(mask: Callable[[Tensor], Tensor], keys: int = LENGTH, grad: bool = False, **keywords: float) -> bool:
    """Whether the compiled program computes the mask. Checks that results and gradients are those of eager."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask(q), **keywords)

    torch.manual_seed(0)
    given = [torch.randn(2, 4, n, 8, requires_grad=grad) for n in (LENGTH, keys, keys)]
    compiled = vesta.compile(attend, options={"cache": False, "only_if_faster": False})
    results = []
    for f in (attend, compiled, compiled):
        torch.manual_seed(1)
        result = f(*given)
        gradients = torch.autograd.grad(result.square().sum(), given) if grad else ()
        results.append([result, *gradients])
    for result in results[1:]:
        torch.testing.assert_close(result, results[0])
    (graph,) = vesta.explain(compiled).explanation.graphs
    return bool(graph.compiled.kernels)


@pytest.mark.kernels
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "mask",
    [everything, of_places, zeros, a_row, lower_triangle, infinities, of_places_before],
    ids=lambda f: f.__name__,
)
def test_masks_that_need_no_tensor(mask: Callable[[Tensor], Tensor], grad: bool) -> None:
    assert not compiled_mask(mask, grad=grad)


@pytest.mark.kernels
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("mask", [window, weights, upper_triangle, of_contents], ids=lambda f: f.__name__)
def test_masks_that_need_one(mask: Callable[[Tensor], Tensor], grad: bool) -> None:
    assert compiled_mask(mask, grad=grad)


@pytest.mark.kernels
def test_more_keys_than_queries() -> None:
    """is_causal means the upper left triangle, whatever the number of keys."""
    assert not compiled_mask(lambda q: torch.ones(LENGTH, 2 * LENGTH, dtype=torch.bool), keys=2 * LENGTH)
    assert compiled_mask(lambda q: torch.ones(LENGTH, 2 * LENGTH, dtype=torch.bool).tril(LENGTH), keys=2 * LENGTH)


@pytest.mark.kernels
def test_dropout_draws_eagers_numbers() -> None:
    compiled_mask(lower_triangle, dropout_p=0.5)


@pytest.mark.kernels
def test_a_mask_that_does_not_fit_raises_eagers_error() -> None:
    def attend(q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q, torch.ones(3, LENGTH, LENGTH, dtype=torch.bool))

    q = torch.randn(2, 4, LENGTH, 8)
    for f in (attend, vesta.compile(attend)):
        with pytest.raises(RuntimeError, match="size"):
            f(q)
