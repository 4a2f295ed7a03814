"""Backward passes inside compiled functions: whole training steps, torch.autograd.grad, leaves that the program makes.

Each program runs eagerly and compiled from equal states, and once in float64 for the number rule.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map

import vesta
from tests.numerics.wide_runs import SHAKES, shaking
from tests.programs.optimizer_steps import OPTIMIZERS, state_tensors
from vesta.number_rule import judge
from vesta.wide_runs import WIDE

OPTIONS = {"only_if_faster": False}


def widened(x: Any) -> Any:
    def wide(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        copied = t.detach().clone().to(WIDE.get(t.dtype, t.dtype))
        return copied.requires_grad_(t.requires_grad)

    return tree_map(wide, x)


def as_plain(x: Any) -> Any:
    return tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, x)


def check(ours: Any, eager: Any, wide: Any, shaken: Callable[[int], Any] | None = None) -> None:
    """By the number rule; layouts are eager's. ``shaken``: the results of a float64 run whose numbers move."""
    mine, spec = tree_flatten(ours)
    theirs, their_spec = tree_flatten(eager)
    assert spec == their_spec

    @functools.cache
    def moved() -> list[list[Any]]:
        return [tree_flatten(shaken(seed))[0] for seed in range(SHAKES)] if shaken else []

    for i, (a, b, w) in enumerate(zip(mine, theirs, tree_flatten(wide)[0], strict=True)):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), i
        assert judge(a, b, w, lambda i=i: [run[i] for run in moved()]).holds, (i, a, b)


class Net(nn.Module):
    """Tied weights, a frozen parameter, one that is not used, a norm, a dropout that is off."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight
        self.frozen = nn.Linear(16, 16).requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x)
        h = h + self.down(F.gelu(self.up(self.norm(self.frozen(h)))))
        return self.head(h)


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def batch(seed: int, rows: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randint(0, 50, (rows, 7), generator=g), torch.randint(0, 50, (rows, 7), generator=g)


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def gradients(model: nn.Module) -> dict[str, torch.Tensor | None]:
    return {name: p.grad for name, p in model.named_parameters()}


Step = Callable[..., Any]


class Trio:
    """A model and an optimizer three times: eager, compiled, in float64. Each step starts from eager's numbers."""

    def __init__(
        self, step: Step, optimizer: Callable[..., torch.optim.Optimizer], model: Callable[[], nn.Module] = net
    ) -> None:
        self.step = step
        self.compiled = vesta.compile(step, options=OPTIONS)
        self.models = [model(), model(), model().double()]
        self.optimizers = [optimizer(m.parameters()) for m in self.models]

    def run(self, *args: Any) -> None:
        results = []
        before = copy.deepcopy((self.models[2], self.optimizers[2]))
        for i, call in enumerate((self.step, self.compiled, self.step)):
            model, opt = self.models[i], self.optimizers[i]
            given = widened(args) if i == 2 else args
            results.append(call(model, opt, *given))
        eager, ours, wide = (
            (r, gradients(m), dict(state_tensors(o)))
            for r, m, o in zip(results, self.models, self.optimizers, strict=True)
        )

        def shaken(seed: int) -> Any:
            """The results of a float64 step in which the result of each operator moves by an ulp of float32."""
            model, opt = copy.deepcopy(before)
            with shaking(torch.float32, seed):
                result = self.step(model, opt, *widened(args))
            return as_plain((result, gradients(model), dict(state_tensors(opt))))

        check(as_plain(ours), as_plain(eager), as_plain(wide), shaken)
        for i in (1, 2):
            eagers, others = (state_tensors(self.optimizers[k]) for k in (0, i))
            for (_, a), (_, b) in zip(eagers, others, strict=True):
                with torch.no_grad():
                    b.copy_(a)
            for a, b in zip(self.models[0].parameters(), self.models[i].parameters(), strict=True):
                if a.grad is not None and b.grad is not None:
                    b.grad.copy_(a.grad)

    def explanation(self) -> Any:
        return vesta.explain(self.compiled).explanation


