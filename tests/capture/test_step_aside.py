"""Calls that gain nothing from a compile run eager, until a check finds that compiling would pay."""

from __future__ import annotations

import functools

import pytest
import torch

import vesta
from vesta.explain_capture import explain_captured

x = torch.randn(4, 4)
# Calls are not measured: test_profit.py tests that.
compile_always = functools.partial(vesta.compile, options={"only_if_faster": False})


def report(compiled):
    return explain_captured(object.__getattribute__(compiled, "_vesta_call"))


def call(compiled, *arguments, times=40):
    for _ in range(times):
        result = compiled(*arguments)
    return result


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def test_one_call_into_aten_runs_as_it_is():
    compiled = compile_always(lambda t: torch.linalg.inv(t))
    assert torch.equal(call(compiled, x), torch.linalg.inv(x))
    seen = report(compiled)
    assert 30 <= seen.aside < seen.calls == 40
    assert "ran uncompiled" in str(seen)


@pytest.mark.kernels
def test_a_kernel_is_always_run():
    compiled = compile_always(lambda t: torch.sin(t) + 1)
    call(compiled, x)
    assert report(compiled).aside == 0
    assert report(compiled).hits == 39


def test_a_small_tensor_from_nothing_is_made_by_aten():
    compiled = compile_always(lambda t: torch.zeros_like(t))
    assert torch.equal(call(compiled, x), torch.zeros_like(x))
    assert report(compiled).aside >= 30


@pytest.mark.kernels
def test_a_small_tensor_from_nothing_beside_a_kernel():
    compiled = compile_always(lambda t: (torch.zeros_like(t), t + 1))
    call(compiled, x)
    assert report(compiled).aside == 0


def test_a_break_without_operators_around_it_runs_as_it_is():
    compiled = compile_always(lambda t: torch.nonzero(t))
    assert torch.equal(call(compiled, x), torch.nonzero(x))
    assert report(compiled).aside > 0


@pytest.mark.kernels
def test_a_kernel_behind_a_break_is_run():
    def inner(t):
        return torch.sin(t) + 1

    def f(t):
        print(end="")
        return inner(t)

    compiled = compile_always(f)
    call(compiled, x)
    assert report(compiled).aside == 0


def test_more_operators_are_worth_a_graph():
    compiled = compile_always(lambda t: torch.linalg.inv(torch.linalg.inv(t).mT))
    call(compiled, x)
    assert report(compiled).aside == 0


@pytest.mark.parametrize(
    "other",
    [x.double(), torch.randn(400, 400), torch.nn.Parameter(x.clone()), x.clone().requires_grad_()],
    ids=["dtype", "size", "type", "requires_grad"],
)
def test_an_argument_that_looks_different_is_guarded(other):
    compiled = compile_always(lambda t: torch.linalg.inv(t))
    call(compiled, x)
    before = report(compiled).aside
    compiled(other)
    assert report(compiled).aside == before
    assert torch.allclose(compiled(other), torch.linalg.inv(other), atol=1e-3)


def test_bools_and_keywords_tell_calls_apart():
    compiled = compile_always(lambda t, flag: torch.sin(t).exp().sum(0) if flag else torch.linalg.inv(t))
    call(compiled, x, False)
    before = report(compiled)
    assert before.aside > 0
    call(compiled, x, True)
    assert report(compiled).aside == before.aside
    assert report(compiled).hits == before.hits + 39
    for _ in range(40):
        assert torch.equal(compiled(x, flag=False), torch.linalg.inv(x))


def test_what_is_no_argument_is_noticed_in_time():
    class Model(torch.nn.Module):
        fast = True

        def forward(self, t):
            return torch.linalg.inv(t) if self.fast else torch.sin(t) + torch.cos(t)

    model = Model()
    compiled = compile_always(model)
    call(compiled, x, times=600)
    model.fast = False
    assert torch.allclose(call(compiled, x, times=300), torch.sin(x) + torch.cos(x))
    before = report(compiled)
    call(compiled, x)
    after = report(compiled)
    assert after.aside == before.aside
    assert after.hits == before.hits + 40


def test_calls_that_run_eager_for_good_are_counted():
    def with_hooks(t):
        with torch.autograd.graph.saved_tensors_hooks(lambda s: s, lambda s: s):
            return t * 6

    compiled = compile_always(with_hooks)
    leaf = x.clone().requires_grad_()
    with torch.enable_grad():
        assert torch.allclose(call(compiled, leaf), 6 * x)
    seen = report(compiled)
    assert seen.aside > 0
    assert sum(f.count for f in seen.fallbacks) == 40


def test_reset_and_errors_begin_anew():
    def f(t):
        return torch.linalg.cholesky(t)

    compiled = compile_always(f)
    good = x @ x.T + torch.eye(4)
    call(compiled, good)
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(-good)
    assert torch.equal(compiled(good), f(good))
    vesta.reset()
    assert report(compiled).aside == 0
    compiled(good)
    assert report(compiled).misses == 1


def test_a_call_that_steps_aside_is_eager_under_every_stance():
    compiled = compile_always(lambda t: torch.linalg.inv(t))
    call(compiled, x)
    misses = report(compiled).misses
    for stance in ("force_eager", "fail_on_recompile", "eager_on_recompile"):
        with torch.compiler.set_stance(stance):
            assert torch.equal(compiled(x), torch.linalg.inv(x))
    assert report(compiled).misses == misses
