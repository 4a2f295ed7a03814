"""Products of half types in kernels of a CPU: linear layers, convolutions and attention, beside double precision."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import vesta

pytestmark = pytest.mark.kernels

FRESH = {"cache": False, "only_if_faster": False}
BF16, F16 = torch.bfloat16, torch.float16
halves = pytest.mark.parametrize("half", [BF16, F16], ids=str)
# Without AVX-512, oneDNN's convolutions take no bfloat16. Vesta leaves them to ATen there.
TAKES_CONVOLUTIONS = torch.backends.cpu.get_cpu_capability() == "AVX512"


def calls_of(compiled: Any) -> list[str]:
    """The calls into ATen that compute products."""
    (graph,) = vesta.explain(compiled).explanation.graphs
    names = [s.name for s in graph.steps if not s.is_kernel]
    return [n for n in names if any(word in n for word in ("linear", "matmul", "mm", "conv", "attention"))]


def expect_equal(f: Callable[..., Tensor], *args: Tensor, is_kernel: bool = True, **options: Any) -> Any:
    """The compiled function is at most a little less exact than eager, beside double precision."""
    compiled = vesta.compile(f, options={**FRESH, **options})
    with torch.no_grad():
        eager = f(*args)
        if isinstance(f, nn.Module):
            exact = f.double()(*[a.double() if a.is_floating_point() else a for a in args])
            f.to(eager.dtype)
        else:
            exact = f(*[a.double() if a.is_floating_point() else a for a in args])
        for _ in range(2):
            result = compiled(*args)
            assert result.dtype == eager.dtype and result.shape == eager.shape
            assert result.stride() == eager.stride()
            # With AMX, oneDNN multiplies the element behind an odd row by zero, so eager has a NaN of the next row.
            nans = result.isnan()
            assert not (nans & ~eager.isnan()).any()
            assert not (eager.isnan() & exact.isnan() & ~nans).any()
            error, allowed = ((t - exact).nan_to_num().abs().max().item() for t in (result, eager))
            assert error <= 2 * allowed + 1e-6 * exact.nan_to_num().abs().max().item()
    if TAKES_CONVOLUTIONS or "Conv2d" not in str(f):
        assert (calls_of(compiled) == []) == is_kernel, calls_of(compiled)
    return compiled


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(128, 96, 64), (5, 34, 33), (67, 600, 50), (4, 16, 16), (300, 40, 1100), (9, 2100, 20)],
)
@halves
def test_linear_layers(rows: int, inner: int, columns: int, half: torch.dtype) -> None:
    layer = nn.Linear(inner, columns).to(half)
    x, y = torch.randn(rows, inner, dtype=half), torch.randn(rows, columns, dtype=half)
    expect_equal(layer, x)
    expect_equal(lambda x, w, b, y: F.gelu(F.linear(x, w, b)) * y, x, layer.weight, layer.bias, y)
    expect_equal(lambda x, w: x @ w, x, layer.weight.t().contiguous())
    expect_equal(lambda x, w: x @ w, x.t().contiguous().t(), layer.weight.t())


@halves
def test_rows_that_are_not_aligned(half: torch.dtype) -> None:
    wide, w = torch.randn(40, 67, dtype=half), torch.randn(24, 64, dtype=half)
    expect_equal(lambda x, w: F.linear(x[:, 3:], w), wide, w)


def test_an_odd_inner_space() -> None:
    """Columns that lie across the inner space are packed; those along it stay a call."""
    x, w = torch.randn(40, 33, dtype=BF16), torch.randn(33, 48, dtype=BF16)
    expect_equal(lambda x, w: x @ w, x, w)
    x[3, 0] = float("nan")
    expect_equal(lambda x, w: x @ w, x, w)
    expect_equal(lambda x, w: F.linear(x, w), x, w.t().contiguous(), is_kernel=False)


@halves
def test_batches(half: torch.dtype) -> None:
    x, w = torch.randn(2, 3, 40, 32, dtype=half), torch.randn(2, 3, 32, 48, dtype=half)
    expect_equal(lambda x, w: x @ w, x, w)


@halves
def test_any_number_of_rows(half: torch.dtype) -> None:
    layer = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).to(half)
    compiled = vesta.compile(layer, options=FRESH, dynamic=True)
    with torch.no_grad():
        for rows in (16, 5, 40, 1):
            x = torch.randn(rows, 64, dtype=half)
            torch.testing.assert_close(compiled(x), layer(x), rtol=2e-2, atol=2e-2)


@halves
def test_a_weight_that_changes(half: torch.dtype) -> None:
    layer = nn.Linear(64, 48).to(half)
    x = torch.randn(20, 64, dtype=half)
    compiled = vesta.compile(layer, options=FRESH)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), layer(x), rtol=2e-2, atol=2e-2)
            layer.weight.mul_(-0.5)


CONVOLUTIONS = [
    nn.Conv2d(16, 32, 1),
    nn.Conv2d(16, 40, 1, stride=2),
    nn.Conv2d(16, 32, 1, padding=1),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.Conv2d(18, 33, 3, stride=2, padding=1),
    nn.Conv2d(16, 32, (1, 5), padding=(0, 2)),
    nn.Conv2d(16, 32, 3, dilation=2, padding=2),
]


@pytest.mark.parametrize("layer", CONVOLUTIONS, ids=str)
@halves
def test_convolutions(layer: nn.Conv2d, half: torch.dtype) -> None:
    layer = layer.to(half)
    for images in (1, 2):
        x = torch.randn(images, layer.in_channels, 12, 11).to(half)
        expect_equal(nn.Sequential(layer, nn.ReLU()), x.to(memory_format=torch.channels_last))


def test_convolutions_of_an_odd_number_of_channels() -> None:
    """A pair would have elements of two pixels, so they are computed in float32."""
    for channels, kernel in ((3, 3), (15, 2)):
        layer = nn.Sequential(nn.Conv2d(channels, 32, kernel, padding=1), nn.ReLU()).to(BF16)
        x = torch.randn(1, channels, 12, 11).to(BF16).to(memory_format=torch.channels_last)
        expect_equal(layer, x)
    x = torch.randn(1, 15, 12, 11).to(BF16).to(memory_format=torch.channels_last)
    expect_equal(nn.Sequential(nn.Conv2d(15, 32, 1), nn.ReLU()).to(BF16), x, is_kernel=False)


@halves
def test_depthwise_convolutions(half: torch.dtype) -> None:
    for size, stride, padding in ((3, 1, 1), (5, 2, 2), (3, 1, 0)):
        layer = nn.Sequential(nn.Conv2d(24, 24, size, stride, padding, groups=24), nn.Hardswish()).to(half)
        expect_equal(layer, torch.randn(2, 24, 12, 11).to(half).to(memory_format=torch.channels_last))


@halves
def test_patches(half: torch.dtype) -> None:
    """The first layer of a vision transformer."""

    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(3, 48, 8, stride=8)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).flatten(2).transpose(1, 2) * 2

    expect_equal(Patches().to(half), torch.randn(2, 3, 32, 40).to(half))


def heads(batch: int, count: int, length: int, size: int, half: torch.dtype = BF16) -> Tensor:
    return torch.randn(batch, length, count, size).to(half).transpose(1, 2)


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


@pytest.mark.parametrize("f", [plain, causal])
@pytest.mark.parametrize(
    ("batch", "count", "queries", "keys", "size"),
    [(1, 6, 197, 197, 64), (2, 3, 33, 17, 16), (3, 1, 4, 40, 24), (1, 12, 64, 64, 64), (2, 2, 7, 16, 40)],
)
@halves
def test_attention(
    f: Callable[..., Tensor], batch: int, count: int, queries: int, keys: int, size: int, half: torch.dtype
) -> None:
    q, k, v = (heads(batch, count, length, size, half) for length in (queries, keys, keys))
    expect_equal(f, q, k, v)


@pytest.mark.parametrize("dtype", [BF16, torch.bool])
def test_attention_with_a_mask(dtype: torch.dtype) -> None:
    q, k, v = heads(2, 4, 20, 32), heads(2, 4, 31, 32), heads(2, 4, 31, 32)
    mask = torch.randn(2, 1, 20, 31).to(BF16) if dtype == BF16 else torch.rand(20, 31) > 0.3
    if dtype == torch.bool:
        mask[3] = False  # a query that sees nothing
    expect_equal(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), q, k, v, mask)


def test_attention_of_shared_heads() -> None:
    q, k, v = heads(1, 8, 24, 32), heads(1, 2, 24, 32), heads(1, 2, 24, 32)

    def f(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        def repeat(t: Tensor) -> Tensor:
            return t[:, :, None].expand(1, 2, 4, 24, 32).reshape(1, 8, 24, 32)

        return F.scaled_dot_product_attention(q, repeat(k), repeat(v), is_causal=True)

    expect_equal(f, q, k, v)


def test_what_stays_a_call() -> None:
    q = heads(1, 4, 20, 33)  # an odd head
    expect_equal(plain, q, q, q, is_kernel=False)
    q = heads(1, 4, 20, 32)
    expect_equal(plain, q, q, q, is_kernel=False, skip_passes=["attention-products"])
    x, w = torch.randn(40, 32, dtype=torch.float64), torch.randn(48, 32, dtype=torch.float64)
    expect_equal(F.linear, x, w, is_kernel=False)


@halves
def test_the_benchmark(half: torch.dtype) -> None:
    """Times are not judged: other tests run beside it."""
    options = ["--json", "--rounds", "2", "--models", "mobilenetv3", "--dtype", str(half).removeprefix("torch.")]
    command = [sys.executable, "-m", "bench.half_types", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)["mobilenetv3"]
    assert set(found) == {"float32", "half", "eager", "to float32", "to eager"}
    assert all(value > 0 for value in found.values())
