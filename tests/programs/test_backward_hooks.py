"""Hooks on gradients, and gradients that intermediate tensors retain.

Each program runs several times eagerly and compiled from equal states. Hooks of a pass inside of the compiled function
are part of its graph (``INSIDE``); what no graph can have is a graph break (``BREAKS``). Hooks that autograd calls
after the compiled function are in ``test_later_hooks.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map

import vesta

OPTIONS = {"only_if_faster": False}


@dataclass
class Program:
    step: Callable[[torch.Tensor], Any]
    state: Callable[[], Any] = field(default=list)  # what a step leaves behind
    after: Callable[[Any], Any] = field(default=lambda result: None)  # runs after each step, with its result


def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def gradients(model: nn.Module) -> list[Any]:
    return [p.grad for p in model.parameters()]


def weights(model: nn.Module) -> list[Any]:
    return [p.detach() for p in model.parameters()] + gradients(model)


def with_hidden(use: Callable[[torch.Tensor], Any], extra: Callable[[], Any] = list) -> Program:
    """A step that calls ``use`` with the hidden tensor before its backward pass."""
    model = net()

    def step(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad()
        hidden = model[0](x)
        use(hidden)
        loss: torch.Tensor = model[2](model[1](hidden)).square().mean()
        loss.backward()
        return loss

    return Program(step, lambda: [gradients(model), extra()])


def with_leaves(
    model: nn.Module, extra: Callable[[], Any] = list, after: Callable[[Any], Any] = lambda result: None
) -> Program:
    def step(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad()
        loss: torch.Tensor = model(x).square().mean()
        loss.backward()
        return loss

    return Program(step, lambda: [gradients(model), extra()], after)


def scaled() -> Program:
    return with_hidden(lambda h: h.register_hook(lambda g: g * 3) and None)


def effects() -> Program:
    seen: list[Any] = []
    return with_hidden(
        lambda h: h.register_hook(lambda g: seen.append((torch.is_grad_enabled(), g.norm()))), lambda: seen
    )


def several() -> Program:
    def use(h: torch.Tensor) -> None:
        h.register_hook(lambda g: g.clamp(-0.01, 0.01))
        h.register_hook(lambda g: None)
        h.register_hook(hook=lambda g: g + 1)
        h.register_hook(lambda g: g * 100).remove()

    return with_hidden(use)


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, g: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return g * 2

    def method(self, g: torch.Tensor) -> torch.Tensor:
        self.calls += 10
        return g + 1


def callables() -> Program:
    counting = Counting()
    compiled = vesta.compile(lambda g: g * 2 + 1)

    def use(h: torch.Tensor) -> None:
        h.register_hook(counting)
        h.register_hook(counting.method)
        h.register_hook(functools.partial(lambda k, g: g * k, 2.0))
        h.register_hook(torch.neg)
        h.register_hook(compiled)

    return with_hidden(use, lambda: counting.calls)


def in_place() -> Program:
    model = net()

    def step(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad()
        a = model[0](x)
        b = a + a * 2
        c = a.exp()
        b.register_hook(lambda g: g.mul_(2))
        c.register_hook(lambda g: g.clamp_(-0.01, 0.01))
        loss: torch.Tensor = model[2](model[1](b + c)).square().mean()
        loss.backward()
        return loss

    return Program(step, lambda: gradients(model))


def written_after_the_hook() -> Program:
    """A hook stays at the history that the tensor had; a retained gradient is that of what the tensor is now."""

    def use(h: torch.Tensor) -> None:
        h.register_hook(lambda g: g * 3)
        h.retain_grad()
        h.mul_(2)
        h.register_hook(lambda g: g + 1)

    return with_hidden(use)


def gradient_mode_in_a_hook() -> Program:
    weight = torch.ones(3, requires_grad=True)

    def hook(g: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            (inner,) = torch.autograd.grad((weight * weight).sum(), weight)
        return g * inner.mean()

    return with_hidden(lambda h: h.register_hook(hook) and None)


def a_tensor_of_the_program() -> Program:
    given = torch.full((5, 16), 0.01)
    return with_hidden(lambda h: h.register_hook(lambda g: given) and None, lambda: given)


def retained() -> Program:
    model = net()

    def step(x: torch.Tensor) -> Any:
        model.zero_grad()
        h = model[0](x)
        view = h[:, :3]
        h.retain_grad()
        view.retain_grad()
        view.retain_grad()
        loss = model[2](model[1](h)).square().mean() + view.sin().sum()
        loss.backward(retain_graph=True)
        first = h.grad.clone()
        loss.backward()
        second, h.grad = h.grad, None
        return first, second, h.grad, view.grad

    return Program(step, lambda: gradients(model))


def retained_and_returned() -> Program:
    model = net()

    def step(x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(model[0](x))
        h.retain_grad()
        model[2](h).square().mean().backward()
        model.zero_grad()
        return h

    return Program(step, after=lambda h: (h.grad, h.retains_grad, h.requires_grad))


def captured() -> Program:
    """torch.autograd.grad gives what arrives before the hooks if the pass goes on from there, else what they give."""
    model = net()
    model[0].weight.register_hook(lambda g: g * 5)

    def step(x: torch.Tensor) -> Any:
        h = model[0](x)
        h.register_hook(lambda g: g * 3)
        k = model[1](h)
        k.register_hook(lambda g: g + 1)
        loss = model[2](k).square().mean()
        all_three = torch.autograd.grad(loss, [h, k, model[0].weight], retain_graph=True)
        return all_three + torch.autograd.grad(loss, h)

    return Program(step)


def chosen_inputs() -> Program:
    model = net()
    seen: list[str] = []
    for i in (0, 2):
        model[i].weight.register_hook(lambda g, i=i: seen.append(f"weight {i}"))

    def step(x: torch.Tensor) -> None:
        model.zero_grad()
        h = model[0](x)
        h.register_hook(lambda g: seen.append("h"))
        loss = model[2](model[1](h)).square().mean()
        loss.backward(inputs=[model[2].weight], retain_graph=True)
        loss.backward(inputs=[model[0].bias])

    return Program(step, lambda: [gradients(model), seen])


class FirstAlone(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, None


def no_gradient() -> Program:
    """Hooks are called with None."""
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    seen: list[bool] = []
    b.register_hook(lambda g: seen.append(g is None))

    def step(x: torch.Tensor) -> torch.Tensor | None:
        a.grad = None
        c = b * 2
        c.register_hook(lambda g: seen.append(g is None))
        FirstAlone.apply(a * 1, c).sum().backward()
        return a.grad

    return Program(step, lambda: [seen, b.grad])


def penalty() -> Program:
    model = net()

    def step(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad()
        x = x.detach().requires_grad_()
        h = model[0](x)
        h.register_hook(lambda g: g * g)
        y: torch.Tensor = model[2](model[1](h).sigmoid()).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (y + g.square().sum()).backward()
        return y

    return Program(step, lambda: gradients(model))


def leaf_that_the_step_makes() -> Program:
    model = net()

    def after_accumulation(p: torch.Tensor) -> None:
        assert p.grad is not None
        p.grad.mul_(3)

    def step(x: torch.Tensor) -> Any:
        w = torch.full((8,), 2.0, requires_grad=True)
        w.register_hook(lambda g: g * 7)
        w.register_post_accumulate_grad_hook(after_accumulation)
        w.retain_grad()
        model(x * w).sum().backward()
        model.zero_grad()
        gradient, w.grad = w.grad, None
        return gradient

    return Program(step)


def hook_on_a_leaf() -> Program:
    model, count = net(), {"calls": 0}

    def hook(g: torch.Tensor) -> torch.Tensor:
        count["calls"] += 1
        return g * 5

    model[0].weight.register_hook(hook)
    for p in model.parameters():
        p.register_hook(lambda g: g.clamp_(-0.01, 0.01))
    return with_leaves(model, lambda: dict(count))


def hook_that_reads_what_changes() -> Program:
    model, factor = net(), {"factor": 1.0}
    model[0].weight.register_hook(lambda g: g * factor["factor"])
    return with_leaves(model, after=lambda result: factor.update(factor=factor["factor"] + 1))


def hook_that_comes_and_goes() -> Program:
    model: Any = net()
    handles: list[Any] = []

    def after(result: Any) -> None:
        if handles:
            handles.pop().remove()
        else:
            handles.append(model[0].weight.register_hook(lambda g: g * 5))

    return with_leaves(model, after=after)


def optimizer_in_the_hook(make: Callable[[Any], torch.optim.Optimizer]) -> Program:
    model = net()
    optimizers = {p: make([p]) for p in model.parameters()}

    def hook(p: torch.Tensor) -> None:
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(x).square().mean()
        loss.backward()
        return loss.detach()

    return Program(step, lambda: weights(model))


def sgd_in_the_hook() -> Program:
    return optimizer_in_the_hook(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))


def adamw_in_the_hook() -> Program:
    return optimizer_in_the_hook(lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False))


def accumulation_in_the_hook() -> Program:
    model = net()
    buffers = {p: torch.zeros_like(p) for p in model.parameters()}

    def hook(p: torch.Tensor) -> None:
        buffers[p].add_(p.grad)
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)

    def step(x: torch.Tensor) -> None:
        model(x).square().mean().backward()
        model(x + 1).square().mean().backward()

    return Program(step, lambda: [weights(model), list(buffers.values())])


# ---- what no graph can have


def handles_that_stay() -> Program:
    handles: list[Any] = []
    return with_hidden(lambda h: handles.append(h.register_hook(lambda g: g * 3)), lambda: len(handles))


def break_before_the_pass() -> Program:
    def use(h: torch.Tensor) -> None:
        h.register_hook(lambda g: g * 3)
        print(end="")

    return with_hidden(use)


def break_in_a_hook() -> Program:
    def hook(g: torch.Tensor) -> torch.Tensor:
        print(end="")
        return g * 3

    return with_hidden(lambda h: h.register_hook(hook) and None)


def registered_on_a_leaf_inside() -> Program:
    model = net()

    def step(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad()
        handle = model[0].weight.register_hook(lambda g: g * 3)
        loss: torch.Tensor = model(x).square().mean()
        loss.backward()
        handle.remove()
        return loss

    return Program(step, lambda: [gradients(model), len(model[0].weight._backward_hooks)])


def hook_that_raises() -> Program:
    model = net()

    def hook(g: torch.Tensor) -> None:
        raise ValueError("from the hook")

    def step(x: torch.Tensor) -> str | None:
        h = model[0](x)
        h.register_hook(hook)
        loss = model[2](model[1](h)).square().mean()
        try:
            loss.backward()
        except ValueError as error:
            return str(error)
        return None

    return Program(step)


def hook_with_another_result() -> Program:
    model = net()

    def step(x: torch.Tensor) -> list[str]:
        said = []
        for change in (lambda g: g.sum(), lambda g: g.double(), lambda g: 3):
            h = model[0](x)
            h.register_hook(change)
            try:
                model[2](model[1](h)).square().mean().backward()
            except (RuntimeError, TypeError) as error:
                said.append(str(error)[:20])
        return said

    return Program(step)


def hook_on_the_node_that_accumulates() -> Program:
    """It is registered after the first compile; DistributedDataParallel's are such hooks."""
    model = net()
    model[0].weight.register_hook(lambda g: g * 2)
    seen: list[int] = []
    nodes: list[Any] = []

    def after(result: Any) -> None:
        if not nodes:
            weight = model[0].weight
            nodes.append(weight.view_as(weight).grad_fn.next_functions[0][0])
            nodes[0].register_hook(lambda *gradients: seen.append(1))

    return with_leaves(model, lambda: list(seen), after)


