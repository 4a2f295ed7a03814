"""Gradients of gradients, asked for outside of what is compiled."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
import torch

import vesta

torch.manual_seed(0)
MODEL = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
X = torch.randn(5, 4)
# Many calls of a small function with gradients would be found slower than eager.
compile_always = functools.partial(vesta.compile, options={"only_if_faster": False})


def penalty(model):
    """WGAN-GP's, and the model's own loss."""
    for p in MODEL.parameters():
        p.grad = None
    x = X.clone().requires_grad_()
    (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    loss = ((g.norm(dim=1) - 1) ** 2).mean() + model(x).mean()
    loss.backward()
    return loss.detach(), g.detach(), [p.grad for p in MODEL.parameters()]


def test_a_gradient_penalty():
    expected = penalty(MODEL)
    compiled = vesta.compile(MODEL)
    for _ in range(2):
        torch.testing.assert_close(penalty(compiled), expected)
    assert not vesta.explain(compiled)(X).fallbacks


def two_results(a, b):
    return torch.sin(a) * b.exp(), (a @ b).tanh().T, a[0] * 2


def in_place(a, b):
    c = a * b
    c[1] += b[0].sin()
    c.mul_(a)
    return c.sum(), c


@pytest.mark.parametrize("function", [two_results, in_place])
def test_numeric_second_derivatives(function):
    a, b = (torch.randn(3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    compiled = compile_always(function)
    assert torch.autograd.gradcheck(compiled, (a, b)) and torch.autograd.gradgradcheck(compiled, (a, b))
    assert not vesta.explain(compiled)(a, b).fallbacks


def test_a_hessian_by_rows():
    def f(x):
        return (x**3).sum() + (x[:2] * x[1:]).prod()

    x = torch.randn(3, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.functional.hessian(compile_always(f), x), torch.autograd.functional.hessian(f, x)
    )


def test_random_numbers_are_not_drawn_again():
    compiled = vesta.compile(lambda x: torch.nn.functional.dropout(x * x, 0.5))
    x = X.clone().requires_grad_()
    (g,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        g.sum().backward()


def test_inputs_go_with_the_pass():
    compiled = vesta.compile(lambda x: (x * x).sin().sum())
    x = X.clone().requires_grad_()
    y = x * 2
    loss = compiled(y)
    alive = weakref.ref(y)
    loss.backward()
    del y
    gc.collect()
    assert alive() is None


def straight_through(x):
    return (x + (x.round() - x).detach()).pow(3)


def detached_in_the_middle(x):
    y = x.sin() * x
    return (y.detach() * y).exp() + y.detach()[0] * x


def written_after_detach(x):
    y = x.detach().clone()
    y[0] = x[1] * x[2]
    z = x * 2
    d = z.detach()
    z.mul_(x)
    return y * x + z * d


def by_data(x):
    y = x * 2
    return y * y.data.exp() + y.data.view(-1).view_as(y) * x


def without_gradients_in_the_middle(x):
    y = x.exp()
    with torch.no_grad():
        scale = y.abs().amax() + x.mean()
        mask = (y > scale / 2).to(x.dtype)
    return (y / scale * mask).pow(2) * x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * x.detach()).sin(),
        lambda x: (x * x.data).sin(),
        lambda x: x * without_gradients(x),
        straight_through,
        detached_in_the_middle,
        written_after_detach,
        by_data,
        without_gradients_in_the_middle,
    ],
)
def test_what_is_detached_has_no_gradient(function):
    compiled = vesta.compile(function, fullgraph=True, options={"strict": True})
    found = []
    for f in (function, compiled):
        x = X.double().requires_grad_()
        (first,) = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
        found.append((first, *torch.autograd.grad(first.sin().sum(), x)))
    torch.testing.assert_close(found[1], found[0])


def written_through_detach(x):
    y = x * 2
    y.detach().mul_(3)
    return y * x


def written_in_no_grad(x):
    y = x * 2
    with torch.no_grad():
        y.add_(1)
    return y * x


@pytest.mark.parametrize("function", [written_through_detach, written_in_no_grad])
def test_writes_that_autograd_does_not_see(function):
    """Gradients are eager's. A second derivative of the graph would not be."""
    compiled = vesta.compile(function, fullgraph=True, options={"strict": True})
    x, plain = X.clone().requires_grad_(), X.clone().requires_grad_()
    (first,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    torch.testing.assert_close(first, torch.autograd.grad(function(plain).sum(), plain)[0])
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


@torch.no_grad()
def without_gradients(x):
    return x.exp()
