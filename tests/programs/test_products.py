"""Matrix products that kernels compute on a CPU: operands of every layout, what follows them, and what stays a call."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

import vesta

pytestmark = pytest.mark.kernels

FRESH = {"cache": False}


def graph_of(compiled: Any) -> Any:
    (graph,) = vesta.explain(compiled).explanation.graphs
    return graph.compiled


def expect_equal(f: Callable[..., torch.Tensor], *args: torch.Tensor, options: Any = FRESH) -> Any:
    """The compiled function is at most a little less exact than eager, beside the result in double precision."""
    compiled = vesta.compile(f, options=options)
    copies = [a.clone(memory_format=torch.preserve_format) for a in args]
    exact = f(*[a.double() for a in args])
    result = compiled(*args)
    eager = f(*copies)
    error, allowed = (result - exact).abs().max().item(), (eager - exact).abs().max().item()
    assert result.shape == eager.shape and result.stride() == eager.stride()
    assert error <= 3 * allowed + 1e-6 * exact.abs().max().item()
    return compiled


def calls_of(compiled: Any) -> list[str]:
    """The calls into ATen of each call of the compiled function."""
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert graph.steps
    return [s.name for s in graph.steps if not s.is_kernel]


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, w)


SIZES = [(128, 96, 64), (5, 17, 33), (67, 600, 50), (4, 16, 16), (300, 1100, 20)]


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_layouts_of_operands(m: int, k: int, n: int) -> None:
    rows, turned_rows = torch.randn(m, k), torch.randn(k, m).t()
    columns, turned = torch.randn(k, n), torch.randn(n, k).t()
    gaps, every_second = torch.randn(m, k + 5)[:, :k], torch.randn(k, 2 * n)[:, ::2]
    for x in (rows, turned_rows, gaps):
        for w in (columns, turned, every_second):
            assert calls_of(expect_equal(product, x, w)) == []
    # Rows that are one row in memory.
    expect_equal(product, torch.randn(1, k).expand(m, k), columns)


def test_what_follows_is_in_the_same_kernel() -> None:
    def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(nn.functional.linear(x, w, b)) * 0.5 + y

    compiled = expect_equal(f, torch.randn(6, 7, 40), torch.randn(50, 40), torch.randn(50), torch.randn(6, 7, 50))
    graph = graph_of(compiled)
    assert len(graph.kernels) == 1 and not graph.externs and graph.arena_bytes == 0


def test_layers_of_several_sizes_share_a_kernel() -> None:
    torch.manual_seed(0)
    widths = [192, 320, 256, 448, 320, 384]
    layers = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
    model = nn.Sequential(*layers).eval()
    exact, x = copy.deepcopy(model).double(), torch.randn(28, widths[0])
    with torch.no_grad():
        compiled = vesta.compile(model, options={"only_if_faster": False, **FRESH})
        result, eager, expected = compiled(x), model(x), exact(x.double())
        torch.testing.assert_close(result, eager, rtol=1e-4, atol=1e-5)
        assert (result - expected).abs().max() <= 3 * (eager - expected).abs().max() + 1e-6 * expected.abs().max()
        assert calls_of(compiled) == []
        assert len(graph_of(compiled).kernels) == 5
        assert graph_of(compiled).distinct_kernels < 4
        # In another program each is alone, and gives the same bits.
        for layer, activation in zip(layers[::2], layers[1::2], strict=True):
            alone = vesta.compile(nn.Sequential(layer, activation), options={"only_if_faster": False, **FRESH})
            x = alone(x)
    assert torch.equal(x, result)


def test_one_program_for_any_number_of_rows() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).relu()

    compiled = vesta.compile(f, options=FRESH)
    w = torch.randn(70, 90)
    for rows in (9, 12, 300, 64, 5, 129):
        x = torch.randn(rows, 70)
        torch.testing.assert_close(compiled(x, w), f(x, w), rtol=1e-4, atol=1e-4)
    assert len(vesta.explain(compiled).explanation.graphs) == 2
    assert compiled(torch.randn(0, 70), w).shape == (0, 90)


def test_an_operand_may_be_written_after_the_product() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x += x @ w
        w.mul_(2)
        return x @ w

    x, w = torch.randn(40, 48), torch.randn(48, 48) / 7
    own_x, own_w = x.clone(), w.clone()
    expected = f(x, w)
    result = vesta.compile(f, options=FRESH)(own_x, own_w)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(own_x, x, rtol=1e-4, atol=1e-4)
    assert torch.equal(own_w, w)


def test_the_result_may_replace_its_operand() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x.copy_(x @ w)

    x, w = torch.randn(64, 64), torch.randn(64, 64)
    expected = x @ w
    vesta.compile(f, options=FRESH)(x, w)
    torch.testing.assert_close(x, expected, rtol=1e-4, atol=1e-4)


def test_not_a_number_stays_in_its_row_and_column() -> None:
    x, w = torch.randn(20, 100), torch.randn(100, 40)
    x[3, 50] = float("nan")
    w[7, 9] = float("inf")
    result = vesta.compile(product, options=FRESH)(x, w)
    torch.testing.assert_close(result, x @ w, equal_nan=True, rtol=1e-4, atol=1e-4)


def test_the_same_bits_with_any_number_of_threads() -> None:
    compiled = vesta.compile(product, options=FRESH)
    x, w = torch.randn(200, 700), torch.randn(700, 333)
    first = compiled(x, w)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(compiled(x, w), first)
    finally:
        torch.set_num_threads(threads)


def test_threads_share_packed_weights() -> None:
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48)).eval()
    compiled = vesta.compile(model, options=FRESH)
    inputs = [torch.randn(33, 64) for _ in range(8)]
    with torch.no_grad():
        compiled(inputs[0])

        def call(x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return compiled(x)  # type: ignore[no-any-return]

        with ThreadPoolExecutor(4) as pool:
            for _ in range(10):
                for x, y in zip(inputs, pool.map(call, inputs), strict=True):
                    torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-4)


def test_weights_are_packed_within_the_option() -> None:
    model = nn.Linear(64, 96).eval()
    x = torch.randn(33, 64)
    with torch.no_grad():
        for limit, kept in ((None, 64 * 96 * 4), (64 * 96 * 4, 64 * 96 * 4), (64 * 96 * 4 - 1, 0), (0, 0)):
            compiled = vesta.compile(model, options={**FRESH, "packed_weights": limit})
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
            assert graph_of(compiled).packed_bytes == kept
            assert calls_of(compiled) == []


def test_a_changed_weight_is_packed_again() -> None:
    model = nn.Linear(64, 96).eval()
    compiled = vesta.compile(model, options=FRESH)
    x = torch.randn(33, 64)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
            model.weight.mul_(-1.5)


@pytest.mark.parametrize("columns", [16, 17, 31, 33, 40, 47, 50, 63, 65, 97, 257])
def test_the_last_panel_of_a_weight_is_filled_up(columns: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, columns), nn.Tanh(), nn.Linear(columns, columns, bias=False)).eval()
    exact = copy.deepcopy(model).double()
    compiled = vesta.compile(model, options=FRESH)
    with torch.no_grad():
        for _ in range(2):
            for rows in (4, 5, 67):
                x = torch.randn(rows, 40)
                result, eager, expected = compiled(x), model(x), exact(x.double())
                error, allowed = (result - expected).abs().max().item(), (eager - expected).abs().max().item()
                assert error <= 3 * allowed + 1e-6 * expected.abs().max().item()
            for m in (model, exact):
                m[0].weight.mul_(1.5)
    for graph in vesta.explain(compiled).explanation.graphs:
        assert graph.compiled is not None and all(s.is_kernel for s in graph.steps)
        whole = graph.compiled.packed_bytes / 4 / (40 + columns)  # with the padding
        assert columns <= whole < columns + 64


class TurnedWeights(nn.Module):
    """Products of [in, out] weights, of a part of one, and of a transposed parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.both = nn.Parameter(torch.randn(24, 96) / 5), nn.Parameter(torch.randn(96, 132) / 10)
        self.turned = nn.Parameter((torch.randn(48, 70) / 8).t())
        self.bias = nn.Parameter(torch.randn(96))

    def forward(self, x: torch.Tensor, begin: int = 60) -> torch.Tensor:
        x = torch.addmm(self.bias, x, self.first).relu()
        x = x @ self.both[:, begin : begin + 70]
        return x @ self.turned


