"""Programs that switch whether a leaf requires a gradient: parts of a model are frozen for a pass, as in adversarial
training, and inputs require a gradient for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

import vesta

OPTIONS = {"only_if_faster": False}


def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).double()


def frozen_for_a_pass(model: Any, x: torch.Tensor) -> Any:
    model[0].requires_grad_(False)
    loss = model(x).square().mean()
    loss.backward()
    model[0].requires_grad_(True)
    return loss.detach()


def by_attribute(model: Any, x: torch.Tensor) -> Any:
    for p in model[2].parameters():
        p.requires_grad = False
    (model(x).square().mean() + model[2].weight.sum()).backward()
    for p in model[2].parameters():
        p.requires_grad = True


def between_two_passes(model: Any, x: torch.Tensor) -> Any:
    """As the two losses of adversarial training."""
    model[2].requires_grad_(False)
    model(x).sin().sum().backward()
    model[2].requires_grad_(True)
    model(x.detach() * 2).cos().sum().backward()


def frozen_for_a_later_pass(model: Any, x: torch.Tensor) -> Any:
    model[0].requires_grad_(False)
    first = model(x).sin().sum()
    model[0].requires_grad_(True)
    return first + (model[0].bias * model(x)[:, :1]).sum()


def frozen_from_now_on(model: Any, x: torch.Tensor) -> Any:
    loss = model(x).square().mean()
    model[0].requires_grad_(False)
    return loss


def changes_with_each_call(model: Any, x: torch.Tensor) -> Any:
    weight = model[0].weight
    weight.requires_grad_(not weight.requires_grad)
    model(x).square().mean().backward()


def of_the_argument(model: Any, x: torch.Tensor) -> Any:
    x.requires_grad_(True)
    (g,) = torch.autograd.grad(model(x).square().mean(), x)
    x.requires_grad_(False)
    return g, model(x + 0.1 * g.sign()).square().mean()


def of_the_argument_that_keeps_it(model: Any, x: torch.Tensor) -> Any:
    x.requires_grad_()
    model(x).square().mean().backward()


def before_and_after_use(model: Any, x: torch.Tensor) -> Any:
    before = x * 2
    x.requires_grad = True
    loss = (model(x) * before[:, :4]).square().mean()
    loss.backward()
    return before


def written_while_frozen(model: Any, x: torch.Tensor) -> Any:
    """Gradient mode allows it, because the leaf requires no gradient then."""
    weight = model[0].weight
    weight.requires_grad_(False)
    weight.add_(1)
    weight.requires_grad_(True)
    return model(x).sum()


def in_turns(model: Any, x: torch.Tensor) -> Any:
    first, second = model[0].weight, model[2].weight
    for turn in range(3):
        first.requires_grad_(turn % 2 == 0)
        second.requires_grad_(requires_grad=turn % 2 == 1)
        model(x).sin().sum().backward()
    first.requires_grad_(True)
    second.requires_grad_(True)


def gradient_set_while_frozen(model: Any, x: torch.Tensor) -> Any:
    weight = model[0].weight
    weight.requires_grad_(False)
    weight.grad = torch.ones_like(weight)
    weight.requires_grad_(True)
    model(x).sum().backward()


def detached_before(model: Any, x: torch.Tensor) -> Any:
    y = x.detach()
    x.requires_grad_()
    (model(x) * model(y)).sum().backward()
    return y


def gradient_penalty(model: Any, x: torch.Tensor) -> Any:
    x.requires_grad_()
    (g,) = torch.autograd.grad(model(x).sin().sum(), x, create_graph=True)
    g.square().sum().backward()
    x.requires_grad_(False)
    return g.detach()


def without_operators(model: Any, x: torch.Tensor) -> Any:
    x.requires_grad_()
    return x


def without_gradient_mode(model: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        model[0].requires_grad_(False)
        y = model(x)
        model[0].requires_grad_(True)
        return y


IN_ONE_GRAPH = (
    frozen_for_a_pass,
    by_attribute,
    between_two_passes,
    frozen_for_a_later_pass,
    frozen_from_now_on,
    changes_with_each_call,
    of_the_argument,
    of_the_argument_that_keeps_it,
    before_and_after_use,
    written_while_frozen,
    in_turns,
    gradient_set_while_frozen,
    detached_before,
    gradient_penalty,
    without_operators,
    without_gradient_mode,
)


def begins_for_a_later_pass(model: Any, x: torch.Tensor) -> Any:
    """A result would have to lead to a place in autograd's graph that the argument has not had before."""
    x.requires_grad_()
    return model(x).square().mean()


