"""Attention that kernels of a CPU compute as two products: layouts, masks, shared heads, and what stays a call."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import vesta

pytestmark = pytest.mark.kernels

FRESH = {"cache": False, "only_if_faster": False}
CALL = "aten::_scaled_dot_product_flash_attention_for_cpu"


def heads(batch: int, count: int, length: int, size: int) -> Tensor:
    """As a model makes them: a view of [batch, length, heads, size]."""
    return torch.randn(batch, length, count, size).transpose(1, 2)


def calls_of(compiled: Any) -> list[str]:
    (graph,) = vesta.explain(compiled).explanation.graphs
    return [s.name for s in graph.steps if not s.is_kernel]


def expect_equal(f: Any, *args: Tensor, options: Any = FRESH) -> list[str]:
    """The compiled function is at most a little less exact than eager, beside double precision. Returns its calls."""
    compiled = vesta.compile(f, options=options)
    with torch.no_grad():
        exact, eager = f(*[a.double() if a.is_floating_point() else a for a in args]), f(*args)
        for _ in range(2):
            result = compiled(*args)
            assert result.shape == eager.shape and result.stride() == eager.stride()
            torch.testing.assert_close(result.isnan(), eager.isnan())
            error, allowed = ((t - exact).nan_to_num().abs().max().item() for t in (result, eager))
            assert error <= 3 * allowed + 1e-6 * exact.nan_to_num().abs().max().item()
    return calls_of(compiled)


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


def masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask if mask.dtype == torch.bool else mask.to(q.dtype))


def repeat_kv(x: Tensor, times: int) -> Tensor:
    """As in transformers: neighbouring heads have the same keys."""
    batch, shared, length, size = x.shape
    return x[:, :, None].expand(batch, shared, times, length, size).reshape(batch, shared * times, length, size)


def causal_with_shared_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, repeat_kv(k, 3), repeat_kv(v, 3), is_causal=True)


@pytest.mark.parametrize("f", [plain, causal])
@pytest.mark.parametrize(
    ("batch", "count", "queries", "keys", "size"),
    [(1, 6, 197, 197, 64), (2, 3, 33, 17, 16), (3, 1, 4, 40, 24), (1, 12, 64, 64, 64), (2, 2, 7, 16, 40)],
)
def test_sizes(f: Any, batch: int, count: int, queries: int, keys: int, size: int) -> None:
    q, k, v = heads(batch, count, queries, size), heads(batch, count, keys, size), heads(batch, count, keys, size)
    assert expect_equal(f, q, k, v) == []
    assert expect_equal(f, q.contiguous(), k.contiguous(), v.contiguous()) == []


@pytest.mark.parametrize("f", [plain, causal])
@pytest.mark.parametrize(("queries", "keys"), [(700, 700), (333, 1200), (1200, 333)])
def test_blocks_of_queries(f: Any, queries: int, keys: int) -> None:
    """Scores that do not fit the caches."""
    q, k, v = heads(1, 12, queries, 32), heads(1, 12, keys, 32), heads(1, 12, keys, 32)
    assert expect_equal(f, q, k, v) == []


def test_layouts() -> None:
    """Queries, keys and values are slices of one projection; keys are transposed in memory; one head is expanded."""
    qkv = torch.randn(2, 20, 3, 4, 32).permute(2, 0, 3, 1, 4)
    assert expect_equal(lambda x: plain(x[0], x[1], x[2]), qkv) == []
    turned = torch.randn(2, 4, 32, 20).transpose(2, 3)
    assert expect_equal(plain, heads(2, 4, 20, 32), turned, turned) == []
    one = heads(2, 1, 20, 32).expand(2, 4, 20, 32)
    assert expect_equal(plain, heads(2, 4, 20, 32), one, one) == []


MASKS = {
    "additive": lambda: torch.randn(20, 24),
    "by head": lambda: torch.randn(1, 4, 20, 24),
    "by batch": lambda: torch.randn(2, 1, 1, 24),
    "boolean": lambda: torch.rand(2, 1, 20, 24) > 0.4,
    "infinite": lambda: torch.zeros(20, 24).masked_fill(torch.rand(20, 24) > 0.5, -math.inf),
    "hides all keys of some": lambda: torch.arange(20).view(20, 1).expand(20, 24) % 3 > 0,
    "hides all": lambda: torch.full((20, 24), -math.inf),
}


def test_a_mask_of_blocks() -> None:
    q, k = heads(1, 12, 400, 32), heads(1, 12, 500, 32)
    mask = torch.randn(1, 12, 400, 500).masked_fill(torch.rand(400, 500) > 0.7, -math.inf)
    assert expect_equal(masked, q, k, k, mask) == []


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    torch.manual_seed(0)
    mask = MASKS[name]()
    q, k, v = heads(2, 4, 20, 32), heads(2, 4, 24, 32), heads(2, 4, 24, 32)
    assert expect_equal(masked, q, k, v, mask) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_numbers_that_are_not_finite(operand: int, value: float) -> None:
    args = [heads(1, 4, 20, 32) for _ in range(3)]
    args[operand][0, 1, 5, 3] = value
    compiled = vesta.compile(plain, options=FRESH)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*args), plain(*args), equal_nan=True)


def test_heads_that_share_keys() -> None:
    """The repeated keys are read where they are, so no kernel copies them."""
    q, k, v = heads(2, 6, 20, 32), heads(2, 2, 20, 32), heads(2, 2, 20, 32)
    assert expect_equal(causal_with_shared_keys, q, k, v) == []
    compiled = vesta.compile(causal_with_shared_keys, options=FRESH)
    with torch.no_grad():
        compiled(q, k, v)
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert len(graph.compiled.kernels) == 3


def test_any_number_of_queries() -> None:
    k, v = heads(1, 4, 24, 32), heads(1, 4, 24, 32)
    compiled = vesta.compile(plain, options=FRESH, dynamic=True)
    with torch.no_grad():
        for queries in (16, 5, 1, 40):
            q = heads(1, 4, queries, 32)
            torch.testing.assert_close(compiled(q, k, v), plain(q, k, v))


def test_what_stays_a_call() -> None:
    long, short = heads(1, 64, 2048, 16), heads(1, 4, 16, 32)
    assert expect_equal(plain, long, long, long) == [CALL]  # scores of 1 GiB
    query = heads(1, 4, 1, 32)
    assert expect_equal(plain, query, short, short) == [CALL]  # one row
    for options in ({"numerics": "eager"}, {"skip_passes": ["attention-products"]}):
        assert expect_equal(plain, short, short, short, options={**FRESH, **options}) == [CALL]
    double = [t.double() for t in (short, short, short)]
    compiled = vesta.compile(plain, options=FRESH)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*double), plain(*double))
    assert calls_of(compiled) == [CALL]


def test_training_and_dropout_keep_the_library() -> None:
    def f(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    args = [heads(1, 4, 16, 32).requires_grad_() for _ in range(3)]
    compiled = vesta.compile(plain, options=FRESH)
    ours = torch.autograd.grad(compiled(*args).square().sum(), args)
    for a, b in zip(ours, torch.autograd.grad(plain(*args).square().sum(), args), strict=True):
        torch.testing.assert_close(a, b)
    random = vesta.compile(f, options=FRESH)
    results = []
    with torch.no_grad():
        for g in (f, random):
            torch.manual_seed(0)
            results.append(g(*args))
    torch.testing.assert_close(results[1], results[0])