def hooks_of_a_module() -> Program:
    model = net()
    seen: list[Any] = []
    model[2].register_full_backward_hook(lambda module, ins, outs: (ins[0] * 2,))
    model[2].register_full_backward_pre_hook(lambda module, outs: (outs[0] * 3,))
    model[1].register_full_backward_hook(lambda module, ins, outs: seen.append(outs[0].sum()))
    return with_leaves(model, lambda: seen)


INSIDE = (
    scaled,
    effects,
    several,
    callables,
    in_place,
    written_after_the_hook,
    gradient_mode_in_a_hook,
    a_tensor_of_the_program,
    retained,
    retained_and_returned,
    captured,
    chosen_inputs,
    no_gradient,
    penalty,
    leaf_that_the_step_makes,
    hook_on_a_leaf,
    hook_that_reads_what_changes,
    hook_that_comes_and_goes,
    sgd_in_the_hook,
    adamw_in_the_hook,
    accumulation_in_the_hook,
    hooks_of_a_module,
)
BREAKS = (
    handles_that_stay,
    break_before_the_pass,
    break_in_a_hook,
    registered_on_a_leaf_inside,
    hook_that_raises,
    hook_with_another_result,
    hook_on_the_node_that_accumulates,
)


def plain(x: Any) -> Any:
    return tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, x)


def outcomes(program: Program, call: Callable[[torch.Tensor], Any]) -> list[Any]:
    found = []
    for turn in range(4):
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(turn))
        result = call(x)
        found.append(plain([result, program.state(), program.after(result)]))
    return found


def check(make: Callable[[], Program], **settings: Any) -> Any:
    eager = make()
    expected, spec = tree_flatten(outcomes(eager, eager.step))
    ours = make()
    compiled = vesta.compile(ours.step, options=OPTIONS, **settings)
    found, our_spec = tree_flatten(outcomes(ours, compiled))
    assert our_spec == spec
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b)
        else:
            assert a == b
    return vesta.explain(compiled).explanation


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("make", INSIDE)
def test_in_one_graph(make: Callable[[], Program]) -> None:
    explanation = check(make, fullgraph=True)
    assert any(g.hits for g in explanation.graphs)


@pytest.mark.parametrize("make", BREAKS)
def test_with_breaks(make: Callable[[], Program]) -> None:
    explanation = check(make)
    assert explanation.breaks
    assert any(g.hits for g in explanation.graphs)
