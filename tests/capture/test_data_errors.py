"""Errors that depend on data reach the handler of the frame they belong to, in every mode.

What the program did before such an error is done, what comes after it is not, and random numbers are those of eager.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vesta

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")

MODES: dict[str, Callable[[], Any]] = {
    "gradients": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


def seen(f: Callable[..., Any], arguments: Callable[[], list[Any]]) -> list[Any]:
    """The visible outcome of one call: result or error, gradients, and its arguments and random numbers afterwards."""
    torch.manual_seed(1)
    given = arguments()
    gradients: list[Any] = []
    try:
        result = f(*given)
    except Exception as error:
        result = (type(error), str(error).partition("\n")[0])
    else:
        if isinstance(result, torch.Tensor) and result.requires_grad:
            leaves = [x for x in given if isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad]
            if leaves:
                gradients = list(torch.autograd.grad(result.sum(), leaves, allow_unused=True))
    return [result, gradients, given, torch.rand(2)]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.requires_grad == b.requires_grad and torch.equal(a, b)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def expect(
    f: Callable[..., Any], arguments: Callable[[], list[Any]], modes: Sequence[str] = tuple(MODES), **options: Any
) -> None:
    compiled = vesta.compile(f, **options)
    for name in modes:
        with MODES[name]():
            for call in range(2):
                want, got = seen(f, arguments), seen(compiled, arguments)
                assert same(want, got), f"{name}, call {call}: {got} instead of {want}"


def weight(*sizes: int) -> torch.Tensor:
    return torch.full(sizes, 2.0, requires_grad=True)


ROW = functools.partial(torch.arange, 1.0, 4.0)
FAR = functools.partial(torch.tensor, [5])

# ---- every operator that checks values ------------------------------------------------------------------------------

OPERATORS: dict[str, tuple[Callable[[torch.Tensor], Any], type[Exception]]] = {
    "embedding": (lambda w: F.embedding(torch.tensor([9]), w.expand(3, 1)), IndexError),
    "index": (lambda w: w[torch.tensor([9])], IndexError),
    "index, negative": (lambda w: w[torch.tensor([-9])], IndexError),
    "index_select": (lambda w: w.index_select(0, torch.tensor([9])), IndexError),
    "gather": (lambda w: w.gather(0, torch.tensor([9])), RuntimeError),
    "take": (lambda w: w.take(torch.tensor([9])), IndexError),
    "scatter": (lambda w: torch.zeros(4).scatter(0, torch.tensor([9]), w), RuntimeError),
    "scatter_add": (lambda w: torch.zeros(4).scatter_add(0, torch.tensor([9]), w), RuntimeError),
    "index_add": (lambda w: torch.zeros(4).index_add(0, torch.tensor([9]), w), IndexError),
    "index_copy": (lambda w: torch.zeros(4).index_copy(0, torch.tensor([9]), w), IndexError),
    "index_put": (lambda w: torch.zeros(4).index_put((torch.tensor([9]),), w), IndexError),
    "in place on what is lost": (lambda w: torch.zeros(4).scatter_(0, torch.tensor([9]), w), RuntimeError),
    "cross_entropy": (lambda w: F.cross_entropy(w.expand(2, 3), torch.tensor([1, 9])), IndexError),
    "nll_loss": (lambda w: F.nll_loss(w.expand(2, 3), torch.tensor([1, 9])), IndexError),
    "multi_margin_loss": (lambda w: F.multi_margin_loss(w.expand(2, 3), torch.tensor([1, 9])), RuntimeError),
    "one_hot": (lambda w: F.one_hot(torch.tensor([9]), 4) * w, RuntimeError),
    "inv": (lambda w: torch.linalg.inv((w * 0).expand(2, 2)), RuntimeError),
    "cholesky": (lambda w: torch.linalg.cholesky(-w * torch.eye(2)), RuntimeError),
    "solve": (lambda w: torch.linalg.solve((w * 0).expand(2, 2), torch.ones(2)), RuntimeError),
    "svd of NaN": (lambda w: torch.linalg.svd((w * float("nan")).expand(2, 2)), RuntimeError),
    "floor division": (lambda w: torch.arange(3) // torch.zeros(3, dtype=torch.long), RuntimeError),
    "remainder": (lambda w: torch.arange(3) % torch.zeros(3, dtype=torch.long), RuntimeError),
    "_assert_async": (lambda w: torch._assert_async((w > 9).all()), RuntimeError),
    "_assert_async, message": (lambda w: torch._assert_async((w > 9).all(), "small"), RuntimeError),
    "_assert": (lambda w: torch._assert((w > 9).all(), "small"), AssertionError),
    "_check": (lambda w: torch._check((w > 9).all().item(), lambda: "small"), RuntimeError),
    "bincount": (lambda w: torch.bincount(torch.tensor([-1])), RuntimeError),
    "multinomial": (lambda w: torch.multinomial(-w, 1), RuntimeError),
    "bernoulli": (lambda w: torch.bernoulli(w), RuntimeError),
    "normal": (lambda w: torch.normal(w, -w), RuntimeError),
    "masked_scatter": (lambda w: torch.zeros(3).masked_scatter(torch.ones(3) > 0, w), RuntimeError),
    "mask of another size": (lambda w: w[torch.ones(3) > 0], IndexError),
    "histc": (lambda w: torch.histc(w * float("nan")), RuntimeError),
    "repeat_interleave": (lambda w: w.repeat_interleave(torch.tensor([-1])), RuntimeError),
    "max_unpool1d": (lambda w: F.max_unpool1d(w.view(1, 1), torch.tensor([[9]]), 2), RuntimeError),
    "huge": (lambda w: torch.empty(1 << 50), RuntimeError),
    "huge zeros": (lambda w: torch.zeros(1 << 48) * w, RuntimeError),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    """The handler of the frame gets the error, whether or not the result is read."""
    operator, error = OPERATORS[name]

    def unread(w):
        try:
            operator(w)
        except error:
            return w * 3
        return w * 2

    def read(w, log):
        log.append("before")
        try:
            y = operator(w)
            log.append("after")
        except error:
            return w * 3
        return y if y is None else y[0].sum() + w

    expect(unread, lambda: [weight(1)], ("gradients", "inference"))
    expect(read, lambda: [weight(1), []], ("gradients", "inference"))
    with pytest.raises(error):
        operator(weight(1))


def test_modules() -> None:
    m = nn.Embedding(4, 3)

    def unread(i):
        try:
            m(i)
        except IndexError:
            return 1
        return 0

    def read(i):
        try:
            return m(i)
        except IndexError:
            return 1

    for f in (unread, read):
        for options in ({}, {"dynamic": True}):
            expect(f, lambda: [torch.tensor([9])], **options)
            expect(f, lambda: [torch.tensor([3])], **options)
            compiled = vesta.compile(f, **options)
            for k in (1, 9, 2, 3, 9, 9, 0):
                assert same(compiled(torch.tensor([k] * (1 + k % 3))), f(torch.tensor([k] * (1 + k % 3))))


# ---- where the handler is -------------------------------------------------------------------------------------------


def pick(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    try:
        return torch.index_select(x, 0, i)
    finally:
        x = x + 1


class Logged:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __enter__(self) -> None:
        self.log.append("in")

    def __exit__(self, kind: Any, *more: Any) -> None:
        self.log.append(f"out {kind and kind.__name__}")


def in_called(x, i, w, log):
    try:
        a = pick(x * w, i)
    except IndexError:
        return w * 7
    return a.sum()


def in_loop(x, i, w, log):
    out = []
    for k in range(4):
        try:
            out.append(pick(x * w, i - k).sum())
            log.append(k)
        except IndexError:
            out.append(torch.tensor(float(k)))
    return torch.stack(out)


def in_context(x, i, w, log):
    with Logged(log):
        y = x * w
        x.add_(1)
        log.append("a")
        try:
            z = torch.gather(y, 0, i)
            log.append("b")
        finally:
            log.append("f")
    return z + y


def wrong_handler(x, i, w, log):
    try:
        try:
            y = torch.index_select(x * w, 0, i)
        except (KeyError, RuntimeError):
            log.append("inner")
            y = w
    except LookupError as error:
        log.append(str(error))
        return w * 2
    return y


def handler_that_raises(x, i, w, log):
    try:
        torch.index_select(x * w, 0, i)
    except IndexError as error:
        log.append("handler")
        raise ValueError("other") from error
    finally:
        log.append("finally")


def uncaught(x, i, w, log):
    x.add_(1)
    log.append(1)
    w * torch.index_select(x, 0, i).sum()
    log.append(2)
    x.add_(1)
    return w


def after_break(x, i, w, log):
    y = x * w
    torch._dynamo.graph_break()
    log.append("first")
    try:
        z = torch.index_select(y, 0, i)
    except IndexError:
        z = y
    torch._dynamo.graph_break()
    log.append("second")
    return z.sum() * 2


def two_errors(x, i, w, log):
    try:
        x.index_select(0, i)
    except IndexError:
        log.append("one")
        try:
            return (x * w).gather(0, i)
        except RuntimeError:
            log.append("two")
    return w * 5


def suppressed(x, i, w, log):
    with contextlib.suppress(IndexError):
        w = w * x.index_select(0, i)
    return w * 3


PLACES = [
    in_called,
    in_loop,
    in_context,
    wrong_handler,
    handler_that_raises,
    uncaught,
    after_break,
    two_errors,
    suppressed,
]


@pytest.mark.parametrize("f", PLACES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_places(f: Callable[..., Any], dynamic: bool | None) -> None:
    expect(f, lambda: [ROW(), FAR(), weight(1), []], dynamic=dynamic)


def test_good_and_bad_calls_in_turn() -> None:
    """An error leaves what was compiled as it was."""
    for f in (in_called, suppressed):
        explain = vesta.explain(f)
        for k in (5, 1, 2, 5, 0, 5, 1):
            a, b = [[ROW(), torch.tensor([k]), weight(1), []] for _ in range(2)]
            explain(*b)
            assert same(f(*a), explain.result)
        found = explain.explanation
        assert len(found.graphs) == 1
        assert [(r.count, "out of range" in r.reason) for r in found.fallbacks] == [(3, True)]


# ---- writes and random numbers --------------------------------------------------------------------------------------


def writes_before(x, i, w, b):
    b.add_(1)
    y = x * w
    try:
        z = x[i]
    except IndexError:
        z = x * 3
    b.mul_(2)
    return y + z.sum() * b.clone().sum()


def writes_rows(x, i, w, b):
    b[1:2] = 5.0
    y = x.index_select(0, i)
    b.index_copy_(0, i - 4, y * w.detach())
    return y


def writes_after(x, i, w, b):
    y = x.index_select(0, i)
    b.index_copy_(0, i - 4, torch.ones(1))
    b.fill_(7)
    return y * w


def draws(x, i, w, b):
    a = torch.dropout(x * w, 0.5, True)
    b.copy_(torch.randn(3))
    try:
        z = torch.gather(x, 0, i)
    except RuntimeError:
        z = torch.rand(3)
    return a.sum() + z.sum() + torch.rand(1)


def draws_unread(x, i, w, b):
    torch.dropout(x * w, 0.5, True)
    torch.rand(3)
    torch.randn_like(x)
    try:
        x.index_select(0, i)
    except IndexError:
        return w * torch.rand(1)
    return w


@pytest.mark.parametrize("f", [writes_before, writes_rows, writes_after, draws, draws_unread])
def test_writes_and_random_numbers(f: Callable[..., Any]) -> None:
    expect(f, lambda: [ROW(), FAR(), weight(1), torch.zeros(3)])
    expect(f, lambda: [ROW(), FAR(), weight(1), torch.zeros(3)], dynamic=True)


def test_buffers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.table = nn.Embedding(4, 3)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x, i):
            self.calls += 1
            y = self.norm(x)
            try:
                y = y + self.table(i)
            except IndexError:
                y = y * 2
            self.calls += 1
            return y

    for k in (9, 1):
        plain, other = Net(), Net()
        other.load_state_dict(plain.state_dict())
        compiled = vesta.compile(other)
        for _ in range(3):
            x = torch.randn(5, 3)
            assert torch.allclose(plain(x, torch.tensor([k])), compiled(x, torch.tensor([k])))
        for a, b in zip(plain.buffers(), other.buffers(), strict=True):
            assert torch.allclose(a, b)


# ---- custom operators -----------------------------------------------------------------------------------------------


@torch.library.custom_op("vesta_data_errors::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    if not bool((x > 0).all()):
        raise KeyError("not positive")
    return x.clone()


@positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


positive.register_autograd(lambda ctx, g: g)


def custom_read(x, w, log):
    try:
        return positive(x * w) + 1
    except KeyError:
        log.append("no")
        return w * 2


def custom_unread(x, w, log):
    try:
        positive(x * w)
        log.append("yes")
    except KeyError:
        log.append("no")
    return w * 2


@pytest.mark.parametrize("f", [custom_read, custom_unread])
@pytest.mark.parametrize("sign", [1, -1])
def test_custom_operators(f: Callable[..., Any], sign: int) -> None:
    expect(f, lambda: [ROW() * sign, weight(1), []])


def test_what_is_no_error_of_the_program_passes() -> None:
    """KeyboardInterrupt in an operator is not run again."""
    calls = []

    @torch.library.custom_op("vesta_data_errors::interrupted", mutates_args=())
    def interrupted(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        raise KeyboardInterrupt

    interrupted.register_fake(torch.empty_like)

    def f(x):
        try:
            return interrupted(x)
        except Exception:
            return None

    for x in (torch.ones(2), weight(2)):
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            vesta.compile(f)(x)
        assert calls == [1]


# ---- torch.compile(backend="vesta"), trace_and_compile -------------------------------------------------------------


def test_other_entry_points() -> None:
    """A graph of Dynamo's has no handler; its error is eager's, read or not, and inputs are as eager leaves them."""

    def unread(w, i):
        w.index_select(0, i)
        torch.linalg.inv(w.view(1, 1) * 0 + 1)
        return w * 2

    def singular(w, i):
        torch.linalg.inv(w.view(1, 1) * 0)
        return w * 2

    for w in (weight(1), torch.ones(1)):
        for f, error in ((unread, IndexError), (singular, RuntimeError)):
            torch._dynamo.reset()
            with pytest.raises(error):
                torch.compile(f, backend="vesta")(w, FAR())
            with pytest.raises(error), torch.no_grad():
                vesta.trace_and_compile(f)(w, FAR())


def test_the_first_error_of_a_process() -> None:
    """torch looks its symbolic numbers up by an import, which fails where the error of an operator is set."""
    program = (
        "import torch, vesta\n"
        "f = vesta.compile(lambda x, k: torch.ldexp(x, k))\n"
        "x, k = torch.randn(4), torch.arange(4)\n"
        "assert torch.equal(f(x, k), torch.ldexp(x, k))\n"
    )
    environment = {**os.environ, "VESTA_LOG": "fallbacks"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "SystemError" not in done.stderr, done.stderr