def test_views_of_weights_are_packed() -> None:
    torch.manual_seed(0)
    model = TurnedWeights().eval()
    exact = copy.deepcopy(model).double()
    compiled = vesta.compile(model, options=FRESH)
    with torch.no_grad():
        for scale in (1.0, -1.25):
            for m in (model, exact):
                m.both.mul_(scale)
            x = torch.randn(9, 24)
            result, eager, expected = compiled(x), model(x), exact(x.double())
            error, allowed = (result - expected).abs().max().item(), (eager - expected).abs().max().item()
            assert error <= 3 * allowed + 1e-6 * expected.abs().max().item()
    assert calls_of(compiled) == []
    assert graph_of(compiled).packed_bytes >= 4 * (24 * 96 + 96 * 70 + 70 * 48)


def test_views_that_differ_from_call_to_call() -> None:
    torch.manual_seed(0)
    model = TurnedWeights().eval()
    compiled = vesta.compile(model, options=FRESH, dynamic=True)
    with torch.no_grad():
        for begin in (60, 3, 41, 17, 60):
            x = torch.randn(9, 24)
            torch.testing.assert_close(compiled(x, begin), model(x, begin), rtol=1e-4, atol=1e-4)


def batched(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x, w)


BATCHED = [(3, 17, 40, 33), (1, 4, 16, 16), (5, 128, 20, 700), (2, 67, 50, 64), (8, 5, 128, 17)]


