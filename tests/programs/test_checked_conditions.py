"""Conditions on tensors whose one side raises an exception: the graph checks them, and a call whose check fails runs
eager, which raises at its own line. The checks of torch.distributions are such conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributions as D
from torch import nn

import vesta

OPTIONS = {"only_if_faster": False}


def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def normal(o: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    d = D.Normal(o[:, :2], o[:, 2:].exp())
    return -d.log_prob(d.rsample()).mean() + d.entropy().mean()


def categorical(o: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    d = D.Categorical(logits=o)
    return -d.log_prob(d.sample()).mean() - 0.1 * d.entropy().mean()


LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "normal": normal,
    "categorical": categorical,
    "bernoulli": lambda o, x: -D.Bernoulli(logits=o).log_prob((x[:, :4] > 0).float()).mean(),
    "beta": lambda o, x: -D.Beta(o[:, :2].exp(), o[:, 2:].exp()).log_prob(torch.full((5, 2), 0.3)).mean(),
    "gamma": lambda o, x: -D.Gamma(o[:, :2].exp(), o[:, 2:].exp()).log_prob(x[:, :2].abs() + 0.1).mean(),
    "laplace": lambda o, x: -D.Laplace(o[:, :2], o[:, 2:].exp()).log_prob(x[:, :2]).mean(),
    "lognormal": lambda o, x: -D.LogNormal(o[:, :2], o[:, 2:].exp()).log_prob(x[:, :2].exp()).mean(),
    "divergence": lambda o, x: D.kl_divergence(
        D.Normal(o[:, :2], o[:, 2:].exp()), D.Normal(torch.zeros(2), torch.ones(2))
    ).mean(),
    "independent": lambda o, x: -D.Independent(D.Normal(o[:, :2], o[:, 2:].exp()), 1).log_prob(x[:, :2]).mean(),
    "poisson": lambda o, x: -D.Poisson(o.exp()).log_prob(x[:, :4].abs().floor()).mean(),
    "dirichlet": lambda o, x: -D.Dirichlet(o.exp()).log_prob(x[:, :4].softmax(-1)).mean(),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_distributions_in_a_training_step(name: str, inside: bool) -> None:
    loss_of = LOSSES[name]
    found = []
    for compiles in (False, True):
        model = net()

        def step(x: torch.Tensor, model: Any = model) -> torch.Tensor:
            model.zero_grad()
            loss = loss_of(model(x), x)
            if inside:
                loss.backward()
                return loss.detach()
            return loss

        call = vesta.compile(step, options=OPTIONS, fullgraph=True) if compiles else step
        for turn in range(3):
            x = torch.randn(5, 8, generator=torch.Generator().manual_seed(turn))
            torch.manual_seed(turn)
            loss = call(x)
            if not inside:
                loss.backward()
            found.append([loss.detach()] + [p.grad.clone() for p in model.parameters()])
    torch.testing.assert_close(found[3:], found[:3])


def test_a_check_that_fails_raises_eagers_error() -> None:
    def program(scale: torch.Tensor) -> torch.Tensor:
        d = D.Normal(torch.zeros(3), scale, validate_args=True)
        return d.log_prob(d.sample())

    compiled = vesta.compile(program, options=OPTIONS, fullgraph=True)
    good, bad = torch.ones(3), torch.tensor([1.0, -1.0, 1.0])
    for scale in (good, bad, good, bad):
        told = []
        for call in (program, compiled):
            torch.manual_seed(1)
            try:
                told.append(call(scale))
            except ValueError as error:
                told.append(str(error))
            told.append(torch.rand(2))
        assert isinstance(told[2], type(told[0]))
        if isinstance(told[0], str):
            assert "scale" in told[0] and told[2] == told[0]
        else:
            torch.testing.assert_close(told[2:], told[:2])
    assert vesta.explain(compiled).explanation.breaks == []


def guarded(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
    y = x.log()
    if torch.isnan(y).any():
        raise ValueError(f"{len(seen)} calls, then a number that has no logarithm")
    assert (y < 3).all(), "too large"
    seen.append(1)
    x.mul_(2)
    return y * 2


def test_what_a_failed_check_leaves_unwritten() -> None:
    """The program that fails has written nothing but what eager writes before the error."""
    results = []
    for call in (guarded, vesta.compile(guarded, options=OPTIONS, fullgraph=True)):
        seen: list[int] = []
        told: list[Any] = []
        for value in (1.0, 2.0, -1.0, 1e6, 3.0):
            x = torch.full((4,), value)
            try:
                told.append(call(x, seen))
            except (ValueError, AssertionError) as error:
                told.append(str(error) if isinstance(error, ValueError) else type(error))  # pytest writes the other
            told += [x, len(seen)]
        results.append(told)
    for ours, eagers in zip(results[1], results[0], strict=True):
        if isinstance(eagers, torch.Tensor):
            torch.testing.assert_close(ours, eagers)
        else:
            assert ours == eagers


def test_a_handler_of_the_program_gets_the_exception() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            if (x < 0).any():
                raise ValueError
            y = x.sqrt()
        except ValueError:
            y = x.abs()
        return y + 1

    compiled = vesta.compile(program, options=OPTIONS)
    for x in (torch.ones(3), -torch.ones(3), torch.full((3,), 4.0)):
        torch.testing.assert_close(compiled(x), program(x))


def test_a_condition_whose_sides_both_go_on_is_a_break() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() if (x > 0).all() else x.cos()

    compiled = vesta.compile(program, options=OPTIONS)
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(compiled(x), program(x))
    assert [b.name for b in vesta.explain(compiled).explanation.breaks] == ["tensor-value"]


def test_errors_of_truth_itself_are_eagers() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if x > 0:
            raise ValueError
        return x + 1

    for call in (program, vesta.compile(program, options=OPTIONS)):
        with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
            call(torch.ones(3))
