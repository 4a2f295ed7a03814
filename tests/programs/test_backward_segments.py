"""Backward halves in segments, as under DistributedDataParallel: each gives its gradients before the next one runs.

The process has no process group. A fixture names an object as the module whose forward pass runs, with small buckets.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import vesta

OPTIONS = {"only_if_faster": False}


@pytest.fixture(autouse=True)
def buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    active = types.SimpleNamespace(bucket_bytes_cap=64)
    monkeypatch.setattr(DistributedDataParallel, "_active_ddp_module", active)


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x
        return self.norm(x), x.sin().sum(-1)


def pair() -> tuple[nn.Module, Any, nn.Module]:
    """The eager model, the compiled one and its original."""
    torch.manual_seed(0)
    eager, original = Deep(), Deep()
    original.load_state_dict(eager.state_dict())
    return eager, vesta.compile(original, fullgraph=True, options=OPTIONS), original


def numbers(rows: int = 5) -> torch.Tensor:
    return torch.randn(rows, 16, generator=torch.Generator().manual_seed(rows), requires_grad=True)


def gradients(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor | None]:
    return [x.grad, *(p.grad for p in model.parameters())]


def check(use: Callable[[Any, torch.Tensor, nn.Module], Any], rows: tuple[int, ...] = (5, 5)) -> Any:
    eager, compiled, original = pair()
    for n in rows:
        a, b = numbers(n), numbers(n)
        torch.testing.assert_close(use(compiled, b, original), use(eager, a, eager))
        torch.testing.assert_close(gradients(original, b), gradients(eager, a), rtol=1e-4, atol=1e-4)
    explanation = vesta.explain(compiled).explanation
    assert all(len(g.backward) > 4 for g in explanation.graphs)
    assert not any(g.backward_failures for g in explanation.graphs)
    return explanation


def test_both_results() -> None:
    check(lambda call, x, model: sum(t.square().sum() for t in call(x)).backward())


@pytest.mark.parametrize("result", [0, 1])
def test_one_result(result: int) -> None:
    """The other one has no gradient, and that of this one is one number."""
    check(lambda call, x, model: call(x)[result].sum().backward())


def test_other_sizes() -> None:
    check(lambda call, x, model: call(x)[0].square().sum().backward(), (5, 7, 9, 5))


def test_two_passes() -> None:
    def use(call: Any, x: torch.Tensor, model: nn.Module) -> None:
        y, z = call(x)
        loss = y.square().sum() + z.sum()
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()

    check(use)


def test_chosen_inputs() -> None:
    def use(call: Any, x: torch.Tensor, model: nn.Module) -> Any:
        first, last = model.layers[3].weight, model.layers[0].bias  # type: ignore[index, union-attr]
        call(x)[0].square().sum().backward(inputs=[first])
        return torch.autograd.grad(call(x)[1].sum(), [last, x])

    check(use)


def test_derivatives_of_gradients() -> None:
    def use(call: Any, x: torch.Tensor, model: nn.Module) -> None:
        (g,) = torch.autograd.grad(call(x)[0].square().sum(), x, create_graph=True)
        g.square().sum().backward()

    # The first pass asks for no gradient of a weight, and the second one runs through eager's nodes.
    eager, compiled, original = pair()
    a, b = numbers(), numbers()
    use(eager, a, eager)
    use(compiled, b, original)
    torch.testing.assert_close(gradients(original, b), gradients(eager, a), rtol=1e-4, atol=1e-4)


def test_gradients_come_before_the_pass_ends() -> None:
    """A hook of the last layer sees that the first one has no gradient yet, and may end the pass."""

    def use(call: Any, x: torch.Tensor, model: nn.Module) -> Any:
        seen = []

        def hook(p: torch.Tensor) -> None:
            seen.append(model.layers[0].weight.grad is None)  # type: ignore[index, union-attr]
            if len(seen) == 1:
                raise ValueError("stop")

        model.zero_grad()
        handle = model.layers[3].weight.register_post_accumulate_grad_hook(hook)  # type: ignore[index, union-attr]
        loss = call(x)[0].square().sum()
        with pytest.raises(ValueError, match="stop"):
            loss.backward(retain_graph=True)
        model.zero_grad()
        x.grad = None
        loss.backward()
        handle.remove()
        return seen

    check(use)


def test_calls_of_the_operators() -> None:
    """No segment is compiled: each runs as calls of its operators."""
    eager, _, original = pair()
    compiled = vesta.compile(original, options=OPTIONS | {"deadline_ms": 0, "background": True})
    for n in (5, 5):
        a, b = numbers(n), numbers(n)
        for call, x in ((compiled, b), (eager, a)):
            sum(t.square().sum() for t in call(x)).backward()
        torch.testing.assert_close(gradients(original, b), gradients(eager, a), rtol=1e-4, atol=1e-4)


def joined(x: torch.Tensor, v: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.tanh(torch.tanh(x @ v) @ v), a, b], 1) + torch.cat([a, b, x], 1).sin()


def leaves() -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(1)
    return [torch.randn(n, 16, generator=made, requires_grad=True) for n in (8, 16, 8, 8)]


def test_gradients_that_are_views_of_a_tangent_stay_views() -> None:
    given = leaves()
    compiled = vesta.compile(lambda x, a, b: (torch.cat([torch.tanh(x), a, b], 1), x.cos()), options=OPTIONS)
    joined_up, cosine = compiled(*given[:1], *given[2:])
    tangent, other = torch.randn_like(joined_up), torch.randn_like(cosine)
    _, a, b = torch.autograd.grad([joined_up, cosine], given[:1] + given[2:], [tangent, other])
    assert a.data_ptr() == tangent.data_ptr() + 4 * 16
    assert b.data_ptr() == tangent.data_ptr() + 4 * 32
    assert a.stride() == b.stride() == tangent.stride()
    torch.testing.assert_close(a, tangent[:, 16:32])


@pytest.mark.parametrize("writes", [False, True])
def test_a_hook_writes_to_a_gradient_that_shows_a_tangent(writes: bool) -> None:
    def triple(t: torch.Tensor) -> None:
        assert t.grad is not None
        t.grad.mul_(3)

    found = []
    for compile in (lambda f: f, lambda f: vesta.compile(f, fullgraph=True, options=OPTIONS)):
        given = leaves()
        if writes:
            for t in given[2:]:
                t.register_post_accumulate_grad_hook(triple)
        f = compile(joined)
        for _ in range(2):
            f(*given).backward(torch.ones(8, 48))
        found.append([t.grad for t in given])
    torch.testing.assert_close(found[1], found[0])