@pytest.mark.parametrize(("b", "m", "n", "k"), BATCHED)
def test_batched_products(b: int, m: int, n: int, k: int) -> None:
    torch.manual_seed(0)
    rows, turned_rows, heads = torch.randn(b, m, k), torch.randn(b, k, m).mT, torch.randn(m, b, k).transpose(0, 1)
    columns, turned = torch.randn(b, k, n), torch.randn(b, n, k).mT
    of_heads, every_second = torch.randn(n, b, k).permute(1, 2, 0), torch.randn(b, k, 2 * n)[:, :, ::2]
    for x in (rows, turned_rows, heads, torch.randn(1, m, k).expand(b, m, k)):
        for w in (columns, turned, of_heads, every_second, torch.randn(k, n).expand(b, k, n)):
            assert calls_of(expect_equal(batched, x, w)) == []


def test_heads_are_read_in_place() -> None:
    """The products of attention, with what follows them: no head is copied."""

    def f(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (6, 32)).transpose(-3, -2) for t in x.chunk(3, -1))
        weights = ((q @ k.mT) * 0.2 + mask).softmax(-1)
        return weights @ v

    for x in (torch.randn(21, 3 * 6 * 32), torch.randn(1, 40, 3 * 6 * 32)):
        mask = torch.where(torch.rand(x.shape[-2], x.shape[-2]) < 0.3, -100.0, 0.0)
        compiled = expect_equal(f, x, mask)
        assert calls_of(compiled) == [] and len(graph_of(compiled).kernels) == 3


def test_batched_products_of_any_sizes() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x, w).relu()

    compiled = vesta.compile(f, options=FRESH, dynamic=True)
    for b, m in ((3, 9), (7, 64), (2, 33), (1, 5), (12, 1), (4, 2), (0, 9), (3, 0)):
        x, w = torch.randn(b, m, 70), torch.randn(b, 70, 90)
        torch.testing.assert_close(compiled(x, w), f(x, w), rtol=1e-4, atol=1e-4)


