"""Attention in training steps on a CPU: kernels compute it and its derivative as products."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import vesta
from tests.programs.test_attention_products import (
    MASKS,
    causal,
    causal_with_shared_keys,
    heads,
    masked,
    plain,
    repeat_kv,
)

pytestmark = pytest.mark.kernels

FRESH = {"cache": False, "only_if_faster": False, "deadline_ms": -1}


def gradients(f: Callable[..., Tensor], args: tuple[Tensor, ...], tangent: Tensor) -> list[Tensor]:
    leaves = [a.detach().requires_grad_() if a.is_floating_point() else a for a in args]
    result = f(*leaves)
    result.backward(tangent.to(result.dtype))
    return [result.detach(), *[a.grad for a in leaves if a.grad is not None]]


def calls_of(compiled: Any) -> set[str]:
    """In both halves."""
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert len(graph.backward) == 1 and not graph.backward_failures
    backward = {e.op for e in graph.backward[0].externs}
    return backward | {s.name for s in graph.steps if not s.is_kernel}


def expect_equal(f: Callable[..., Tensor], *args: Tensor, tangent: Tensor | None = None) -> set[str]:
    """Checks that the errors of results and gradients, against double precision, are at most a little larger than
    eager's, and that strides are equal. Returns the calls of both halves."""
    with torch.no_grad():
        shape = f(*args).shape
    tangent = torch.randn(shape) if tangent is None else tangent
    compiled = vesta.compile(f, options=FRESH)
    exact = gradients(f, tuple(a.double() if a.is_floating_point() else a for a in args), tangent)
    eager = gradients(f, args, tangent)
    for _ in range(2):
        for ours, theirs, right in zip(gradients(compiled, args, tangent), eager, exact, strict=True):
            assert ours.shape == theirs.shape and ours.stride() == theirs.stride() and ours.dtype == theirs.dtype
            error, allowed = ((t - right).abs().max().item() for t in (ours, theirs))
            assert error <= 3 * allowed + 1e-6 * right.abs().max().item()
    return calls_of(compiled)


@pytest.mark.parametrize("f", [plain, causal])
@pytest.mark.parametrize(
    ("batch", "count", "queries", "keys", "size"),
    [(1, 6, 197, 197, 64), (2, 3, 33, 17, 16), (3, 1, 16, 40, 24), (2, 2, 32, 16, 40), (8, 2, 18, 32, 16)],
)
def test_sizes(f: Callable[..., Tensor], batch: int, count: int, queries: int, keys: int, size: int) -> None:
    q, k, v = heads(batch, count, queries, size), heads(batch, count, keys, size), heads(batch, count, keys, size)
    assert expect_equal(f, q, k, v) == set()
    assert expect_equal(f, q.contiguous(), k.contiguous(), v.contiguous()) == set()


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    """A query whose keys are all hidden has a result and gradients of zero."""
    torch.manual_seed(0)
    f = functools.partial(masked, mask=MASKS[name]())
    assert expect_equal(f, heads(2, 4, 20, 32), heads(2, 4, 24, 32), heads(2, 4, 24, 32)) == set()


@pytest.mark.parametrize(
    "tangent", [torch.randn(2, 3, 16, 20).transpose(2, 3), torch.ones(()).expand(2, 3, 20, 16)], ids=["turned", "one"]
)
def test_tangents(tangent: Tensor) -> None:
    assert expect_equal(plain, *[heads(2, 3, 20, 16) for _ in range(3)], tangent=tangent) == set()


def test_heads_that_share_keys() -> None:
    assert expect_equal(causal_with_shared_keys, heads(2, 6, 20, 32), heads(2, 2, 20, 32), heads(2, 2, 20, 32)) == set()


