"""Programs that call torch.autograd.Function: forward and backward are traced as the class says, or the call breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

import vesta
from tests.programs.test_training_steps import OPTIONS, as_plain, check, widened


class Clamp(torch.autograd.Function):
    """A straight-through estimate: the gradient is not that of the forward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bound: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.clamp(-bound, bound)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 2 * ctx.bound) * 1.5, None


class Pair(torch.autograd.Function):
    """Two results, one of which may have no gradient; an input that needs none."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> Any:
        y, z = x * w, x + w
        ctx.save_for_backward(x, w, y)
        return y, z

    @staticmethod
    def backward(ctx: Any, gy: torch.Tensor, gz: torch.Tensor) -> Any:
        x, w, _ = ctx.saved_tensors
        gx = gy * w + gz if ctx.needs_input_grad[0] else None
        gw = gy * x + gz if ctx.needs_input_grad[1] else None
        return gx, gw


class Newer(torch.autograd.Function):
    """With setup_context."""

    @staticmethod
    def forward(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return (x * scale).exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.scale = inputs[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return g * y * ctx.scale, None


class Rounded(torch.autograd.Function):
    """A result without a gradient beside one with."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        whole = x.round()
        ctx.mark_non_differentiable(whole)
        return x * 2, whole

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
        return g * 2 + unused.sum()


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, by: float) -> torch.Tensor:
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g.neg() * ctx.by, None


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return F.linear(x, w, b)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        return g @ w, g.t() @ x, g.sum(0)