def test_batched_products_of_not_a_number() -> None:
    x, w = torch.randn(3, 20, 100), torch.randn(3, 100, 40)
    x[1, 3, 50] = float("nan")
    w[2, 7, 9] = float("inf")
    result = vesta.compile(batched, options=FRESH)(x, w)
    torch.testing.assert_close(result, x @ w, equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_row(dtype: torch.dtype) -> None:
    """A decode step: the weight is read once, in the kernel of what follows."""
    model = nn.Sequential(nn.Linear(256, 512), nn.SiLU(), nn.Linear(512, 256)).to(dtype).eval()
    compiled = vesta.compile(model, options=FRESH)
    x = torch.randn(1, 256, dtype=dtype)
    with torch.no_grad():
        tolerance = 1e-4 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(compiled(x), model(x), rtol=tolerance, atol=tolerance)
    assert calls_of(compiled) == [] and len(graph_of(compiled).kernels) == 2


def test_convolutions_of_single_pixels() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(40, 32, 1, bias=False)
            self.wide, self.norm = nn.Conv2d(32, 40, 1), nn.BatchNorm2d(40)
            self.squeeze, self.excite = nn.Conv2d(40, 10, 1), nn.Conv2d(10, 40, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            y = nn.functional.hardswish(self.norm(self.wide(x)))
            gate = self.excite(nn.functional.relu(self.squeeze(y.mean((2, 3), keepdim=True)))).sigmoid()
            return (x + self.last(y * gate)).relu()

    model = Block().eval()
    for images in (1, 3):
        x = torch.randn(images, 3, 9, 7)
        with torch.no_grad():
            compiled = vesta.compile(model, options=FRESH)
            result, expected = compiled(x), model(x)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
        assert result.stride() == expected.stride()
        # Those of three rows are calls.
        convolutions = [name for name in calls_of(compiled) if "convolution" in name]
        assert len(convolutions) == (0 if images == 1 else 2), convolutions


def test_what_stays_a_call() -> None:
    x, w = torch.randn(32, 64), torch.randn(64, 48)
    compiled = vesta.compile(product, options={**FRESH, "numerics": "eager"})
    compiled(x, w)
    assert graph_of(compiled).externs
    compiled = vesta.compile(product, options=FRESH)
    torch.testing.assert_close(compiled(x.double(), w.double()), x.double() @ w.double())
    assert graph_of(compiled).externs


@pytest.mark.parametrize("batch", [(), (3,)])
def test_gradients_are_products_in_kernels(batch: tuple[int, ...]) -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).tanh().square().sum()

    found = []
    for call in (f, vesta.compile(f, options=FRESH)):
        torch.manual_seed(0)
        x, w = torch.randn(*batch, 50, 70, requires_grad=True), torch.randn(*batch, 70, 90, requires_grad=True)
        call(x, w).backward()
        found.append((x.grad, w.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


class Convolutions(nn.Module):
    """Three, as channels-last takes, with one of interest in the middle."""

    def __init__(self, middle: nn.Conv2d) -> None:
        super().__init__()
        self.first = nn.Conv2d(middle.in_channels, middle.in_channels, 1)
        self.middle = middle
        self.last = nn.Conv2d(middle.out_channels, middle.out_channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.middle(self.first(x)).relu())


MIDDLES = {
    "3x3": (lambda: nn.Conv2d(32, 64, 3, padding=1), 0),
    "stride": (lambda: nn.Conv2d(32, 64, 3, stride=2, padding=1), 0),
    "one way": (lambda: nn.Conv2d(32, 32, (1, 5), stride=(2, 1), padding=(0, 2)), 0),
    "dilation": (lambda: nn.Conv2d(32, 64, 3, padding=2, dilation=2), 0),
    "patches": (lambda: nn.Conv2d(32, 96, 4, stride=4, bias=False), 0),
    "pixels": (lambda: nn.Conv2d(32, 64, 1, stride=2), 0),
    "same": (lambda: nn.Conv2d(32, 32, 3, padding="same"), 0),
    "colours": (lambda: nn.Conv2d(3, 64, 3, stride=2, padding=1), 1),  # the one before it
    "short runs": (lambda: nn.Conv2d(2, 64, 3, padding=1), 2),  # with the one before it
    "groups": (lambda: nn.Conv2d(32, 64, 3, padding=1, groups=2), 1),
    "part of a panel": (lambda: nn.Conv2d(32, 40, 3, padding=1), 0),
    "depthwise": (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32), 0),
    "wide depthwise": (lambda: nn.Conv2d(640, 640, 5, stride=2, padding=2, groups=640), 0),
    "dilated depthwise": (lambda: nn.Conv2d(33, 33, (3, 1), padding=(2, 0), dilation=2, groups=33, bias=False), 0),
    "two results for each channel": (lambda: nn.Conv2d(32, 64, 3, padding=1, groups=32), 1),
    "large depthwise windows": (lambda: nn.Conv2d(32, 32, 7, padding=3, groups=32), 1),
    "reflect": (lambda: nn.Conv2d(32, 32, 3, padding=1, padding_mode="reflect"), 0),
}


@pytest.mark.parametrize("name", MIDDLES)
@pytest.mark.parametrize("batch", [1, 3])
def test_convolutions(name: str, batch: int) -> None:
    make, calls = MIDDLES[name]
    torch.manual_seed(0)
    middle = make()
    model = Convolutions(middle).eval()
    exact = copy.deepcopy(model).double()
    x = torch.randn(batch, middle.in_channels, 13, 12)
    with torch.no_grad():
        compiled = vesta.compile(model, options={"only_if_faster": False, **FRESH})
        result, eager, expected = compiled(x), model(x), exact(x.double())
    error, allowed = (result - expected).abs().max().item(), (eager - expected).abs().max().item()
    assert result.shape == eager.shape and result.stride() == eager.stride()
    assert error <= 3 * allowed + 1e-6 * expected.abs().max().item()
    assert len([c for c in calls_of(compiled) if "conv" in c]) == calls


def test_convolutions_of_changed_weights_and_other_sizes() -> None:
    torch.manual_seed(0)
    model = Convolutions(nn.Conv2d(32, 64, 3, padding=1)).eval()
    compiled = vesta.compile(model, options={"only_if_faster": False, **FRESH}, dynamic=True)
    with torch.no_grad():
        for size in [(1, 32, 9, 9), (2, 32, 17, 8), (5, 32, 3, 3), (1, 32, 64, 64)]:
            x = torch.randn(size)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
            model.middle.weight.mul_(1.25)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 32])