def test_one_operand_has_a_gradient() -> None:
    q, k, v = heads(2, 3, 20, 16), heads(2, 3, 20, 16), heads(2, 3, 20, 16).requires_grad_()
    compiled = vesta.compile(plain, options=FRESH)
    (expected,) = torch.autograd.grad(plain(q, k, v).sum(), v)
    (given,) = torch.autograd.grad(compiled(q, k, v).sum(), v)
    torch.testing.assert_close(given, expected)
    assert calls_of(compiled) == set()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("queries", "keys"), [(24, 20), (23, 20), (24, 21), (23, 21)])
@pytest.mark.parametrize("f", [plain, causal])
def test_half_types(f: Callable[..., Tensor], queries: int, keys: int, dtype: torch.dtype) -> None:
    """Sums are float32, as in the library. Products of bfloat16 read two elements at once, also of an odd number."""
    torch.manual_seed(0)
    sizes = ((queries, 32), (keys, 32), (keys, 32))
    assert expect_equal(f, *[heads(2, 3, n, size).to(dtype) for n, size in sizes]) == set()


def test_few_queries_stay_a_call() -> None:
    """The gradients of keys and values are sums over the queries, too few for a product of ours."""
    calls = expect_equal(plain, heads(2, 2, 5, 32), heads(2, 2, 24, 32), heads(2, 2, 24, 32))
    assert calls == {"aten::_scaled_dot_product_flash_attention_for_cpu_backward"}


@pytest.mark.parametrize("f", [plain, causal])
@pytest.mark.parametrize(("batch", "count"), [(5, 3), (1, 7)])
def test_parts(f: Callable[..., Tensor], batch: int, count: int) -> None:
    """Sequences, or heads, one after another, because the scores fill several caches."""
    length = 700 if batch == 1 else 500
    args = [heads(batch, count, length, 16) for _ in range(3)]
    assert expect_equal(f, *args) == set()
    compiled = vesta.compile(f, options=FRESH)
    gradients(compiled, tuple(args), torch.randn(batch, count, length, 16))
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert sum("exp" in kernel.name for kernel in graph.backward[0].kernels) > 1


def test_parts_of_shared_heads_with_a_mask() -> None:
    mask = torch.randn(1, 1, 500, 500).masked_fill(torch.rand(500, 500) > 0.7, -float("inf"))

    def f(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return masked(q, repeat_kv(k, 3), repeat_kv(v, 3), mask)

    assert expect_equal(f, heads(1, 12, 500, 16), heads(1, 4, 500, 16), heads(1, 4, 500, 16)) == set()


def test_many_scores_stay_a_call() -> None:
    """Those of each head fill several caches."""
    calls = expect_equal(causal, *[heads(1, 1, 2500, 32) for _ in range(3)])
    assert calls == {"aten::_scaled_dot_product_flash_attention_for_cpu_backward"}


def test_any_number_of_queries() -> None:
    k, v = heads(1, 4, 24, 32), heads(1, 4, 24, 32)
    compiled = vesta.compile(plain, options=FRESH, dynamic=True)
    for queries in (16, 5, 40, 17):
        q, tangent = heads(1, 4, queries, 32), torch.randn(1, 4, queries, 32)
        for ours, theirs in zip(
            gradients(compiled, (q, k, v), tangent), gradients(plain, (q, k, v), tangent), strict=True
        ):
            torch.testing.assert_close(ours, theirs)


def test_eager_numerics_stay_calls() -> None:
    compiled = vesta.compile(plain, options={**FRESH, "numerics": "eager"})
    gradients(compiled, tuple(heads(1, 2, 12, 16) for _ in range(3)), torch.randn(1, 2, 12, 16))
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert calls_of(compiled) == {name, name + "_backward"}


def test_a_second_derivative() -> None:
    def loss(f: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(f(q, k, v).square().sum(), q, create_graph=True)
        return grad.square().sum()

    def f(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v)

    args = [heads(1, 2, 6, 8).double().requires_grad_() for _ in range(3)]
    expected = torch.autograd.grad(loss(f, *args), args)
    given = torch.autograd.grad(loss(vesta.compile(f, options=FRESH), *args), args)
    torch.testing.assert_close(given, expected)