def outcome(call: Callable[[Any, torch.Tensor], Any], model: Any) -> Any:
    told = []
    for turn in range(4):
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(turn), dtype=torch.double)
        model.zero_grad()
        result = call(model, x)
        results = result if isinstance(result, tuple) else (result,)
        for t in results:
            if t is not None and t.requires_grad:
                t.sum().backward()
        leaves = [x, *model.parameters()]
        found = [
            results,
            [t.requires_grad for t in results if t is not None],
            [(t.grad, t.requires_grad) for t in leaves],
        ]
        told.append(tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, found))
    return told


@pytest.mark.parametrize("program", IN_ONE_GRAPH)
def test_in_one_graph(program: Callable[[Any, torch.Tensor], Any]) -> None:
    compiled = vesta.compile(program, options=OPTIONS, fullgraph=True)
    model = net()
    torch.testing.assert_close(outcome(compiled, model), outcome(program, net()))
    explanation = vesta.explain(compiled).explanation
    assert sum(g.hits for g in explanation.graphs) == 4
    assert not explanation.breaks


def view_made_before(model: Any, x: torch.Tensor) -> Any:
    """Eager's view requires a gradient as soon as the leaf does."""
    view = x[:2]
    x.requires_grad_()
    return view, model(x).sum().detach()


def result_of_a_view(model: Any, x: torch.Tensor) -> Any:
    x.requires_grad_()
    return x.view(-1)


BREAKS = (
    (begins_for_a_later_pass, "a tensor begins to require a gradient inside the program"),
    (result_of_a_view, "a tensor begins to require a gradient inside the program"),
    (view_made_before, "a view of a leaf whose requires_grad changes"),
)


@pytest.mark.parametrize(("program", "why"), BREAKS)
def test_with_a_break(program: Callable[[Any, torch.Tensor], Any], why: str) -> None:
    compiled = vesta.compile(program, options=OPTIONS)
    model = net()
    torch.testing.assert_close(outcome(compiled, model), outcome(program, net()))
    explanation = vesta.explain(compiled).explanation
    assert [why in b.reason for b in explanation.breaks] == [True]
    assert sum(g.hits for g in explanation.graphs) >= 4


def test_second_derivatives() -> None:
    """Of a result that has read a weight both frozen and not."""
    told = []
    for call in (frozen_for_a_later_pass, vesta.compile(frozen_for_a_later_pass, options=OPTIONS, fullgraph=True)):
        model = net()
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.double)
        grads = torch.autograd.grad(call(model, x), list(model.parameters()), create_graph=True)
        sum(g.square().sum() for g in grads).backward()
        told.append([grads, [p.grad for p in model.parameters()]])
    torch.testing.assert_close(*told)


def test_hooks_of_a_leaf_that_begins_to_require_a_gradient() -> None:
    """It had them from a time when it required one."""
    told = []
    model = net()

    def step(x: torch.Tensor) -> None:
        x.requires_grad_(True)
        model(x).sum().backward()
        x.requires_grad_(False)

    for call in (step, vesta.compile(step, options=OPTIONS, fullgraph=True)):
        x = torch.ones(5, 8, dtype=torch.double, requires_grad=True)
        x.register_hook(lambda g: g * 2)
        x.register_post_accumulate_grad_hook(lambda t: told.append("called"))
        x.requires_grad_(False)
        call(x)
        told.append(x.grad)
    assert [t for t in told if isinstance(t, str)] == ["called"] * 2
    torch.testing.assert_close(*[t for t in told if not isinstance(t, str)])


def no_leaf(x: torch.Tensor) -> None:
    (x * 2).requires_grad_(False)


def integers(x: torch.Tensor) -> None:
    x.long().requires_grad_(True)


def no_bool(x: torch.Tensor) -> None:
    x.requires_grad = 1  # type: ignore[assignment]


def written_in_place(x: torch.Tensor) -> None:
    x.detach_().requires_grad_()
    x.mul_(2)


@pytest.mark.parametrize("program", [no_leaf, integers, no_bool, written_in_place])
def test_errors_are_eagers(program: Callable[[torch.Tensor], None]) -> None:
    raised = []
    for call in (program, vesta.compile(program, options=OPTIONS)):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises((RuntimeError, TypeError)) as caught:
            call(x)
        raised.append((str(caught.value), x.requires_grad))
    assert raised[0] == raised[1]


def test_an_error_leaves_it_as_eager_does() -> None:
    """What the trace has switched is switched back before the error is raised by eager."""
    model = net()

    def step(x: torch.Tensor) -> Any:
        model[0].weight.requires_grad_(False)
        if x.shape[0] == 5:
            raise ValueError("five")
        return model(x)

    with pytest.raises(ValueError, match="five"):
        vesta.compile(step, options=OPTIONS)(torch.ones(5, 8, dtype=torch.double))
    assert not model[0].weight.requires_grad
