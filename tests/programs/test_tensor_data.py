"""Programs that read, write and replace the .data of tensors: averages of parameters, target networks, clipped weights
and updates by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

import vesta

OPTIONS = {"only_if_faster": False}


def net(seed: int) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).double()


def average_in_place(model: Any, target: Any, x: torch.Tensor) -> Any:
    for p, q in zip(model.parameters(), target.parameters(), strict=True):
        q.data.mul_(0.9).add_(p.data, alpha=0.1)


def average_in_no_grad(model: Any, target: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        average_in_place(model, target, x)
    return model(x)


def average_by_assignment(model: Any, target: Any, x: torch.Tensor) -> Any:
    for p, q in zip(model.parameters(), target.parameters(), strict=True):
        q.data = 0.9 * q.data + 0.1 * p.data


def average_of_parameters(model: Any, target: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        for p, q in zip(model.parameters(), target.parameters(), strict=True):
            q.data = torch.lerp(q, p, 0.1)
        return target(x)


def copied(model: Any, target: Any, x: torch.Tensor) -> Any:
    for p, q in zip(model.parameters(), target.parameters(), strict=True):
        q.data.copy_(p.data)
    return target(x)


def clipped(model: Any, target: Any, x: torch.Tensor) -> Any:
    loss = model(x).square().mean()
    loss.backward()
    for p in model.parameters():
        p.data.add_(p.grad.data, alpha=-0.1)
        p.data.clamp_(-0.1, 0.1)
        p.grad.data.zero_()
    return loss


def updated_by_hand(model: Any, target: Any, x: torch.Tensor) -> Any:
    loss = model(x).square().mean()
    loss.backward()
    for p in model.parameters():
        p.data = p.data - 0.1 * p.grad
        p.grad = None
    return loss


def gradient_replaced(model: Any, target: Any, x: torch.Tensor) -> Any:
    model(x).square().mean().backward()
    for p in model.parameters():
        p.grad.data = p.grad.data * 0.5


def before_a_later_pass(model: Any, target: Any, x: torch.Tensor) -> Any:
    """The pass reads the contents of the memory then: autograd does not see the write."""
    y = model(x * target[0].bias[:8]).sin()
    model[2].weight.data.mul_(2)
    return y


def before_a_pass(model: Any, target: Any, x: torch.Tensor) -> Any:
    loss = model(x).sin().sum()
    model[2].weight.data.mul_(2)
    loss.backward()


def read_and_returned(model: Any, target: Any, x: torch.Tensor) -> Any:
    y = model(x)
    return y, y.data, model[0].weight.data, x.data[1:]


def swapped_results(model: Any, target: Any, x: torch.Tensor) -> Any:
    y, z = x * 2, x * 3
    y.data = z
    z.add_(1)
    return y + z


def twice(model: Any, target: Any, x: torch.Tensor) -> Any:
    weight = target[0].weight
    weight.data = weight.data * 2
    weight.data = weight.data + 1
    weight.data.mul_(0.5)


def written_then_replaced(model: Any, target: Any, x: torch.Tensor) -> Any:
    weight = target[0].weight
    old = weight.data
    old.mul_(2)
    weight.data = old + 1
    old.mul_(3)
    return old


PROGRAMS = [
    average_in_place,
    average_in_no_grad,
    average_by_assignment,
    average_of_parameters,
    copied,
    clipped,
    updated_by_hand,
    gradient_replaced,
    before_a_later_pass,
    before_a_pass,
    read_and_returned,
    swapped_results,
    twice,
    written_then_replaced,
]


def replaced_by_another(model: Any, target: Any, x: torch.Tensor) -> Any:
    target[2].weight.data = model[2].weight.data
    return target[2].weight.sum() + model[2].weight.sum()


def of_another_type(model: Any, target: Any, x: torch.Tensor) -> Any:
    target[2].bias.data = target[2].bias.data.float()


def of_another_size(model: Any, target: Any, x: torch.Tensor) -> Any:
    target[2].bias.data = torch.ones(6, dtype=torch.float64)


def part_of_a_result(model: Any, target: Any, x: torch.Tensor) -> Any:
    target[2].bias.data = (x * 2)[0, :4]


def used_with_gradients_after(model: Any, target: Any, x: torch.Tensor) -> Any:
    model[2].weight.data = model[2].weight.data * 2
    return model(x)


def written_after(model: Any, target: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        model[2].weight.data = model[2].weight.data * 2
        model[2].weight.add_(1)


# These end the graph at one place: a call would give another tensor, or another version counter.
BREAKS = [
    replaced_by_another,
    of_another_type,
    of_another_size,
    part_of_a_result,
    used_with_gradients_after,
    written_after,
]


class Trial:
    """Three calls in a row on the same models, each with what a later pass gives."""

    def __init__(self, program: Callable[..., Any]) -> None:
        self.models, self.program = [net(0), net(1)], program

    def tensors(self) -> list[torch.Tensor]:
        return [p for m in self.models for p in m.parameters()]

    def turn(self, n: int) -> Any:
        x = torch.randn(3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
        before = [p._version for p in self.tensors()]
        results = self.program(*self.models, x)
        results = results if isinstance(results, tuple) else (results,)
        seen = [p._version != was for p, was in zip(self.tensors(), before, strict=True)]
        later = next((r for r in results if r is not None and r.requires_grad and r.numel() > 1), None)
        if later is not None:
            later.sum().backward()
        state = [(p, p.grad, p.requires_grad) for p in self.tensors()]
        shared = [a.data_ptr() == b.data_ptr() for a in self.tensors() for b in self.tensors()]
        return tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, (results, state)), (
            seen,
            shared,
            [r is not None and r._version for r in results],
        )


@pytest.mark.parametrize("program", PROGRAMS + BREAKS)
def test_calls_equal_eagers(program: Callable[..., Any]) -> None:
    compiled = vesta.compile(program, options=OPTIONS)
    eager, ours = Trial(program), Trial(compiled)
    for n in range(3):
        expected, facts = eager.turn(n)
        found, own_facts = ours.turn(n)
        torch.testing.assert_close(found, expected)
        if program in PROGRAMS:
            assert own_facts[:2] == facts[:2]
    places = {b.where.line for b in vesta.explain(compiled).explanation.breaks}
    assert len(places) == (1 if program in BREAKS else 0)


def test_writes_to_data_leave_the_version_as_it_is() -> None:
    """A pass that has saved the tensor goes on, as in eager; a write that autograd sees is its error."""

    def by_data(p: torch.Tensor) -> None:
        p.data.mul_(2)

    def in_no_grad(p: torch.Tensor) -> None:
        with torch.no_grad():
            p.mul_(2)

    for write in (by_data, in_no_grad):
        for call in (write, vesta.compile(write, options=OPTIONS, fullgraph=True)):
            p = torch.ones(3, requires_grad=True)
            loss = (p * p).sum()
            call(p)
            if write is by_data:
                loss.backward()
                assert torch.equal(p.grad, torch.full((3,), 4.0))
            else:
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    loss.backward()


def test_data_that_is_returned_counts_writes_for_itself() -> None:
    def program(p: torch.Tensor) -> Any:
        return p.exp(), p.data

    for call in (program, vesta.compile(program, options=OPTIONS, fullgraph=True)):
        p = torch.ones(3, requires_grad=True)
        y, data = call(p)
        data.add_(1)
        y.sum().backward()
        assert p._version == 0 and data._version == 1 and not data._is_view()
        assert torch.equal(p, torch.full((3,), 2.0))


def test_an_optimizer_of_old_style_takes_no_second_graph() -> None:
    class Plain(torch.optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["step"], state["average"] = 0, torch.zeros_like(p.data)
                    state["average"].mul_(0.9).add_(p.grad.data, alpha=0.1)
                    p.data.add_(state["average"], alpha=-group["lr"])

    found = []
    for compiled in (False, True):
        model = net(0)
        optimizer = Plain(model.parameters(), 0.1)
        step = vesta.compile(optimizer.step, options=OPTIONS) if compiled else optimizer.step
        for n in range(6):
            optimizer.zero_grad()
            x = torch.randn(3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
            model(x).square().mean().backward()
            step()
        found.append(list(model.parameters()))
    torch.testing.assert_close(found[1], found[0])
    explanation = vesta.explain(step).explanation
    assert not explanation.breaks and len(explanation.recompiles) <= 1
