"""Calls that record gradients."""

from __future__ import annotations

import torch
from torch import nn

from tests.capture.case import case, maker, t


def gradients(f, *arguments):
    """The result, and the gradients it gives its arguments."""
    out = f(*arguments)
    first = out[0] if isinstance(out, tuple) else out
    first.sum().backward()
    return out, [a.grad for a in arguments if isinstance(a, torch.Tensor)]


@case(lambda: (t(3, grad=True), t(3)), lambda: (t(4, grad=True), t(4, grad=True)), drive=gradients)
def pointwise(x, y):
    return (x * y).sin() + x**2


@case(lambda: (t(2, 3, grad=True), t(3, 4, grad=True)), drive=gradients)
def matrices(x, w):
    return torch.softmax(x @ w, -1), x.detach() @ w


@maker(lambda: (t(2, 3, grad=True),), drive=lambda f, x: (gradients(f, x), [p.grad.clone() for p in f.parameters()]))
def module():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 1))


def without_gradients(f, *arguments):
    with torch.no_grad():
        return f(*arguments), [a.grad for a in arguments if isinstance(a, torch.Tensor)]


def in_inference_mode(f, *arguments):
    with torch.inference_mode():
        out = f(*arguments)
        return [o.clone() if isinstance(o, torch.Tensor) else o for o in out]


SWITCHED_ON = [lambda: (t(3, grad=True), t(3)), lambda: (t(3), t(3)), lambda: (t(3), t(3, grad=True))]


@case(*SWITCHED_ON, drive=without_gradients)
def gradients_are_switched_on(x, y):
    a = x * 2
    with torch.enable_grad():
        b = x.sin() * y
    return a.requires_grad, b.requires_grad, b.grad_fn is None, a, b, torch.is_grad_enabled()


@case(lambda: (t(2, 3, grad=True),), lambda: (t(2, 3),), drive=without_gradients)
def views_and_copies_without_gradients(x):
    y, z = x.detach(), x.view(-1)
    flags = y.requires_grad, z.requires_grad, x.requires_grad, (x * 2).requires_grad, z.detach()[1:].requires_grad
    return y, y.view(-1), z, z.detach()[:2], x.data, x[0], x, (x * 2).detach(), x.data.t(), flags


@case(lambda: (t(2, 3, grad=True), t(3, grad=True)), lambda: (t(4, 3), t(3)), drive=gradients)
def a_block_without_gradients(x, w):
    with torch.no_grad():
        mean = (x * w).mean(0)
        row, plain = x[0], x.detach()
    return x * mean, mean, row, plain, row.requires_grad


@case(*SWITCHED_ON, drive=without_gradients)
def gradients_are_switched_on_and_taken(x, y):
    with torch.enable_grad():
        b = (x.sin() * y).sum()
        print("in between")
        b = b * 2
        if b.requires_grad:
            b.backward()
    return x.grad, y.grad, b.detach(), torch.is_grad_enabled()


@case(*SWITCHED_ON, drive=in_inference_mode)
def gradients_are_switched_on_in_inference_mode(x, y):
    with torch.enable_grad():
        b = x.sin() * y
    return b.requires_grad, b


@torch.enable_grad()
def _penalty(x, y):
    x = x.detach().requires_grad_(True)
    (gradient,) = torch.autograd.grad((x * y).sin().sum(), x)
    return gradient.norm()


@case(lambda: (t(3), t(3)), lambda: (t(4, grad=True), t(4)), drive=without_gradients)
def gradients_inside_of_a_call_without(x, y):
    return _penalty(x, y) + x.sum()


@case(lambda: (t(3, grad=True),), lambda: (t(3),))
def facts(x):
    y = x * 2
    z = x.detach() * 2
    return y.requires_grad, z.requires_grad, y.is_leaf, x.is_leaf, (y.grad_fn is None), y, z, x


@case(lambda: (t(3, grad=True),), drive=gradients)
def through_a_break(x):
    y = x * 2
    print("value", y.sum().item())
    return y * y


@case(lambda: (t(3, grad=True),), drive=gradients)
def branch_on_a_value(x):
    y = x.exp()
    if y.sum() > 2:
        return y * 3
    return y * x


@case(lambda: (t(3, grad=True),))
def backward_inside(x):
    y = (x * x).sum()
    y.backward()
    return y, x.grad


@case(lambda: (t(3, grad=True),))
def gradient_function(x):
    y = (x**3).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    return g, h


@case(lambda: (t(3),))
def transforms(x):
    f = lambda v: (v * v).sum()  # noqa: E731
    return (
        torch.func.grad(f)(x),
        torch.func.vmap(lambda v: v * 2)(x),
        torch.func.vjp(f, x)[0],
        torch.func.jacrev(f)(x),
    )


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.scale * 10 + x * 0, None


@case(lambda: (t(3, grad=True), 2.0), lambda: (t(3, grad=True), 3.0), drive=gradients)
def own_function(x, scale):
    return Doubled.apply(x, scale) + 1


@case(lambda: (t(3), 2.0))
def own_function_without_gradients(x, scale):
    return Doubled.apply(x * 2, scale) + 1


class Split(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x[:2].clone(), x[2:].clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.size = inputs[0].shape[0]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, a, b):
        return torch.cat([a * 5, torch.zeros(ctx.size - 2)])


@case(lambda: (t(4, grad=True),), drive=gradients)
def own_function_with_setup_context(x):
    a, b = Split.apply(x)
    return a * 2, b, b.requires_grad


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@case(lambda: (t(4, grad=True),), drive=gradients)
def straight_through(x):
    return Straight.apply(x) * 2 + (x.round() - x).detach() + x


@case(lambda: (t(3, grad=True),), drive=gradients)
def checkpoint(x):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda v: (v * 2).sin(), x, use_reentrant=False)


@case(lambda: (t(3, grad=True),), drive=gradients)
def retained(x):
    y = x * 2
    y.retain_grad()
    return y.sin()


@case(lambda: (t(3),))
def requires_grad_set_inside(x):
    y = x.clone().requires_grad_()
    z = (y * 3).sum()
    z.backward()
    return y.grad, z


@case(lambda: (t(3),))
def argument_made_to_require_grad(x):
    x.requires_grad_(True)
    return x * 2


@maker(lambda: (t(4, 3), t(4, 1)))
def training_step():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def f(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return f


@maker(lambda: (t(4, 3), t(4, 1)))
def training_step_with_adam():
    torch.manual_seed(3)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def f(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = (net(x) - y).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        schedule.step()
        return loss.item(), schedule.get_last_lr()

    return f


@case(lambda: (t(3, grad=True),), drive=gradients)
def in_place_under_gradients(x):
    y = x * 1
    y.mul_(x)
    y[0] = 5
    return y + x


@case(lambda: (t(3, grad=True),))
def backward_twice(x):
    y = (x * x).sum()
    y.backward()
    y.backward()
    return x.grad


@case(
    lambda: (t(3, grad=True), t(3, grad=True)),
    drive=lambda f, x, y: (f(x, y), f(x, y)[0].sum().backward(), x.grad, y.grad),
)
def unused_gradient(x, y):
    return x * 2, x.detach(), y.shape


@case(lambda: (t(3, grad=True),))
def to_numpy_with_gradient(x):
    return x.numpy()


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g * ctx.k, None


@case(lambda: (t(3),), lambda: (t(3, grad=True),), lambda: (t(3).requires_grad_(),))
def custom_function_of_either(x):
    y = Scaled.apply(x + 1, 3) * 2
    if y.requires_grad:
        y.sum().backward()
    return y, x.grad, y.requires_grad
