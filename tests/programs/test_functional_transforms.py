"""torch.func inside of a compiled function, and around one.

Each program of transform_programs.py is one graph and gives eager's numbers, in three calls with other tensors. Breaks
and errors leave PyTorch's state as it was.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import vesta
from tests.programs.transform_programs import FIELD, PROGRAMS, net, normal, with_gradients

OPTIONS = {"only_if_faster": False, "deadline_ms": -1, "recompile_share": -1.0}


def pushed(f: Callable[..., Any], x: torch.Tensor) -> Any:
    return jvp(f, (x,), (torch.full_like(x, 0.5),))


W = torch.tensor([2.0, -1.0, 0.0, 3.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pushed(lambda x: W * x.log(), x),
        lambda x: pushed(lambda x: W / x, x),
        lambda x: pushed(grad(lambda x: (x * x.log()).sum()), x),
        lambda x: pushed(grad(lambda x: torch.special.entr(x).sum()), x),
        lambda x: vmap(lambda x: pushed(lambda x: x.exp() * W[0] * x.log(), x))(x),
        lambda x: jacfwd(lambda x: W * x.rsqrt())(x),
        hessian(lambda x: (x * x.log()).sum()),
    ],
)
def test_no_tangent_times_infinity_is_zero(f: Callable[..., Any]) -> None:
    x = torch.tensor([0.0, -1.0, float("inf"), float("nan")])
    compiled = vesta.compile(f, options=OPTIONS)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), f(x), equal_nan=True)
    assert len(vesta.explain(compiled).explanation.graphs) == 1


def equal(got: Any, want: Any) -> None:
    got_leaves, got_tree = pytree.tree_flatten(got)
    want_leaves, want_tree = pytree.tree_flatten(want)
    assert got_tree == want_tree
    for g, w in zip(got_leaves, want_leaves, strict=True):
        if isinstance(w, torch.Tensor):
            assert g.requires_grad == w.requires_grad
            torch.testing.assert_close(g.detach(), w.detach())
        else:
            assert g == w


def in_one_graph(f: Callable[..., Any]) -> Any:
    return vesta.compile(f, fullgraph=True, options=OPTIONS)


def levels() -> int:
    return torch._C._functorch.get_dynamic_layer_stack_depth()


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_one_graph_with_eagers_numbers(name):
    f, make = PROGRAMS[name]
    compiled = in_one_graph(f)
    for n in range(3):
        args = make(n)
        torch.manual_seed(n)
        want = f(*copy.deepcopy(args))
        torch.manual_seed(n)
        equal(compiled(*args), want)
        assert levels() == 0
    report = vesta.explain(compiled)(*make(4))
    assert len(report.graphs) <= 2  # the second with symbolic sizes or numbers
    assert not report.breaks and not report.fallbacks


def test_programs_that_record_no_gradients_are_traced_without_them():
    compiled = in_one_graph(PROGRAMS["gradients_per_sample"][0])
    compiled(*PROGRAMS["gradients_per_sample"][1](0))
    (graph,) = vesta.explain(compiled)(*PROGRAMS["gradients_per_sample"][1](1)).graphs
    assert not graph.trains


def test_a_backward_pass_outside_of_the_compiled_function():
    def loss(x):
        u = lambda z: FIELD(z).squeeze(-1)  # noqa: E731
        return (vmap(grad(u))(x).square().sum(-1) - 1).square().mean()

    compiled = in_one_graph(loss)
    for n in range(3):
        x = normal(n, 6, 2)
        want = with_gradients(FIELD.parameters(), loss(x))
        equal(with_gradients(FIELD.parameters(), compiled(x)), want)
    # A penalty on the gradients of the compiled function.
    x = normal(9, 6, 2).requires_grad_()
    (want,) = torch.autograd.grad(loss(x), x, create_graph=True)
    (got,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    equal(
        with_gradients(FIELD.parameters(), got.square().sum()), with_gradients(FIELD.parameters(), want.square().sum())
    )


def test_training_steps_with_an_optimizer():
    def step_of(model):
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)

        def step(points):
            optimizer.zero_grad()
            du = vmap(jacrev(lambda z: model(z)))(points)
            loss = (du.square().sum((1, 2)) - 1).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    models = [net(2, 1, seed=3) for _ in range(2)]
    steps = [step_of(models[0]), in_one_graph(step_of(models[1]))]
    for n in range(5):
        losses = [step(normal(n, 6, 2)) for step in steps]
        equal(losses[1], losses[0])
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(b, a)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: vmap(grad(lambda v: v.sin().sum() * v.shape[0]))(x),
        lambda x: vmap(hessian(lambda v: FIELD(v).sum()))(x[:, :2]),
        lambda x: jacrev(lambda v: v.sin() * v.sum())(x[:, 0]),
    ],
    ids=["gradients", "hessians", "jacobian"],
)
def test_sizes_that_vary_are_symbols(f):
    compiled = in_one_graph(f)
    for n in (4, 5, 6, 9, 12):
        equal(compiled(normal(n, n, 3)), f(normal(n, n, 3)))
    assert len(vesta.explain(compiled)(normal(0, 7, 3)).recompiles) == 1


# ---- breaks and errors -----------------------------------------------------------------------------------------------


def state() -> Any:
    return (
        levels(),
        torch.is_grad_enabled(),
        torch._C._is_fwd_grad_enabled(),
        torch._C._functorch.get_inplace_requires_grad_allowed(),
        torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(),
        torch._functorch.eager_transforms.JVP_NESTING,
        torch.autograd.forward_ad._current_level,
    )


def still_sane() -> None:
    x = normal(3, 4)
    assert state() == (0, True, True, False, None, 0, -1)
    equal(in_one_graph(hessian_of_a_sine)(x), hessian_of_a_sine(x))
    with torch.autograd.forward_ad.dual_level():
        pass


def hessian_of_a_sine(x):
    return hessian(lambda v: v.sin().sum())(x)


def value_of(v):
    return v * float(torch.ones(3).sum())


BREAKS = {
    "gradient": lambda x: grad(lambda v: value_of(v).sin().sum())(x),
    "batch": lambda x: vmap(lambda v: value_of(v).sin())(x),
    "tangent": lambda x: jvp(lambda v: value_of(v).sin(), (x,), (x,)),
    "jacobian": lambda x: jacfwd(lambda v: value_of(v).sin())(x),
    "nested": lambda x: vmap(grad(lambda v: value_of(v).sin()))(x),
    "pullback": lambda x: vjp(lambda v: value_of(v).sin(), x)[1](x),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_inside_of_a_transform(name):
    def f(x):
        return BREAKS[name](x.cos() + 1), x.exp()

    compiled = vesta.compile(f, options=OPTIONS)
    for n in range(3):
        equal(compiled(normal(n, 4)), f(normal(n, 4)))
        still_sane()
    report = vesta.explain(compiled)(normal(4, 4))
    assert not report.fallbacks
    # The whole call of the transform runs eager: there is no break inside of it. The function that vjp gives has
    # tensors of the transform, so its call is another one.
    if name == "pullback":
        assert {b.name for b in report.breaks} == {"tensor-value", "operator-not-traced"}
    else:
        assert {b.name for b in report.breaks} == {"tensor-value"}
        assert {Path(b.where.file) for b in report.breaks} == {Path(__file__)}


def test_the_function_that_vjp_gives_may_leave_the_compiled_function():
    def f(x):
        value, pull = vjp(lambda v: v.sin() * v, x * 2)
        return value.exp(), pull

    compiled = vesta.compile(f, options=OPTIONS)
    for n in range(3):
        x = normal(n, 4)
        (value, pull), (wanted_value, wanted_pull) = compiled(x), f(x)
        equal((value, pull(x)), (wanted_value, wanted_pull(x)))
        still_sane()
    assert "transformed-tensor" in {b.name for b in vesta.explain(compiled)(normal(4, 4)).breaks}


def test_a_tensor_that_escapes_a_transform():
    kept = []

    def f(x):
        def square(v):
            kept.append(v)
            return (v * v).sum()

        return grad(square)(x)

    compiled = vesta.compile(f, options=OPTIONS)
    for n in range(3):
        kept.clear()
        x = normal(n, 4)
        equal(compiled(x), 2 * x)
        assert len(kept) == 1 and torch._C._functorch.is_gradtrackingtensor(kept[0])
        equal(kept[0] + 1, x + 1)
        equal(in_one_graph(lambda y: y * 2)(x), x * 2)
        equal(vesta.compile(lambda y: kept[0] * y, options=OPTIONS)(x), x * x)
    still_sane()


class Refusal(Exception):
    pass


def refuses(v):
    raise Refusal


ERRORS = {
    "not a scalar": lambda x: grad(lambda v: v.sin())(x),
    "not a tensor": lambda x: grad(lambda v: 1)(x),
    "an integer": lambda x: grad(lambda v: v.sum())(torch.arange(3)),
    "an index": lambda x: grad(lambda v: v.sum(), argnums=3)(x),
    "randomness": lambda x: vmap(lambda v: v + torch.randn(1))(x),
    "batch sizes": lambda x: vmap(torch.add)(x, torch.ones(7)),
    "no batch": lambda x: vmap(lambda v: v, in_dims=None)(x),
    "a branch": lambda x: vmap(lambda v: v if v > 0 else -v)(x),
    "a value": lambda x: vmap(lambda v: v.item())(x),
    "a leaf": lambda x: grad(lambda v: v.clone().requires_grad_().sum())(x),
    "a backward pass": lambda x: vmap(lambda v: v.backward())(x),
    "a write": lambda x: vmap(lambda v: torch.zeros(1, dtype=v.dtype).add_(v))(x),
    "running statistics": lambda x: vmap(
        lambda v: F.batch_norm(v.expand(2, 1), torch.zeros(1).double(), torch.ones(1).double(), training=True)
    )(x),
    "sizes": lambda x: grad(lambda v: (v @ torch.ones(3, 3, dtype=v.dtype)).sum())(x),
    "tangents": lambda x: jvp(torch.sin, (x,), (x[:2],)),
    "structure": lambda x: vjp(torch.sin, x)[1]((x, x)),
    "freed": lambda x: [vjp(torch.sin, x)[1](x, retain_graph=False) for _ in range(2)] and vjp(lambda v: v, x)[1](1),
    "saved tensor hooks": lambda x: grad(lambda v: checkpoint(torch.sin, v, use_reentrant=False).sum())(x),
    "the program's own": lambda x: vmap(grad(refuses))(x),
    "in a tangent": lambda x: jvp(refuses, (x,), (x,)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_eagers(name):
    f = ERRORS[name]
    with pytest.raises(Exception) as wanted:
        f(normal(0, 4))
    compiled = vesta.compile(f, options=OPTIONS)
    for _ in range(2):
        with pytest.raises(type(wanted.value)) as found:
            compiled(normal(0, 4))
        assert str(found.value) == str(wanted.value)
        still_sane()


def test_an_error_that_the_program_handles():
    def f(x, bad):
        def g(v):
            if bad:
                raise Refusal
            return v.sin().sum()

        try:
            return vmap(grad(g))(x), "good"
        except Refusal:
            return x.cos(), "bad"

    compiled = in_one_graph(f)
    for n in range(6):
        equal(compiled(normal(n, 4, 2), n % 2 == 1), f(normal(n, 4, 2), n % 2 == 1))
        still_sane()


# ---- around a compiled function --------------------------------------------------------------------------------------


TRANSFORMS = {
    "vmap": vmap,
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "vjp": lambda f: lambda x: vjp(f, x)[1](f(x)),
    "jvp": lambda f: lambda x: jvp(f, (x,), (x,)),
    "jacrev": jacrev,
    "hessian": lambda f: hessian(lambda x: f(x).sum()),
    "vmap of grad": lambda f: vmap(grad(lambda x: f(x).sum())),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_of_a_compiled_function(name):
    for f in (lambda x: (x.sin() * x).cumsum(-1), FIELD, lambda x: vmap(grad(torch.sin))(x.flatten()).reshape(x.shape)):
        compiled = vesta.compile(f, options=OPTIONS)
        x = normal(0, 3, 2)
        equal(compiled(x), f(x))
        for _ in range(2):
            equal(TRANSFORMS[name](compiled)(x), TRANSFORMS[name](f)(x))
        reasons = {r.reason for r in vesta.explain(compiled)(x).fallbacks}
        assert reasons == {"a dispatch mode or a functional transform is active"}
        still_sane()


def test_forward_mode_around_a_compiled_function():
    f = lambda x: (x.sin() * x).sum(0)  # noqa: E731
    compiled = vesta.compile(f, options=OPTIONS)
    x, t = normal(0, 3, 2), normal(1, 3, 2)
    equal(compiled(x), f(x))
    with torch.autograd.forward_ad.dual_level():
        found = torch.autograd.forward_ad.unpack_dual(compiled(torch.autograd.forward_ad.make_dual(x, t)))
        wanted = torch.autograd.forward_ad.unpack_dual(f(torch.autograd.forward_ad.make_dual(x, t)))
        equal(tuple(found), tuple(wanted))
    (reason,) = {r.reason for r in vesta.explain(compiled)(x).fallbacks}
    assert reason == "forward-mode differentiation is active"


def test_forward_mode_inside_of_a_compiled_function():
    def f(x, t):
        with torch.autograd.forward_ad.dual_level():
            y = torch.autograd.forward_ad.make_dual(x, t).sin() * 2
            return tuple(torch.autograd.forward_ad.unpack_dual(y))

    compiled = vesta.compile(f, options=OPTIONS)
    for n in range(3):
        equal(compiled(normal(n, 3), normal(n + 1, 3)), f(normal(n, 3), normal(n + 1, 3)))
        still_sane()
    assert {b.name for b in vesta.explain(compiled)(normal(0, 3), normal(1, 3)).breaks} == {"forward-mode"}


FIRST = """
import torch, vesta

def f(x):
    loss = lambda v: torch.nn.functional.mse_loss(v.sin(), v)
    return torch.vmap(torch.func.grad(loss))(x), torch.func.jvp(torch.sin, (x,), (x,))

x = torch.randn(4, 3)
found = vesta.compile(f, fullgraph=True, options={"deadline_ms": -1})(x)
torch.testing.assert_close(found, f(x))
"""


def test_the_first_transform_of_a_process():
    """What eager does at the first call (it loads modules and registers kernels) happens in a compiled call as well."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
