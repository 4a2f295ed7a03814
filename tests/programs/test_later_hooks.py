"""Hooks on gradients, and gradients that tensors retain, where the backward pass runs after the compiled function: both
halves stay compiled, and autograd calls the hooks between parts of the backward half."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.programs.test_backward_hooks import OPTIONS, Program, check, gradients, net


def hook_for_a_later_pass() -> Program:
    model = net()
    seen: list[torch.Tensor] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        h = model[0](x)
        h.register_hook(lambda g: seen.append(g.clone()))
        h.register_hook(lambda g: g * 3)
        loss: torch.Tensor = model[2](model[1](h)).square().mean()
        return loss

    return Program(step, lambda: [gradients(model), seen], lambda loss: loss.backward())


def gradient_retained_for_a_later_pass() -> Program:
    model = net()

    def step(x: torch.Tensor) -> Any:
        h = model[0](x)
        h.retain_grad()
        return h, model[2](model[1](h)).square().mean()

    return Program(step, lambda: gradients(model), lambda r: (r[1].backward(), r[0].grad, r[0].retains_grad))


def retained_and_kept() -> Program:
    """A pass of the step and a later one."""
    model = net()

    def step(x: torch.Tensor) -> Any:
        h = model[0](x)
        h.retain_grad()
        loss = model[2](model[1](h)).square().mean()
        loss.backward(retain_graph=True)
        return h, loss

    return Program(step, lambda: gradients(model), lambda r: (r[0].grad, r[1].backward(), r[0].grad))


def with_later_pass(use: Callable[[torch.Tensor, list[Any]], torch.Tensor]) -> Program:
    """``use`` makes a loss of the hidden tensor; a list has what hooks saw. The backward pass runs after the step."""
    model = net()
    seen: list[Any] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad()
        return use(model[0](x), seen)

    return Program(step, lambda: [gradients(model), seen], lambda loss: loss.backward())


def hooks_along_a_residual_stream() -> Program:
    """The stream passes by the tensors with hooks, so parts of the pass meet in each of its tensors."""

    def use(h: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        for i in range(4):
            f = torch.sin(h) * 2
            f.register_hook(lambda g, i=i: seen.append((i, g.clone())))
            f.register_hook(lambda g: g * 2)
            h = h + f
        return h.square().mean()

    return with_later_pass(use)


def hooks_that_follow_each_other() -> Program:
    def use(h: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        for i in range(3):
            h = h.tanh()
            h.register_hook(lambda g, i=i: seen.append(i) or g.clamp(-0.01, 0.01))
        return h.sum()

    return with_later_pass(use)


def hooks_on_branches() -> Program:
    def use(h: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        shared = h.exp()
        left, right = shared.sin(), shared.cos() * h
        left.register_hook(lambda g: seen.append("left") or g * 2)
        right.register_hook(lambda g: seen.append("right") or g * 3)
        return (left * right + shared).sum()

    return with_later_pass(use)


def hooks_on_views() -> Program:
    def use(h: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        turned = h.view(5, 4, 4).transpose(1, 2)
        turned.register_hook(lambda g: g * 3)
        first, second = turned.chunk(2, 1)
        second.register_hook(lambda g: seen.append(g.clone()) or g * 5)
        return (first * second.exp()).sum()

    return with_later_pass(use)


def hook_on_a_view_of_an_argument() -> Program:
    model = net()

    def step(x: torch.Tensor) -> torch.Tensor:
        turned = model[0].weight.t()
        turned.register_hook(lambda g: g * 3)
        return (x @ turned).square().sum()

    return Program(step, lambda: gradients(model), lambda loss: loss.backward())


def hook_that_only_one_loss_calls() -> Program:
    """Both losses share what is saved before the tensor with the hook."""
    model = net()
    seen: list[str] = []

    def step(x: torch.Tensor) -> Any:
        shared = model[0](x).exp()
        h = shared.sin()
        h.register_hook(lambda g: seen.append("h") or g * 3)
        return h.square().sum(), (shared * shared).sum()

    def after(losses: Any) -> list[int]:
        counts = []
        for loss in reversed(losses):
            loss.backward(retain_graph=True)
            counts.append(len(seen))
        return counts

    return Program(step, lambda: gradients(model), after)


def hook_on_a_result() -> Program:
    """Views of the result that are made later, and passes that begin at it, call the hook, too."""
    model = net()

    def step(x: torch.Tensor) -> Any:
        h = model[0](x).tanh()
        h.register_hook(lambda g: g * 3)
        h.retain_grad()
        return h, h[:, :3], model[2](h).square().sum()

    def after(results: Any) -> Any:
        h, view, loss = results
        (loss + view.sum()).backward(retain_graph=True)
        first = h.grad.clone()
        h.register_hook(lambda g: g * 2)
        h.sin().sum().backward()
        return first, h.grad

    return Program(step, lambda: gradients(model), after)


def hook_with_symbolic_sizes() -> Program:
    model = net()
    seen: list[Any] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x[: 2 + len(seen) % 3]
        h = torch.sin(model[0](x))
        h.register_hook(lambda g: seen.append(g.shape) or g * 2)
        return (h + model[0](x)).square().mean()

    return Program(step, lambda: [gradients(model), seen], lambda loss: loss.backward())


def hook_that_is_removed() -> Program:
    def use(h: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        handle = h.register_hook(lambda g: seen.append("removed"))
        h.register_hook(lambda g: g * 2)
        handle.remove()
        k = h.sin()
        k.register_hook(lambda g: g * 100).remove()
        return k.sum()

    return with_later_pass(use)


def hook_that_holds_a_tensor() -> Program:
    def use(h: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        mask = h.detach() > 0
        h.register_hook(lambda g: g * mask)
        return h.exp().sum()

    return with_later_pass(use)


def hook_under_no_grad_and_again() -> Program:
    """The step runs with gradients, and then without."""
    model = net()

    def step(x: torch.Tensor) -> torch.Tensor:
        h = model[0](x)
        if h.requires_grad:
            h.register_hook(lambda g: g * 3)
        return model[2](h).square().mean()

    def after(loss: torch.Tensor) -> Any:
        loss.backward()
        with torch.no_grad():
            return loss.detach()

    return Program(step, lambda: gradients(model), after)


def reversed_gradient() -> Program:
    """Domain-adversarial training: the features of one head get the gradient with another sign."""
    model, other = net(), nn.Linear(16, 2)

    def step(x: torch.Tensor) -> Any:
        features = model[1](model[0](x))
        reverse = features * 1
        reverse.register_hook(lambda g: -0.5 * g)
        return model[2](features).square().mean() + other(reverse).sin().mean()

    torch.manual_seed(1)
    nn.init.normal_(other.weight)
    nn.init.zeros_(other.bias)
    return Program(step, lambda: [gradients(model), gradients(other)], lambda loss: loss.backward())


def saliency() -> Program:
    """Grad-CAM: a hook of the forward pass puts a hook on the activations."""
    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    kept: dict[str, Any] = {}

    def keep(module: nn.Module, given: Any, result: torch.Tensor) -> None:
        kept["activation"] = result
        result.register_hook(lambda g: kept.update(gradient=g))

    model[0].register_forward_hook(keep)

    def after(scores: torch.Tensor) -> Any:
        model.zero_grad()
        scores[:, 1].sum().backward()
        weights = kept["gradient"].mean(2, keepdim=True)
        return (weights * kept["activation"]).sum(1).relu()

    return Program(lambda x: model(x[:, None]), lambda: gradients(model), after)


def hooks_of_a_module_in_a_later_pass() -> Program:
    model = net()
    model[2].register_full_backward_hook(lambda module, ins, outs: (ins[0] * 2,))
    return Program(model, lambda: gradients(model), lambda result: result.sum().backward())


# ---- what is a graph break


def written_after_the_hook_of_a_later_pass() -> Program:
    def use(h: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        h.register_hook(lambda g: g * 3)
        h.mul_(2)
        return h.exp().sum()

    return with_later_pass(use)


def view_past_a_hook() -> Program:
    """The program returns a view of a view that has a hook."""
    model = net()

    def step(x: torch.Tensor) -> Any:
        base = model[0](x).sin()
        h = base[:, :8]
        h.register_hook(lambda g: g * 3)
        return base, h[:2]

    def after(results: Any) -> None:
        (results[1].exp().sum() + results[0].sum()).backward()

    return Program(step, lambda: gradients(model), after)


LATER = (
    hook_for_a_later_pass,
    gradient_retained_for_a_later_pass,
    retained_and_kept,
    hooks_along_a_residual_stream,
    hooks_that_follow_each_other,
    hooks_on_branches,
    hooks_on_views,
    hook_on_a_view_of_an_argument,
    hook_that_only_one_loss_calls,
    hook_on_a_result,
    hook_with_symbolic_sizes,
    hook_that_is_removed,
    hook_that_holds_a_tensor,
    hook_under_no_grad_and_again,
    reversed_gradient,
    saliency,
    hooks_of_a_module_in_a_later_pass,
)
BREAKS = (written_after_the_hook_of_a_later_pass, view_past_a_hook)


@pytest.mark.parametrize("make", LATER)
def test_in_one_graph(make: Callable[[], Program]) -> None:
    explanation = check(make, fullgraph=True)
    assert any(g.hits for g in explanation.graphs)


@pytest.mark.parametrize("make", BREAKS)
def test_with_breaks(make: Callable[[], Program]) -> None:
    explanation = check(make)
    assert any("autograd calls the hook after the compiled function" in b.reason for b in explanation.breaks)
    assert any(g.hits for g in explanation.graphs)


def test_nothing_outlives_a_call() -> None:
    """The node of a tensor with hooks saves the tensor itself, and the tensor's history leads to the node."""

    def step(x: torch.Tensor) -> Any:
        h = (x @ weight).exp()
        h.register_hook(lambda g: g * 3)
        return h, h.square().sum()

    weight = torch.ones(8, 8, requires_grad=True)
    compiled = vesta.compile(step, options=OPTIONS, fullgraph=True)
    gc.collect()
    gc.disable()
    try:
        for passes in (0, 1):
            h, loss = compiled(torch.ones(5, 8))
            for _ in range(passes):
                loss.backward()
            gone = weakref.ref(h)
            del h, loss
            assert gone() is None
    finally:
        gc.enable()
