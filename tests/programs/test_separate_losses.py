"""Several losses of one compiled program have separate backward passes, as in eager."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import vesta

torch.manual_seed(0)
FIRST, SECOND = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
X = torch.randn(3, 4)


def two_losses(x):
    a, b = FIRST(x).tanh(), SECOND(x).tanh()
    return a.sum(), (b * b).sum()


def one_after_the_other(x):
    a, b = FIRST(x).tanh(), SECOND(x).tanh()
    return a.sum(), (a.detach() * b).mean()


def shared(x):
    a = FIRST(x).tanh()
    return (a * a).sum(), SECOND(a).sum(), a[0]


def adversarial(x):
    fake = FIRST(x).tanh()
    real = SECOND(fake.detach()).sigmoid().log().mean()
    forged = SECOND(fake).sigmoid().log().mean()
    forged.backward()
    real.backward()
    return real.detach(), forged.detach()


def gradients():
    return [p.grad if p.grad is None else p.grad.clone() for m in (FIRST, SECOND) for p in m.parameters()]


def steps(function, *passes):
    """The gradients after each pass: (which result, whether the graph is retained); or the error that it raised."""
    for m in (FIRST, SECOND):
        m.zero_grad()
    results = function(X)
    after = []
    for which, retain in passes:
        try:
            loss = sum(results[i].sum() for i in which)
            loss.backward(retain_graph=retain)
            after.append(gradients())
        except RuntimeError as error:
            after.append(str(error)[:60])
    return after


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if isinstance(a, str) or isinstance(b, str):
            assert a == b
        else:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("function", [two_losses, one_after_the_other, shared])
@pytest.mark.parametrize(
    "passes",
    [
        [([0], False), ([1], False)],
        [([1], False), ([0], False)],
        [([0], False), ([0], False), ([1], False)],
        [([0, 1], False), ([1], False)],
        [([0], True), ([0], False), ([1], True), ([1], False), ([1], False)],
        [([1], True), ([0, 1], False)],
    ],
)
def test_passes_are_eager_s(function, passes):
    compiled = vesta.compile(function)
    assert_same(steps(compiled, ([0, 1], False)), steps(function, ([0, 1], False)))
    assert_same(steps(compiled, *passes), steps(function, *passes))
    assert not vesta.explain(compiled)(X).fallbacks


def test_losses_of_one_step():
    compiled = vesta.compile(adversarial)
    found = []
    for function in (adversarial, compiled):
        steps(lambda x: ())
        found.append([function(X), gradients()])
    torch.testing.assert_close(found[1], found[0])


class Kept:
    """What a hook on a saved tensor makes of it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def with_kept(function, x) -> tuple[Any, list[weakref.ref[Kept]]]:
    """The results, and what their autograd nodes keep."""
    kept = []

    def pack(tensor: torch.Tensor) -> Kept:
        packed = Kept(tensor)
        kept.append(weakref.ref(packed))
        return packed

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):
        return function(x), kept


def alive(kept: list[weakref.ref[Kept]]) -> int:
    gc.collect()
    return sum(r() is not None for r in kept)


def test_what_is_kept_goes():
    compiled = vesta.compile(two_losses)
    losses, kept = with_kept(compiled, X)
    assert kept and alive(kept) == len(kept)
    losses[0].backward()
    assert 0 < alive(kept) < len(kept), "each loss has a node of its own"
    losses[1].backward()
    assert alive(kept) == 0
    losses, kept = with_kept(compiled, X)
    assert alive(kept) == len(kept) > 0
    del losses
    assert alive(kept) == 0


def test_saved_results_do_not_hold_their_node():
    def results(x):
        return FIRST(x).tanh(), SECOND(x).sigmoid()

    compiled = vesta.compile(results)
    found = compiled(X)
    hook = Kept(X)
    found[0].grad_fn.register_hook(lambda *_, kept=hook: None)
    left = [weakref.ref(hook)]
    del hook
    assert alive(left) == 1
    del found
    assert alive(left) == 0
    assert_same(steps(compiled, ([1], False), ([0], False)), steps(results, ([1], False), ([0], False)))


@pytest.mark.parametrize("asked", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_an_input_that_is_written(asked):
    """It is a result, too: of all that was added to it."""

    def program(x, w, v, out):
        out *= w.sum()
        out += v
        return x.exp(), w.sin()

    def gradients_of(function):
        leaves = [torch.linspace(0.1 * k, 1, 5, requires_grad=True) for k in range(4)]
        x, w, v, start = leaves
        out = start * 2
        results = [out, *function(x, w, v, out)]
        sum((k + 1) * results[k].pow(2).sum() for k in asked).backward()
        return [t.grad for t in leaves]

    for plain, ours in zip(gradients_of(program), gradients_of(vesta.compile(program)), strict=True):
        assert (plain is None) == (ours is None)
        assert plain is None or torch.allclose(plain, ours)