def whole_step(model: nn.Module, opt: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    opt.zero_grad()
    loss = loss_of(model, x, y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss


def drops_gradients(model: nn.Module, opt: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = loss_of(model, x, y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.detach()


def accumulates(model: nn.Module, opt: torch.optim.Optimizer, *batches: torch.Tensor) -> float:
    opt.zero_grad(set_to_none=False)
    total = torch.zeros(())
    for x, y in zip(batches[::2], batches[1::2], strict=True):
        loss = loss_of(model, x, y) / (len(batches) // 2)
        loss.backward()
        total = total + loss.detach()
    opt.step()
    return total


@pytest.mark.parametrize("name", ["SGD-momentum", "AdamW", "Adagrad", "Adafactor"])
@pytest.mark.parametrize("step", [whole_step, drops_gradients])
def test_a_step_is_one_graph(step: Step, name: str) -> None:
    trio = Trio(step, OPTIMIZERS[name])
    for i in range(5):
        trio.run(*batch(i))
    explanation = trio.explanation()
    assert explanation.breaks == []
    assert explanation.fallbacks == []
    assert len(explanation.recompiles) <= 2  # there are no gradients and no states at first


def test_gradients_are_accumulated() -> None:
    trio = Trio(accumulates, OPTIMIZERS["AdamW"])
    for i in range(4):
        trio.run(*batch(i), *batch(10 + i), *batch(20 + i))
    assert trio.explanation().breaks == []


def test_no_aten_call_computes_elementwise() -> None:
    """Norms, activations and the optimizer of a step are kernels of ours, in both directions."""
    trio = Trio(drops_gradients, OPTIMIZERS["AdamW"])
    for i in range(3):
        trio.run(*batch(i))
    graphs = trio.explanation().graphs
    called = {c.op for g in graphs for c in g.compiled.externs}
    allowed = ("addmm", "mm", "bmm", "linear", "embedding", "convolution", "attention")
    assert called or any("aten::linear" in k.ops for g in graphs for k in g.compiled.kernels)
    assert not [op for op in called if not any(a in op for a in allowed)], called


def test_a_freed_history_is_an_error() -> None:
    def f(w: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss = (w * x).exp().sum()
        loss.backward()
        return loss, (w * 2).sum()

    w = torch.randn(3, requires_grad=True)
    compiled = vesta.compile(f, options=OPTIONS)
    for _ in range(2):
        loss, other = compiled(w, torch.ones(3))
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()
        w.grad = None
        other.backward()
        torch.testing.assert_close(w.grad, torch.full((3,), 2.0))
    assert vesta.explain(compiled).explanation.breaks == []


def test_a_kept_graph_can_be_used_again() -> None:
    def f(w: torch.Tensor) -> torch.Tensor:
        loss = (w**3).sum()
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
        return loss

    compiled = vesta.compile(f, options=OPTIONS)
    found = []
    for call in (f, compiled, compiled):
        w = torch.arange(4.0).requires_grad_()
        loss = call(w)
        loss.backward()
        found.append(w.grad)
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])
    assert vesta.explain(compiled).explanation.breaks == []


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {}


def program(inputs: Callable[[], tuple[Any, ...]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(f: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[f.__name__] = (f, inputs)
        return f

    return note


def two() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    return torch.randn(4, 5, generator=g, requires_grad=True), torch.randn(4, 5, generator=g, requires_grad=True)


@program(two)
def takes_gradients(x: torch.Tensor, y: torch.Tensor) -> Any:
    out = (x * y).tanh().sum()
    return torch.autograd.grad(out, (x, y))


@program(two)
def of_an_intermediate(x: torch.Tensor, y: torch.Tensor) -> Any:
    h = x.exp() * y
    out = (h * h).sum()
    (g,) = torch.autograd.grad(out, h)
    return g * 2


@program(two)
def unused_input(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.autograd.grad(x.sin().sum(), (x, y), allow_unused=True)


@program(two)
def zeros_for_unused(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.autograd.grad(x.sin().sum(), (x, y), materialize_grads=True)


@program(two)
def given_tangent(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.autograd.grad(x * y, x, grad_outputs=torch.ones(5).expand(4, 5))


@program(two)
def gradient_penalty(x: torch.Tensor, y: torch.Tensor) -> Any:
    score = (x * y).tanh().sum(1)
    (g,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    penalty = (g.norm(2, dim=1) - 1).pow(2).mean()
    (score.mean() + penalty).backward()
    return penalty.detach()


@program(two)
def second_derivative_is_left(x: torch.Tensor, y: torch.Tensor) -> Any:
    (g,) = torch.autograd.grad((x**3 * y).sum(), x, create_graph=True)
    return g.sum()


@program(two)
def leaf_inside(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = x.detach().clone().requires_grad_()
    (z * y.detach()).pow(2).sum().backward()
    return z.grad + 1


@program(two)
def descent_inside(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = torch.zeros(4, 5, requires_grad=True)
    for _ in range(3):
        loss = (z - y.detach()).pow(2).sum()
        (g,) = torch.autograd.grad(loss, z)
        z = (z - 0.1 * g).detach().requires_grad_()
    return z.detach()


@program(two)
def same_gradient_twice(x: torch.Tensor, y: torch.Tensor) -> Any:
    (x + y).sin().sum().backward()
    x.grad.mul_(2)
    return None


@program(two)
def expanded_gradient(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.sum().backward()
    x.grad.add_(y.detach())
    return None


@program(two)
def only_some_inputs(x: torch.Tensor, y: torch.Tensor) -> Any:
    (x * y).sum().backward(inputs=[x])
    return None


@program(two)
def assigned_gradient(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.grad = y.detach() * 2
    (x * y).sum().backward()
    return None


@program(two)
def two_losses(x: torch.Tensor, y: torch.Tensor) -> Any:
    h = x * y
    torch.autograd.backward([h.sum(), h.pow(2).sum()])
    return None


@program(two)
def no_grad_around(x: torch.Tensor, y: torch.Tensor) -> Any:
    loss = (x * y).sum()
    with torch.no_grad():
        loss.backward()
        x.sub_(x.grad, alpha=0.1)
        x.grad = None
    return loss.detach()


@program(lambda: (torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).t().requires_grad_(),))
def transposed_leaf(x: torch.Tensor) -> Any:
    (x * torch.arange(12.0).view(4, 3)).sum().backward()
    return None


@program(lambda: (torch.randn(0, 4, requires_grad=True),))
def empty(x: torch.Tensor) -> Any:
    x.exp().sum().backward()
    return None


@program(lambda: (torch.tensor(2.0, requires_grad=True),))
def number(x: torch.Tensor) -> Any:
    (x**3).backward()
    return x.grad * 2


@program(lambda: (torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0)).requires_grad_(),))
def complex_leaf(x: torch.Tensor) -> Any:
    (x * x.conj()).real.sum().backward()
    return None


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f, make = PROGRAMS[name]
    compiled = vesta.compile(f, options=OPTIONS)
    for _ in range(3):
        told = []
        for call in (f, compiled, f):
            inputs = make()
            if len(told) == 2:
                inputs = widened(inputs)
            result = call(*inputs)
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.backward()
            told.append(as_plain((result, inputs, [t.grad for t in inputs])))
        check(told[1], told[0], told[2])
    assert vesta.explain(compiled).explanation.breaks == []


def test_hooks_are_called() -> None:
    """A hook on a leaf that is registered after the compile: the pass runs eagerly and calls it."""

    def f(w: torch.Tensor) -> torch.Tensor:
        loss = (w * w).sum()
        loss.backward()
        return loss.detach()

    compiled = vesta.compile(f, options=OPTIONS)
    w = torch.ones(3, requires_grad=True)
    compiled(w)
    compiled(w)
    seen = []
    w.register_hook(lambda g: seen.append(g.clone()))
    w.grad = None
    compiled(w)
    assert len(seen) == 1
    torch.testing.assert_close(seen[0], torch.full((3,), 2.0))
    torch.testing.assert_close(w.grad, torch.full((3,), 2.0))


def test_an_input_with_a_history_passes_it_on() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        loss = x.exp().sum()
        loss.backward()
        return loss.detach()

    compiled = vesta.compile(f, options=OPTIONS)
    found = []
    for call in (f, compiled, compiled):
        leaf = torch.ones(3, requires_grad=True)
        call(leaf * 2)
        found.append(leaf.grad)
    assert found[1] is not None
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


def test_errors_are_eagers() -> None:
    def twice(w: torch.Tensor) -> None:
        loss = (w * w).sum()
        loss.backward()
        loss.backward()

    def no_gradient(w: torch.Tensor) -> None:
        (w.detach() * 2).sum().backward()

    def not_a_number(w: torch.Tensor) -> None:
        (w * 2).backward()

    for f in (twice, no_gradient, not_a_number):
        told = []
        for call in (f, vesta.compile(f, options=OPTIONS)):
            w = torch.ones(3, requires_grad=True)
            with pytest.raises(RuntimeError) as e:
                call(w)
            told.append((str(e.value), w.grad))
        assert told[0][0] == told[1][0]
        assert (told[0][1] is None) == (told[1][1] is None)


def test_an_exception_after_the_pass_leaves_the_gradients() -> None:
    def f(w: torch.Tensor, fail: bool) -> None:
        (w * w).sum().backward()
        if fail:
            raise ValueError("after the pass")

    compiled = vesta.compile(f, options=OPTIONS)
    for _ in range(2):
        w = torch.ones(3, requires_grad=True)
        with pytest.raises(ValueError, match="after the pass"):
            compiled(w, True)
        torch.testing.assert_close(w.grad, torch.full((3,), 2.0))


def test_models_alternate() -> None:
    """A GAN's step: each loss reaches both models, and one of them takes a step."""

    def step(g: nn.Module, d: nn.Module, og: Any, od: Any, z: torch.Tensor, real: torch.Tensor) -> Any:
        fake = g(z)
        od.zero_grad()
        dl = F.softplus(d(fake.detach())).mean() + F.softplus(-d(real)).mean()
        dl.backward()
        od.step()
        og.zero_grad()
        gl = F.softplus(-d(fake)).mean()
        gl.backward()
        og.step()
        return dl.detach(), gl.detach()

    def objects() -> tuple[Any, ...]:
        torch.manual_seed(0)
        g, d = (
            nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)),
            nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)),
        )
        return g, d, torch.optim.Adam(g.parameters(), 1e-2), torch.optim.Adam(d.parameters(), 1e-2)

    eager, ours = objects(), objects()
    compiled = vesta.compile(step, options=OPTIONS)
    for i in range(4):
        torch.manual_seed(i)
        z, real = torch.randn(5, 4), torch.randn(5, 8)
        torch.testing.assert_close(compiled(*ours, z, real), step(*eager, z, real))
    for a, b in zip(ours[:2], eager[:2], strict=True):
        torch.testing.assert_close(a.state_dict(), b.state_dict())
    assert vesta.explain(compiled).explanation.breaks == []


def test_a_model_is_copied_before_training() -> None:
    """The parameters are looked up in each call: another model of the class has steps of its own."""
    compiled = vesta.compile(whole_step, options=OPTIONS)
    for seed in (1, 2):
        model, other = net(), net()
        opts = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, other)]
        for i in range(3):
            a = compiled(model, opts[0], *batch(seed + i))
            b = whole_step(other, opts[1], *batch(seed + i))
            torch.testing.assert_close(a, b)
        torch.testing.assert_close(model.state_dict(), copy.deepcopy(other).state_dict())
