"""Training on a GPU: both halves of a program, whole steps, what a backward pass may bring."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.cuda.traps import _compiled, _equal, _in_threads, _model, _no_worse, trap


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(64), nn.LayerNorm(64)
        self.qkv, self.proj = nn.Linear(64, 192), nn.Linear(64, 64)
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (4, 16)).transpose(1, 2) for t in (q, k, v))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.proj(h)
        return x + self.down(F.gelu(self.up(self.out(x))))


class _Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.blocks = nn.ModuleList(_Block() for _ in range(2))
        self.head = nn.Linear(64, 100, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class _Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.deep, self.head = nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.head(F.silu(self.deep(h)).mean((2, 3)))


class _Residual(nn.Module):
    """Runs in channels-last in half types. Its batch norms take two kernels, and the windows of its pooling overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64)
        self.narrow, self.first = nn.Conv2d(64, 32, 1, bias=False), nn.BatchNorm2d(32)
        self.wide, self.second = nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, stride=2, padding=1)
        h = F.relu(self.first(self.narrow(x)))
        return self.head(F.relu(x + self.second(self.wide(h))).mean((2, 3)))


def _text(dtype: torch.dtype) -> tuple[nn.Module, Callable[[], Any]]:
    torch.manual_seed(0)
    return _Text().cuda().to(dtype), lambda: torch.randint(0, 100, (3, 33), device="cuda")


def _image(dtype: torch.dtype) -> tuple[nn.Module, Callable[[], Any]]:
    torch.manual_seed(0)
    return _Image().cuda().to(dtype), lambda: torch.randn(4, 3, 32, 32, device="cuda", dtype=torch.float64).to(dtype)


def _gradients_of(make: Callable[[torch.dtype], Any], dtype: torch.dtype) -> None:
    """Three passes, so that recorded halves run too; the loss of each weighs the results."""
    model, inputs = make(dtype)
    models = [model, copy.deepcopy(model), copy.deepcopy(model).double()]
    calls = [models[0], _compiled(models[1]), models[2]]
    torch.manual_seed(1)
    for _ in range(4):
        x = inputs()
        weight = torch.randn_like(models[0](x).detach().double())
        for m, call in zip(models, calls, strict=True):
            m.zero_grad()
            given = x.double() if m is models[2] and x.is_floating_point() else x
            (call(given).double() * weight).sum().backward()
        for a, b, w in zip(*(m.parameters() for m in models), strict=True):
            _no_worse(b.grad, a.grad, w.grad)
            assert b.grad.stride() == a.grad.stride()
    report = __import__("vesta").explain(calls[1]).explanation
    assert all(g.trains for g in report.graphs) and not report.fallbacks, report


@trap
def gradients_of_text() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        _gradients_of(_text, dtype)


@trap
def gradients_of_images() -> None:
    _gradients_of(_image, torch.float32)


def _residual(memory_format: torch.memory_format, dtype: torch.dtype) -> tuple[nn.Module, Callable[[], Any]]:
    torch.manual_seed(0)
    model = _Residual().cuda().to(dtype).to(memory_format=memory_format)

    def images() -> torch.Tensor:
        x = torch.randn(12, 3, 72, 72, device="cuda", dtype=torch.float64).to(dtype)
        return x.contiguous(memory_format=memory_format)

    return model, images


@trap
def gradients_of_residual_networks() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for memory_format in (torch.contiguous_format, torch.channels_last):
            _gradients_of(functools.partial(_residual, memory_format), dtype)


@trap
def gradients_of_pooling() -> None:
    """Windows with gaps, side by side, overlapping, dilated and partial."""
    torch.manual_seed(0)
    for size, kernel, stride, padding, dilation, ceil in (
        (17, 2, 3, 0, 1, False),
        (16, 2, 2, 0, 1, False),
        (17, 3, 2, 1, 1, False),
        (17, 3, 2, 1, 1, True),
        (20, 5, 1, 2, 1, False),
        (21, 3, 2, 1, 2, True),
        (20, (2, 5), (2, 3), (1, 0), (3, 1), False),
    ):
        for dtype in (torch.float32, torch.float16):
            for memory_format in (torch.contiguous_format, torch.channels_last):

                def f(x: torch.Tensor, kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil=ceil):
                    return F.max_pool2d(torch.tanh(x), kernel, stride, padding, dilation, ceil)

                compiled, found = _compiled(f), []
                x = torch.randn(3, 16, size, size + 3, device="cuda", dtype=dtype)
                x = x.contiguous(memory_format=memory_format)
                x[1, 2, 3] = float("nan")
                weight = torch.randn_like(f(x))
                for call in (f, compiled, compiled, compiled):
                    leaf = x.clone().requires_grad_()
                    (call(leaf) * weight).sum().backward()
                    found.append(leaf.grad)
                for got in found[1:]:
                    assert got is not None and got.stride() == found[0].stride()
                    torch.testing.assert_close(got, found[0], rtol=2e-3, atol=2e-3, equal_nan=True)


