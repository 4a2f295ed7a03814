"""Programs with torch.func as users write them, in float64: compiled and eager results differ by rounding alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

Tensor = torch.Tensor
Program = Callable[..., Any]
Make = Callable[[int], tuple[Any, ...]]

PROGRAMS: dict[str, tuple[Program, Make]] = {}


def normal(seed: int, *size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def labels(seed: int, rows: int, classes: int = 4) -> Tensor:
    return torch.randint(0, classes, (rows,), generator=torch.Generator().manual_seed(seed))


def tensors(*sizes: tuple[int, ...]) -> Make:
    return lambda n: tuple(normal(10 * n + i, *size) for i, size in enumerate(sizes))


def program(make: Make) -> Callable[[Program], Program]:
    def note(f: Program) -> Program:
        assert f.__name__ not in PROGRAMS
        PROGRAMS[f.__name__] = (f, make)
        return f

    return note


def net(inputs: int = 3, outputs: int = 4, seed: int = 0, act: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 8), act(), nn.Linear(8, outputs)).double()


def detached(module: nn.Module) -> dict[str, Tensor]:
    return {k: p.detach() for k, p in module.named_parameters()}


# ---- each transform --------------------------------------------------------------------------------------------------


@program(tensors((5,)))
def gradient(x):
    return grad(lambda v: (v.sin() * v).sum())(x)


@program(tensors((5,)))
def gradient_and_value(x):
    return grad_and_value(lambda v: v.exp().prod())(x)


@program(tensors((5,), (5,)))
def gradient_of_several_arguments(x, y):
    return grad(lambda a, b, k: (a * b * k).tanh().sum(), argnums=(0, 1))(x, y, 3.0)


@program(tensors((5,), (5,)))
def gradient_of_the_second_argument(x, y):
    return grad(lambda a, b: (a * b).tanh().sum(), argnums=1)(x, y), grad(lambda a, b: a.dot(b), argnums=-1)(x, y)


@program(tensors((5,)))
def gradient_with_more_results(x):
    def f(v):
        hidden = v.sin()
        return hidden.sum(), {"hidden": hidden, "size": v.shape[0]}

    return grad(lambda v: (f(v)[0], f(v)[1]["hidden"]), has_aux=True)(x)


@program(tensors((5,), (5,)))
def gradient_and_value_with_more_results(x, y):
    g, (value, hidden) = grad_and_value(lambda v: ((v * y).sum(), [v.cos(), (v + y,)]), has_aux=True)(x)
    return g, value, hidden


@program(tensors((3, 4), (4,)))
def gradient_of_a_tree(w, b):
    parameters = {"layer": {"w": w, "b": b}, "rest": [b * 2]}

    def loss(p):
        return ((p["layer"]["w"] @ p["layer"]["b"]).sum() + (p["rest"][0] ** 2).sum()).sqrt()

    return grad(lambda p: loss({**p, "rest": [p["rest"][0].abs()]}))(parameters)


@program(tensors((5,)))
def unused_argument_has_a_zero_gradient(x):
    return grad(lambda a, b: a.sum() + b.detach().sum(), argnums=(0, 1))(x, x * 2)


@program(tensors((4, 5)))
def second_and_third_gradient(x):
    f = lambda v: (v**4).sum()  # noqa: E731
    second = grad(lambda v: grad(f)(v).sum())
    return second(x), grad(lambda v: second(v).sum())(x)


@program(tensors((5,)))
def gradient_without_gradient_mode(x):
    with torch.no_grad():
        outside = grad(lambda v: (v**2).sum())(x)

    def constant_inside(v):
        with torch.no_grad():
            c = v**2
        return (v - c).sum()

    return outside, grad(constant_inside)(x)


@program(tensors((3, 5), (3, 5)))
def products_with_cotangents(x, c):
    out, pull = vjp(lambda v: {"s": v.sin(), "p": (v.cos(), v * 2)}, x)
    return out, pull({"s": c, "p": (c * 2, c + 1)})


@program(tensors((3, 5), (3, 5)))
def a_pullback_called_twice(x, c):
    out, pull, aux = vjp(lambda v: (v.sin() @ v.T, v.sum()), x, has_aux=True)
    return out, pull(c @ x.T), pull(x @ c.T), aux


@program(tensors((3, 5), (3, 5)))
def products_with_tangents(x, t):
    return jvp(torch.sin, (x,), (t,)), jvp(lambda a, b: (a * b, a.exp()), (x, t), (t, x))


@program(tensors((3, 5), (3, 5)))
def tangents_with_more_results(x, t):
    return jvp(lambda a: (a.tanh(), a.cos()), (x,), (t,), has_aux=True)


@program(tensors((3, 5), (3, 5)))
def tangents_of_many_operators(x, t):
    def f(a):
        b = F.softmax(a @ a.T, -1) @ F.layer_norm(a, (5,))
        return F.gelu(b) + F.log_softmax(a, -1).cumsum(0) + torch.logsumexp(a, 1, keepdim=True) + a.var(0)

    return jvp(f, (x,), (t,))


@program(tensors((4,)))
def jacobians(x):
    f = lambda v: v.sin() * v.sum()  # noqa: E731
    return jacrev(f)(x), jacfwd(f)(x)


@program(tensors((4,), (3,)))
def jacobians_of_trees(x, y):
    def f(a, b):
        return {"outer": a[:, None] * b, "sum": (a.sum() * b,)}

    return jacrev(f, argnums=(0, 1))(x, y), jacfwd(f, argnums=(0, 1))(x, y)


@program(tensors((6,)))
def jacobian_in_chunks(x):
    f = lambda v: v.outer(v).tanh().flatten()  # noqa: E731
    return jacrev(f, chunk_size=4)(x), jacrev(f, chunk_size=1)(x)


@program(tensors((4,)))
def jacobian_with_more_results(x):
    f = lambda v: (v.sin(), v.sum())  # noqa: E731
    return jacrev(f, has_aux=True)(x), jacfwd(f, has_aux=True)(x)


@program(tensors((4,)))
def hessians(x):
    f = lambda v: v.sin().sum() * (v**3).sum()  # noqa: E731
    return hessian(f)(x), jacrev(jacrev(f))(x), jacfwd(jacfwd(f))(x), jacrev(jacfwd(f))(x)


@program(tensors((4,), (4,)))
def hessian_vector_products(x, v):
    f = lambda a: (a.sin() * a.exp()).sum()  # noqa: E731
    forward_over_reverse = jvp(grad(f), (x,), (v,))[1]
    reverse_over_reverse = vjp(grad(f), x)[1](v)[0]
    reverse_over_forward = grad(lambda a: jvp(f, (a,), (v,))[1])(x)
    return forward_over_reverse, reverse_over_reverse, reverse_over_forward


@program(tensors((5, 3), (5, 3)))
def batches(x, y):
    return vmap(torch.dot)(x, y), torch.vmap(lambda v: v.softmax(-1).outer(v))(x)


@program(tensors((5, 3), (3, 5), (3,)))
def batches_by_other_dimensions(x, y, z):
    f = lambda a, b, c: {"p": a * b + c, "s": (a.sum(), b)}  # noqa: E731
    return vmap(f, in_dims=(0, 1, None), out_dims={"p": 1, "s": (0, -1)})(x, y, z)


@program(tensors((5, 3), (5, 2)))
def batches_of_trees(x, y):
    return vmap(lambda d, k: [d["a"].sum() * d["b"][0], k], in_dims=({"a": 0, "b": [0]}, None), out_dims=(0))(
        {"a": x, "b": [y]}, x[0]
    )


@program(tensors((2, 3, 4), (2, 3, 4)))
def batches_of_batches(x, y):
    pairwise = vmap(vmap(torch.dot, (None, 0)), (0, None))
    return pairwise(x[0], y[1]), vmap(vmap(lambda a: (a - a.mean()) / a.std()))(x)


@program(tensors((7, 3), (3,)))
def batches_in_chunks(x, w):
    return vmap(lambda v: (v * w).tanh(), chunk_size=3)(x)


@program(tensors((5, 4)))
def writes_in_a_batch(x):
    def f(v):
        out = v.clone()
        out[1:3] += 1
        out.mul_(2)
        out[0] = v.sum()
        return out

    return vmap(f)(x), grad(lambda v: f(v).pow(2).sum())(x[0])


@program(tensors((5, 4)))
def factories_in_a_batch(x):
    def f(v):
        return v + torch.arange(4) * torch.ones_like(v) + torch.zeros(4, dtype=v.dtype) + torch.eye(4)[1]

    return vmap(f)(x), jacfwd(lambda v: v + torch.full((4,), 2.0))(x[0])


@program(tensors((5, 4)))
def branches_on_sizes(x):
    def f(v):
        if v.shape[0] > 3 and v.dim() == 1 and v.is_floating_point():
            return torch.where(v > 0, v, v.exp() - 1)
        return v

    return vmap(grad(lambda v: f(v).sum()))(x)


@program(tensors((5, 4), (4, 3)))
def indexing_in_a_batch(x, w):
    def f(v, i):
        return v[i] * w[i].sum() + v.gather(0, i.reshape(1)).sum()

    return vmap(f)(x, torch.tensor([0, 1, 3, 2, 0]))


@program(tensors((3, 2, 6, 6), (4, 2, 3, 3)))
def convolutions_in_a_batch(x, w):
    def f(image):
        return F.max_pool2d(F.relu(F.conv2d(image[None], w)), 2).sum()

    return vmap(grad(f))(x)


# ---- programs --------------------------------------------------------------------------------------------------------


MODEL = net()


def loss_of_one(parameters, x, y):
    return F.cross_entropy(functional_call(MODEL, parameters, (x[None],)), y[None])


@program(lambda n: (detached(net(seed=n)), normal(n, 6, 3), labels(n, 6)))
def gradients_per_sample(parameters, x, y):
    each = vmap(grad(loss_of_one), in_dims=(None, 0, 0))(parameters, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
    scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
    return {k: (g * scale.reshape(-1, *[1] * (g.dim() - 1))).mean(0) for k, g in each.items()}


@program(lambda n: (normal(n, 6, 3), labels(n, 6)))
def gradients_per_sample_of_a_modules_own_parameters(x, y):
    return vmap(grad(loss_of_one), (None, 0, 0))(detached(MODEL), x, y)


@program(lambda n: (normal(n, 6, 3), labels(n, 6)))
def gradients_for_parameters_that_require_some(x, y):
    parameters = dict(MODEL.named_parameters())
    return {k: g.detach() for k, g in grad(lambda p: loss_of_one(p, x[0], y[0]))(parameters).items()}


CONVNET = nn.Sequential(nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 16, 4)).double()


@program(lambda n: (normal(n, 5, 1, 6, 6), labels(n, 5)))
def gradients_per_sample_of_a_convnet(x, y):
    def one(p, a, b):
        return F.cross_entropy(functional_call(CONVNET, p, (a[None],)), b[None])

    return vmap(grad_and_value(one), (None, 0, 0))(detached(CONVNET), x, y)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).reshape(*x.shape[:-1], 3, 2, 4).permute(1, 2, 0, 3)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1))


ATTENTION = Attention().double()


@program(lambda n: (normal(n, 3, 5, 8),))
def gradients_per_sample_of_attention(x):
    def one(p, a):
        return functional_call(ATTENTION, p, (a,)).square().mean()

    return vmap(grad(one), (None, 0))(detached(ATTENTION), x)


FIELD = net(2, 1)


@program(lambda n: (normal(n, 7, 2),))
def residual_of_a_heat_equation(points):
    def u(p, tx):
        return functional_call(FIELD, p, (tx,)).squeeze(-1)

    def residual(p, tx):
        du = jacrev(u, argnums=1)(p, tx)
        d2u = hessian(u, argnums=1)(p, tx)
        return du[0] - 0.3 * d2u[1, 1]

    return vmap(residual, (None, 0))(detached(FIELD), points).square().mean()


@program(lambda n: (normal(n, 7, 2), normal(n + 50, 7, 1)))
def training_step_of_a_physics_informed_net(points, boundary):
    def u(p, tx):
        return functional_call(FIELD, p, (tx,)).squeeze(-1)

    def loss(p):
        u_t = vmap(grad(u, argnums=1), (None, 0))(p, points)[:, 0]
        u_xx = vmap(lambda tx: grad(lambda z: grad(u, argnums=1)(p, z)[1])(tx)[1])(points)
        return (u_t - u_xx).square().mean() + (functional_call(FIELD, p, (points,)) - boundary).square().mean()

    parameters = detached(FIELD)
    gradients, value = grad_and_value(loss)(parameters)
    return value, {k: p - 0.1 * gradients[k] for k, p in parameters.items()}


@program(tensors((7, 3)))
def laplacian_by_directions(points):
    f = lambda v: (v.sin().prod() + v.square().sum()).tanh()  # noqa: E731

    def laplacian(v):
        along = lambda e: jvp(lambda a: jvp(f, (a,), (e,))[1], (v,), (e,))[1]  # noqa: E731
        return vmap(along)(torch.eye(3, dtype=v.dtype)).sum()

    return vmap(laplacian)(points), vmap(lambda v: torch.trace(hessian(f)(v)))(points)


@program(tensors((6, 2), (6, 1), (6, 2), (6, 1)))
def meta_learning_with_inner_steps(xs, ys, xq, yq):
    def loss(p, x, y):
        return F.mse_loss(functional_call(FIELD, p, (x,)), y)

    def adapted(p, x, y):
        for _ in range(3):
            g = grad(loss)(p, x, y)
            p = {k: v - 0.05 * g[k] for k, v in p.items()}
        return p

    return grad_and_value(lambda p: loss(adapted(p, xs, ys), xq, yq))(detached(FIELD))


@program(tensors((4, 6, 2), (4, 6, 1)))
def meta_learning_over_tasks(x, y):
    def loss(p, a, b):
        return F.mse_loss(functional_call(FIELD, p, (a,)), b)

    def task(p, a, b):
        g = grad(loss)(p, a, b)
        return loss({k: v - 0.05 * g[k] for k, v in p.items()}, a, b)

    return grad(lambda p: vmap(task, (None, 0, 0))(p, x, y).mean())(detached(FIELD))


@program(tensors((3, 2), (4, 2)))
def neural_tangent_kernel(a, b):
    def f(p, x):
        return functional_call(FIELD, p, (x[None],)).squeeze(0)

    jac_a = vmap(jacrev(f), (None, 0))(detached(FIELD), a)
    jac_b = vmap(jacrev(f), (None, 0))(detached(FIELD), b)
    parts = [torch.einsum("Naf,Mbf->NMab", jac_a[k].flatten(2), jac_b[k].flatten(2)) for k in jac_a]
    return torch.stack(parts).sum(0)


@program(tensors((3, 2), (4, 2)))
def neural_tangent_kernel_by_products(a, b):
    p = detached(FIELD)

    def entry(x1, x2):
        f1 = lambda q: functional_call(FIELD, q, (x1,))  # noqa: E731
        f2 = lambda q: functional_call(FIELD, q, (x2,))  # noqa: E731
        out, pull = vjp(f1, p)
        push = lambda v: jvp(f2, (p,), pull(v))[1]  # noqa: E731
        return vmap(push)(torch.eye(out.numel(), dtype=out.dtype))

    return vmap(lambda x1: vmap(lambda x2: entry(x1, x2))(b))(a)


MEMBERS = [net(seed=i) for i in range(4)]


@program(lambda n: (*(stack_module_state([net(seed=n + i) for i in range(4)])), normal(n, 5, 3)))
def an_ensemble(parameters, buffers, x):
    parameters = {k: p.detach() for k, p in parameters.items()}

    def one(p, b, x):
        return functional_call(MEMBERS[0], (p, b), (x,))

    same = vmap(one, in_dims=(0, 0, None))(parameters, buffers, x)
    others = vmap(one)(parameters, buffers, x.expand(4, 5, 3) * torch.arange(1, 5).reshape(4, 1, 1))
    return same, others.softmax(-1).mean(0)


@program(lambda n: (*(stack_module_state([net(seed=n + i) for i in range(4)])), normal(n, 5, 3), labels(n, 5)))
def a_training_step_of_an_ensemble(parameters, buffers, x, y):
    parameters = {k: p.detach() for k, p in parameters.items()}

    def loss(p, b):
        return F.cross_entropy(functional_call(MEMBERS[0], (p, b), (x,)), y)

    g, value = vmap(grad_and_value(loss))(parameters, buffers)
    return value, {k: p - 0.1 * g[k] for k, p in parameters.items()}


@program(tensors((6,), (6,)))
def gauss_newton(x, y):
    residuals = lambda p: p[0] * (x * p[1]).sin() + p[2] - y  # noqa: E731
    p = torch.ones(3, dtype=x.dtype)
    for _ in range(3):
        j = jacfwd(residuals)(p)
        p = p - torch.linalg.solve(j.T @ j + torch.eye(3), j.T @ residuals(p))
    return p


@program(tensors((5, 3)))
def newton_steps(x):
    f = lambda v: (v.exp() + v.square()).sum()  # noqa: E731

    def step(v):
        return v - torch.linalg.solve(hessian(f)(v), grad(f)(v))

    return vmap(step)(x)


@program(tensors((4, 2)))
def hamiltonian_dynamics(state):
    energy = lambda s: s.square().sum() / 2 + s[0].cos()  # noqa: E731

    def flow(s):
        dq, dp = grad(energy)(s)
        return torch.stack([dp, -dq])

    for _ in range(3):
        state = state + 0.1 * vmap(flow)(state)
    return state


@program(tensors((5, 3)))
def scores_and_divergences(x):
    def score(v):
        return grad(lambda a: -(a.square().sum() + a.sin().sum()).log1p())(v)

    return vmap(lambda v: (score(v), torch.trace(jacfwd(score)(v))))(x)


@program(tensors((5, 3)))
def log_determinants_of_a_flow(x):
    def forward(v):
        return v + torch.tanh(v.roll(1)) * 0.3

    return vmap(lambda v: torch.linalg.slogdet(jacrev(forward)(v))[1])(x)


@program(tensors((4,), (4,)))
def implicit_derivative_by_conjugate_gradients(x, b):
    f = lambda v: (v**4).sum() + 2 * v.square().sum()  # noqa: E731
    product = lambda v: jvp(grad(f), (x,), (v,))[1]  # noqa: E731
    out, r = torch.zeros_like(b), b
    p = r
    for _ in range(4):
        q = product(p)
        alpha = r.dot(r) / p.dot(q)
        out, new = out + alpha * p, r - alpha * q
        p, r = new + new.dot(new) / r.dot(r) * p, new
    return out


class Solver:
    def __init__(self, scale):
        self.scale, self.calls = scale, 0

    def energy(self, a):
        self.calls += 1
        return (a * self.scale).cosh().sum()

    def step(self, a):
        return a - 0.1 * grad(self.energy)(a)


@program(tensors((4, 3), (4, 3)))
def an_object_with_transforms(x, v):
    solver = Solver(0.5)
    out = vmap(solver.step)(x) + vmap(solver.step)(v)
    return out, solver.calls


# ---- random numbers --------------------------------------------------------------------------------------------------


@program(tensors((4, 3)))
def random_numbers_of_a_batch(x):
    noise = lambda v: v + torch.randn(3, dtype=v.dtype)  # noqa: E731
    return vmap(noise, randomness="different")(x), vmap(noise, randomness="same")(x)


@program(tensors((4, 6)))
def dropout_in_a_batch(x):
    f = lambda v: F.dropout(v.sin(), 0.4).sum()  # noqa: E731
    different = vmap(grad(f), randomness="different")(x)
    return different, vmap(grad(f), randomness="same")(x), grad(lambda v: F.dropout(v, 0.3).sum())(x)


@program(tensors((4, 6)))
def draws_in_a_batch(x):
    def f(v):
        return torch.bernoulli(v.sigmoid()), torch.randint(0, 9, (2,)), torch.rand_like(v), v.clone().uniform_()

    return vmap(f, randomness="different")(x)


# ---- gradients that autograd records around the transforms -----------------------------------------------------------


def with_gradients(parameters: Any, loss: Tensor) -> Any:
    gradients = torch.autograd.grad(loss, list(parameters), allow_unused=True)
    return loss.detach(), [g for g in gradients if g is not None]


@program(tensors((7, 2)))
def backward_pass_through_a_physics_informed_loss(points):
    def u(z):
        return FIELD(z).squeeze(-1)

    slopes = vmap(grad(u))(points)
    curvature = vmap(lambda z: torch.trace(hessian(u)(z)))(points)
    return with_gradients(FIELD.parameters(), (slopes.square().sum(-1) - curvature).square().mean())


@program(tensors((6, 2), (6, 1), (6, 2), (6, 1)))
def backward_pass_through_inner_steps(xs, ys, xq, yq):
    def loss(p, x, y):
        return F.mse_loss(functional_call(FIELD, p, (x,)), y)

    p = dict(FIELD.named_parameters())
    for _ in range(2):
        g = grad(loss)(p, xs, ys)
        p = {k: v - 0.1 * g[k] for k, v in p.items()}
    return with_gradients(FIELD.parameters(), loss(p, xq, yq))


@program(tensors((6, 2), (6, 2)))
def backward_pass_through_a_hessian_vector_product(x, v):
    product = jvp(grad(lambda z: FIELD(z).sum()), (x,), (v,))[1]
    return with_gradients(FIELD.parameters(), product.square().sum())


@program(lambda n: (normal(n, 5).requires_grad_(),))
def an_argument_that_requires_a_gradient(x):
    return grad(lambda z: (z**3).sum())(x).sum(), vmap(lambda z: z * 2)(x), jvp(torch.sin, (x,), (x.detach(),))[1]


@program(lambda n: (normal(n, 4).requires_grad_(),))
def many_tangents_at_once(x):
    y = x.sin() * x.sum()
    (jacobian,) = torch.autograd.grad(y, x, torch.eye(4, dtype=x.dtype), is_grads_batched=True)
    return jacobian, y.detach()


@program(tensors((4,)))
def jacobians_of_autograd(x):
    f = lambda v: v.sin() * v.sum()  # noqa: E731
    together = torch.autograd.functional.jacobian(f, x, vectorize=True)
    return (
        together,
        torch.autograd.functional.jacobian(f, x),
        torch.autograd.functional.hessian(lambda v: f(v).sum(), x),
    )