def leaf(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).requires_grad_()


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "a gradient of its own": (lambda x: Clamp.apply(x * 2, 1.0).sum(), lambda: (leaf(5, 6),)),
    "two results": (lambda x, w: sum(t.pow(2).sum() for t in Pair.apply(x, w)), lambda: (leaf(4), leaf(4, seed=1))),
    "one of two results": (lambda x, w: Pair.apply(x, w)[0].sin().sum(), lambda: (leaf(4), leaf(4, seed=1))),
    "an input without": (
        lambda x, w: Pair.apply(x, w)[1].exp().sum(),
        lambda: (leaf(4), leaf(4, seed=1).detach()),
    ),
    "setup_context": (lambda x: Newer.apply(x, 0.5).mean(), lambda: (leaf(3, 3),)),
    "setup_context and a default": (lambda x: Newer.apply(x).mean(), lambda: (leaf(3, 3),)),
    "marked": (lambda x: sum(t.sum() for t in Rounded.apply(x)), lambda: (leaf(7),)),
    "reversed": (lambda x: Reverse.apply(x.sin(), 0.3).pow(2).sum(), lambda: (leaf(7),)),
    "used twice": (lambda x: (Clamp.apply(x, 0.5) * Clamp.apply(x.cos(), 0.2)).sum(), lambda: (leaf(9),)),
    "nested": (lambda x: Newer.apply(Clamp.apply(Newer.apply(x, 0.1), 1.2), 0.3).sum(), lambda: (leaf(9),)),
    "a product": (
        lambda x, w, b: Linear.apply(x, w, b).relu().sum(),
        lambda: (leaf(4, 3), leaf(5, 3, seed=1), leaf(5, seed=2)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_are_the_classes(name: str, inside: bool) -> None:
    """The backward pass after the call, and inside of it."""
    f, make = PROGRAMS[name]

    def program(*inputs: torch.Tensor) -> torch.Tensor:
        loss = f(*inputs)
        if inside:
            loss.backward()
            return loss.detach()
        return loss

    compiled = vesta.compile(program, options=OPTIONS)
    for _ in range(3):
        told = []
        for call in (program, compiled, program):
            inputs = widened(make()) if len(told) == 2 else make()
            loss = call(*inputs)
            if not inside:
                loss.backward()
            told.append(as_plain((loss, [t.grad for t in inputs])))
        check(told[1], told[0], told[2])
    explanation = vesta.explain(compiled).explanation
    assert explanation.breaks == []
    assert explanation.fallbacks == []


class Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Linear.apply(Clamp.apply(self.linear(x), 0.5), self.linear.weight, self.linear.bias)


def test_parameters_are_arguments() -> None:
    torch.manual_seed(0)
    eager, ours = Module(), Module()
    ours.load_state_dict(eager.state_dict())
    compiled = vesta.compile(ours, options=OPTIONS)
    for _ in range(3):
        x = torch.randn(4, 6)
        for m, call in ((eager, eager), (ours, compiled)):
            m.zero_grad()
            call(x).square().mean().backward()
        for a, b in zip(ours.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)
    assert vesta.explain(compiled).explanation.breaks == []


seen: list[int] = []


class Counts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return g * 2


def test_effects_of_a_backward_come_with_the_backward() -> None:
    seen.clear()
    compiled = vesta.compile(lambda x: Counts.apply(x.sin()).cos().sum(), options=OPTIONS)
    for i in range(3):
        x = leaf(4)
        loss = compiled(x)
        assert len(seen) == i
        loss.backward()
        assert len(seen) == i + 1
        y = leaf(4)
        (y.sin() * 2).cos().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert {b.name for b in vesta.explain(compiled).explanation.breaks} == {"autograd-function"}


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        raise ValueError("no gradient today")


def test_errors_of_a_backward_are_eagers() -> None:
    compiled = vesta.compile(lambda x: Fails.apply(x).sum(), options=OPTIONS)
    for _ in range(2):
        loss = compiled(leaf(3))
        with pytest.raises(ValueError, match="no gradient today"):
            loss.backward()


class Branches(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return g * 3 if x.sum() > 0 else g


def test_a_method_that_reads_a_value_breaks() -> None:
    compiled = vesta.compile(lambda x: Branches.apply(x.sin()).sum(), options=OPTIONS)
    for sign in (1, -1, 1):
        x, y = (torch.full((3,), 0.5 * sign, requires_grad=True) for _ in range(2))
        compiled(x).backward()
        Branches.apply(y.sin()).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


factor = [2.0]


class Scales(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * factor[0]


def test_a_change_of_what_a_method_reads_compiles_again() -> None:
    compiled = vesta.compile(lambda x: Scales.apply(x).sum(), options=OPTIONS)
    for value in (2.0, 2.0, 5.0):
        factor[0] = value
        x = leaf(3)
        compiled(x).backward()
        torch.testing.assert_close(x.grad, torch.full((3,), value))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Cube(torch.autograd.Function):
    """Its backward calls another function with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * Square.apply(x) * g


TWICE = {name: case for name, case in PROGRAMS.items() if name not in ("marked", "reversed")}
TWICE["a function in a backward"] = (lambda x: Cube.apply(x.sin()).sum(), lambda: (leaf(4),))


@pytest.mark.parametrize("name", TWICE)
def test_a_penalty_on_gradients_is_one_graph(name: str) -> None:
    f, make = TWICE[name]

    def step(*inputs: torch.Tensor) -> torch.Tensor:
        loss = f(*inputs)
        found = torch.autograd.grad(loss, [t for t in inputs if t.requires_grad], create_graph=True)
        (loss + sum((g - 1).square().sum() for g in found)).backward()
        return loss.detach()

    compiled = vesta.compile(step, options=OPTIONS, fullgraph=True)
    for _ in range(2):
        told = []
        for call in (step, compiled):
            inputs = make()
            told.append((call(*inputs), [t.grad for t in inputs]))
        torch.testing.assert_close(told[1], told[0])


def test_the_third_derivative() -> None:
    def step(x: torch.Tensor) -> list[torch.Tensor]:
        out, y = [], Cube.apply(Square.apply(x)).sum()
        for _ in range(3):
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            out.append(g.detach())
            y = g.sum()
        return out

    x = leaf(5)
    torch.testing.assert_close(vesta.compile(step, options=OPTIONS, fullgraph=True)(x), step(x))


def test_second_derivatives_are_the_methods_or_refused() -> None:
    compiled = vesta.compile(lambda x: Clamp.apply(x, 1.0).pow(2).sum(), options=OPTIONS)
    x = leaf(4)
    (g,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    y = leaf(4)
    (h,) = torch.autograd.grad(Clamp.apply(y, 1.0).pow(2).sum(), y, create_graph=True)
    torch.testing.assert_close(g, h)
    h.sum().backward()
    try:
        g.sum().backward()
    except RuntimeError as e:
        assert "double backward" in str(e)
    else:
        torch.testing.assert_close(x.grad, y.grad)


class Unfilled(torch.autograd.Function):
    """Its backward gets None as the gradient of a result that no loss depends on."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, first: torch.Tensor | None, second: torch.Tensor | None) -> Any:
        return torch.full((4,), 7.0) if second is None else second * 3


def test_a_function_that_takes_no_zeros() -> None:
    found = []
    for call in (one_of_two, vesta.compile(one_of_two, options=OPTIONS)):
        x = leaf(4)
        call(x).backward()
        found.append(x.grad)
    torch.testing.assert_close(found[1], found[0])


def one_of_two(x: torch.Tensor) -> torch.Tensor:
    return Unfilled.apply(x)[0].sum()