@trap
def tangents_of_every_kind() -> None:
    """Dense, expanded, transposed, misaligned and missing ones."""

    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.tanh(x * w)
        return h * 2, F.softmax(h, -1)

    compiled = _compiled(f)
    n = 128
    kinds: list[Callable[[], Any]] = [
        lambda: torch.randn(n, n, device="cuda"),
        lambda: torch.ones((), device="cuda").expand(n, n),
        lambda: torch.randn(n, n, device="cuda").t(),
        lambda: torch.randn(n * n + 1, device="cuda")[1:].view(n, n),
        lambda: None,
    ]
    torch.manual_seed(0)
    for first in kinds:
        for second in kinds:
            tangents = first(), second()
            if tangents == (None, None):
                continue
            x, w = torch.randn(n, n, device="cuda"), torch.randn(n, device="cuda")
            found = []
            for call in (f, compiled, compiled):
                leaves = [t.clone().requires_grad_() for t in (x, w)]
                results = call(*leaves)
                used = [(r, t) for r, t in zip(results, tangents, strict=True) if t is not None]
                torch.autograd.backward([r for r, _ in used], [t for _, t in used])
                found.append([t.grad for t in leaves])
            for got in found[1:]:
                for a, b in zip(got, found[0], strict=True):
                    torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-4)


@trap
def gradients_and_results_are_kept() -> None:
    """No later call writes into what an earlier one has returned, or left to its backward pass."""
    model = _model()
    compiled = _compiled(model)
    kept = []
    for i in range(8):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        y = compiled(x)
        kept.append((x, y, y.detach().clone(), i))
    for _, y, _, _ in reversed(kept):
        y.square().sum().backward()
    for x, y, copied, _ in kept:
        assert torch.equal(y, copied)
        z = x.detach().requires_grad_()
        model(z).square().sum().backward()
        _equal(x.grad, z.grad)


@trap
def dropped_numbers_have_no_gradient() -> None:
    compiled = _compiled(lambda x: F.dropout(torch.sin(x), 0.4))
    seen = set()
    for _ in range(6):
        x = torch.rand(1000, device="cuda", requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        assert torch.equal(y == 0, x.grad == 0)
        torch.testing.assert_close(x.grad[y != 0], (x.detach().cos() / 0.6)[y != 0])
        seen.add(tuple((y == 0).tolist()))
    assert len(seen) == 6


@trap
def training_on_other_streams() -> None:
    model = _model()
    twin = copy.deepcopy(model)
    compiled = _compiled(model)
    streams = [torch.cuda.Stream() for _ in range(3)]
    for i in range(9):
        x = torch.randn(64, 64, device="cuda")
        stream = streams[i % 3]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            compiled(x).square().sum().backward()
        torch.cuda.current_stream().wait_stream(stream)
        twin(x).square().sum().backward()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)


@trap
def training_in_threads() -> None:
    compiled = _compiled(lambda x, w: torch.tanh(x @ w).square().sum())

    def work(i: int) -> None:
        torch.manual_seed(i)
        for _ in range(10):
            x, w = torch.randn(16 + i, 32, device="cuda"), torch.randn(32, 8, device="cuda", requires_grad=True)
            compiled(x, w).backward()
            v = w.detach().requires_grad_()
            torch.tanh(x @ v).square().sum().backward()
            torch.testing.assert_close(w.grad, v.grad, rtol=1e-4, atol=1e-4)

    _in_threads(6, work)


def _step(model: nn.Module, opt: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    return loss.detach()


@trap
def whole_steps() -> None:
    """zero_grad, forward, loss, backward, clipping and AdamW in one graph."""
    import vesta

    compiled = vesta.compile(_step, options={"only_if_faster": False})
    losses: list[list[torch.Tensor]] = []
    for call in (_step, compiled):
        model, inputs = _text(torch.float32)
        opt = torch.optim.AdamW(model.parameters(), 1e-3)
        torch.manual_seed(3)
        losses.append([call(model, opt, inputs(), inputs()) for _ in range(8)])
    torch.testing.assert_close(torch.stack(losses[1]), torch.stack(losses[0]), rtol=1e-3, atol=1e-4)
    assert vesta.explain(compiled).explanation.breaks == []


@trap
def training_takes_no_more_memory() -> None:
    """The peak of a step at most eager's, but for what a recording and its constants keep."""
    peaks = []
    for compiled in (False, True):
        torch._C._cuda_clearCublasWorkspaces()  # each of the two makes its own
        torch.manual_seed(0)
        model = nn.Sequential(*(_Block() for _ in range(6))).cuda()
        run = _compiled(model) if compiled else model
        x = torch.randn(16, 256, 64, device="cuda")
        for _ in range(4):
            model.zero_grad()
            run(x).square().mean().backward()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        model.zero_grad()
        run(x).square().mean().backward()
        torch.cuda.synchronize()
        peaks.append(torch.cuda.max_memory_allocated())
        del model, run, x
    assert peaks[1] <= 1.05 * peaks[0] + (16 << 20), peaks


@trap
def threads_with_graphs_of_their_own() -> None:
    """Products of several threads on one stream, in graphs and beside them, while others record."""

    def work(i: int, compiled: Callable[..., Any]) -> None:
        torch.manual_seed(i)
        for _ in range(5):
            x, w = torch.randn(16 + i, 32, device="cuda"), torch.randn(32, 8, device="cuda")
            ours, eagers = compiled(x, w), torch.tanh(x @ w).square().sum()
            torch.testing.assert_close(ours, eagers, rtol=1e-4, atol=1e-3)

    for _ in range(20):
        compiled = _compiled(lambda x, w: torch.tanh(x @ w).square().sum())
        _in_threads(6, functools.partial(work, compiled=compiled))
