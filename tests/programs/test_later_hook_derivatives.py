"""Derivatives of gradients, taken outside of a compiled function, where a tensor inside of it has hooks, or is a leaf
that the function made: eager's numbers, and hooks are called as often as eager calls them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import vesta

OPTIONS = {"only_if_faster": False}
Seen = list[Any]


def layers() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def note(seen: Seen, factor: float = 1) -> Callable[[torch.Tensor], torch.Tensor]:
    def hook(g: torch.Tensor) -> torch.Tensor:
        seen.append(g.detach().clone())
        return (g * factor).clamp(-2, 2)

    return hook


def on_a_hidden_tensor(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    h = model[0](x)
    h.register_hook(note(seen, 3))
    return model[2](model[1](h)).square().mean()


def on_what_its_node_has_saved(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    """The second derivative of exp and tanh reads their results, and passes the hooks of these."""
    h = model[0](x).tanh()
    h.register_hook(note(seen, 3))
    k = h.exp()
    k.register_hook(note(seen, 0.5))
    return model[2](k * h).square().mean()


def on_one_that_is_returned(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    h = model[0](x).tanh()
    h.register_hook(note(seen, 3))
    h.retain_grad()
    return (h * model[2](h).sum()).sum() / 9, h


def along_a_residual_stream(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    h = model[0](x)
    for _ in range(3):
        f = torch.sin(h) * 2
        f.register_hook(note(seen, 2))
        h = h + f
    return h.square().mean()


def on_branches(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    shared = model[0](x).exp()
    left, right = shared.sin(), shared.cos() * shared
    left.register_hook(note(seen, 2))
    right.register_hook(note(seen, 3))
    return (left * right + shared).mean()


def on_views(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    turned = model[0](x).view(5, 4, 2).transpose(1, 2)
    turned.register_hook(note(seen, 3))
    first, second = turned.chunk(2, 1)
    second.register_hook(note(seen, 5))
    return (first * second.exp()).mean()


def on_a_tensor_of_the_same_value(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    h = model[0](x)
    same = h[...]
    same.register_hook(note(seen, 3))
    return (h.sin() * same.exp() * same[...]).mean()


def beside_a_detached_tensor(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    h = model[0](x)
    h.register_hook(note(seen, 3))
    return (h.detach() * h.exp()).mean()


def after_a_write(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    h = model[0](x) * 1
    h[0] = h[1] * 2
    h.register_hook(note(seen, 3))
    return (h.sin() * h).mean()


def on_an_argument(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    h = x.sin()
    h.register_hook(note(seen, 3))
    return (h * h * x).mean()


def on_two_losses(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    h = model[0](x).tanh()
    h.register_hook(note(seen, 3))
    return h.square().mean() + model[2](h).exp().mean()


def that_are_gone(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    h = model[0](x).tanh()
    h.register_hook(note(seen, 3)).remove()
    h.exp().register_hook(note(seen, 3))
    return h.square().mean()


def of_a_module(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    def hook(module: nn.Module, ins: Any, outs: Any) -> Any:
        seen.append([g.detach().clone() for g in (*ins, *outs)])
        return (ins[0] * 2,)

    model[1].register_full_backward_hook(hook)
    model[2].register_full_backward_hook(hook)
    return lambda x: model(x).square().mean()


def of_a_module_beside_its_argument(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    def hook(module: nn.Module, ins: Any, outs: Any) -> Any:
        seen.append([g.detach().clone() for g in (*ins, *outs)])
        return (ins[0] * 2,)

    model[1].register_full_backward_hook(hook)

    def use(x: torch.Tensor) -> torch.Tensor:
        h = model[0](x).exp()
        return model[2](h + model[1](h) * h.view(-1).view_as(h)).square().mean()

    return use


def made_leaf(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    w = torch.full((8,), 2.0, dtype=torch.double).requires_grad_()
    return model(x * w.sin()).square().mean(), w


def made_leaf_of_the_argument(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    """A leaf that nobody sees, with the value of an argument that requires a gradient, too."""
    w = x.detach().requires_grad_()
    h = (w * x).exp() + w[...] * x
    h.register_hook(note(seen, 3))
    return model(h).square().mean()


def made_leaf_behind_a_hook(model: Any, x: torch.Tensor, seen: Seen) -> Any:
    w = torch.linspace(0, 1, 8, dtype=torch.double).requires_grad_()
    h = w.exp()
    h.register_hook(note(seen, 3))
    return model(x * h).square().mean(), w


IN_FUNCTION = (
    on_a_hidden_tensor,
    on_what_its_node_has_saved,
    on_one_that_is_returned,
    along_a_residual_stream,
    on_branches,
    on_views,
    on_a_tensor_of_the_same_value,
    beside_a_detached_tensor,
    after_a_write,
    on_an_argument,
    on_two_losses,
    that_are_gone,
    made_leaf,
    made_leaf_of_the_argument,
    made_leaf_behind_a_hook,
)
MODULES = (of_a_module, of_a_module_beside_its_argument)


def penalty(loss: torch.Tensor, asked: list[torch.Tensor]) -> None:
    gradients = torch.autograd.grad(loss, asked, create_graph=True, allow_unused=True)
    (loss + sum(g.square().sum() for g in gradients if g is not None)).backward()


def second_alone(loss: torch.Tensor, asked: list[torch.Tensor]) -> None:
    gradients = torch.autograd.grad(loss, asked, create_graph=True, allow_unused=True)
    sum(g.sin().sum() for g in gradients if g is not None).backward()


def by_backward(loss: torch.Tensor, asked: list[torch.Tensor]) -> None:
    loss.backward(create_graph=True)
    first = [t.grad for t in asked if t.grad is not None]
    for t in asked:
        t.grad = None
    sum(g.square().sum() for g in first).backward()


def third(loss: torch.Tensor, asked: list[torch.Tensor]) -> None:
    (first,) = torch.autograd.grad(loss, asked[:1], create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), asked[:1], create_graph=True)
    second.square().sum().backward()


def told(program: Callable[..., Any], use: Callable[..., None], compiles: bool) -> Any:
    """The gradients of three calls, and what hooks saw."""
    model, seen = layers(), []
    call = program(model, None, seen) if program in MODULES else lambda x: program(model, x, seen)
    if compiles:
        call = vesta.compile(call, options=OPTIONS, fullgraph=True)
    found = []
    for turn in range(3):
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(turn), dtype=torch.double).requires_grad_()
        model.zero_grad()
        result = call(x)
        loss, others = (result[0], result[1:]) if isinstance(result, tuple) else (result, ())
        leaves = [t for t in others if t.is_leaf]
        use(loss, [x] if use is third else [x, *model.parameters(), *leaves])
        kept = [t.grad for t in (x, *model.parameters(), *others)]
        found.append([None if g is None else g.detach().clone() for g in kept])
    return found, seen


SAVES_ITS_RESULT = (on_what_its_node_has_saved, on_one_that_is_returned, on_two_losses)


CASES = [
    (program, use)
    for program in IN_FUNCTION + MODULES
    for use in (penalty, second_alone, by_backward, third)
    if use is not third or program not in SAVES_ITS_RESULT
]


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph", "ignore:Full backward hook")
@pytest.mark.parametrize(("program", "use"), CASES)
def test_is_eagers(program: Callable[..., Any], use: Callable[..., None]) -> None:
    torch.testing.assert_close(told(program, use, True), told(program, use, False))


@pytest.mark.parametrize("program", SAVES_ITS_RESULT)
def test_a_third_derivative_past_a_saved_result_is_an_error(program: Callable[..., Any]) -> None:
    model, seen = layers(), []
    compiled = vesta.compile(lambda x: program(model, x, seen), options=OPTIONS, fullgraph=True)
    x = torch.randn(5, 8, dtype=torch.double).requires_grad_()
    result = compiled(x)
    with pytest.raises(RuntimeError, match="a third derivative through a hook"):
        third(result[0] if isinstance(result, tuple) else result, [x])


def test_hooks_of_arguments_are_called_once() -> None:
    found = []
    for compiles in (False, True):
        seen: Seen = []
        x = torch.linspace(0, 1, 8).requires_grad_()
        x.register_hook(note(seen, 3))
        y = x * 2
        y.register_hook(note(seen, 5))

        def use(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (x.sin() * y.exp()).sum()

        loss = (vesta.compile(use, options=OPTIONS, fullgraph=True) if compiles else use)(x, y)
        loss.backward(create_graph=True)
        x.grad.square().sum().backward()
        found.append([x.grad.detach(), seen])
    torch.testing.assert_close(found[1], found[0])


def test_nothing_outlives_a_second_derivative() -> None:
    model, seen = layers(), []
    compiled = vesta.compile(lambda x: on_one_that_is_returned(model, x, seen), options=OPTIONS, fullgraph=True)
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            x = torch.randn(5, 8, dtype=torch.double).requires_grad_()
            loss, h = compiled(x)
            penalty(loss, [x])
            gone = weakref.ref(h)
            del loss, h, x
            assert gone() is None
    finally:
        gc.enable()


def test_many_gradients_at_once() -> None:
    model = layers()

    def use(x: torch.Tensor) -> torch.Tensor:
        h = model[0](x).tanh()
        h.register_hook(lambda g: g * 3)
        return model[2](h)

    x = torch.randn(5, 8, dtype=torch.double).requires_grad_()
    found = []
    for call in (use, vesta.compile(use, options=OPTIONS, fullgraph=True)):
        result = call(x)
        tangents = torch.eye(20, dtype=torch.double).view(20, 5, 4)
        found.append(torch.autograd.grad(result, x, tangents, is_grads_batched=True))
    torch.testing.assert_close(found[1], found[0])


def test_an_error_where_the_program_cannot_run_again() -> None:
    def use(x: torch.Tensor) -> torch.Tensor:
        h = torch.nn.functional.dropout(x.exp())
        h.register_hook(lambda g: g * 3)
        return h.sin().sum()

    x = torch.ones(8, requires_grad=True)
    (first,) = torch.autograd.grad(vesta.compile(use, options=OPTIONS, fullgraph=True)(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="draws random numbers"):
        first.sum().backward()