@pytest.mark.parametrize("size", [9, 97])  # a padded copy of the larger one would leave the caches
def test_convolutions_of_not_a_number(groups: int, size: int) -> None:
    torch.manual_seed(0)
    model = Convolutions(nn.Conv2d(32, 32, 3, padding=1, groups=groups)).eval()
    compiled = vesta.compile(model, options={"only_if_faster": False, **FRESH})
    x = torch.randn(1, 32, size, size)
    x[0, 3, 0, 0], x[0, 5, 8, 8] = float("nan"), float("inf")
    with torch.no_grad():
        result, eager = compiled(x), model(x)
    torch.testing.assert_close(result, eager, rtol=1e-4, atol=1e-5, equal_nan=True)


# The dims of both operands, for each of three calls.
SYMBOLIC_SHAPES: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "batches": [((4, 5, 6), (4, 6, 7)), ((3, 7, 8), (3, 8, 2)), ((5, 9, 2), (5, 2, 3))],
    "a matrix for all batches": [((4, 5, 6), (6, 8)), ((3, 7, 8), (8, 9)), ((5, 9, 2), (2, 3))],
    "a matrix before batches": [((5, 6), (4, 6, 3)), ((7, 8), (3, 8, 2)), ((9, 2), (5, 2, 4))],
    "a vector": [((4, 5, 6), (6,)), ((3, 7, 8), (8,)), ((5, 9, 2), (2,))],
    "a vector first": [((6,), (4, 6, 3)), ((8,), (3, 8, 2)), ((2,), (5, 2, 4))],
    "batches that broadcast": [((4, 1, 5, 6), (3, 6, 7)), ((3, 1, 7, 8), (2, 8, 2)), ((5, 1, 9, 2), (4, 2, 3))],
    "one batch for all": [((1, 5, 6), (3, 6, 7)), ((1, 7, 8), (2, 8, 2)), ((1, 9, 2), (4, 2, 3))],
}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", SYMBOLIC_SHAPES)
def test_one_graph_for_products_of_any_sizes(name: str, gradients: bool) -> None:
    torch.manual_seed(0)
    compiled = vesta.compile(lambda a, b: (a @ b).tanh(), options={"strict": True, **FRESH}, dynamic=True)
    for shapes in SYMBOLIC_SHAPES[name]:
        operands = [torch.randn(s, requires_grad=gradients) for s in shapes]
        exact = [t.detach().double().requires_grad_(gradients) for t in operands]
        result, expected = compiled(*operands), (exact[0] @ exact[1]).tanh()
        torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-5)
        if gradients:
            ours, theirs = (torch.autograd.grad(r.sum(), ts) for r, ts in ((result, operands), (expected, exact)))
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)
    assert len(vesta.explain(compiled).explanation.graphs) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("stored", [torch.int8, torch.uint8], ids=str)
def test_weights_of_8_bits(dtype: torch.dtype, stored: torch.dtype) -> None:
    """The kernel converts the weight while it packs it, and no wider copy of the weight lies in memory."""

    def f(x: torch.Tensor, w: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, w.to(x.dtype)) * scales

    for rows, inner, columns in ((4, 64, 48), (33, 128, 100), (300, 320, 72)):
        x, scales = torch.randn(rows, inner).to(dtype), torch.rand(columns).to(dtype)
        w = torch.randint(0, 100, (columns, inner)).to(stored)
        for weight in (w, w.t().contiguous().t()):
            compiled = vesta.compile(f, options={**FRESH, "only_if_faster": False})
            error = (compiled(x, weight, scales).double() - f(x.double(), weight, scales.double())).abs().max()
            allowed = (f(x, weight, scales).double() - f(x.double(), weight, scales.double())).abs().max()
            assert error <= 3 * allowed + 1e-6
            assert calls_of(compiled) == []
            assert len(graph_of(compiled).kernels) == 1
