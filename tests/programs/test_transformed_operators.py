"""Functional transforms of PyTorch's own samples of operators: results are eager's, and nearly all are one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import grad, jvp, vjp, vmap
from torch.utils import _pytree as pytree

import vesta
from tests.programs.torchvision_operators import declare_torchvision_operators

OPTIONS = {"only_if_faster": False, "deadline_ms": -1, "recompile_share": -1.0}
Function = Callable[..., Any]


def total(f: Function) -> Function:
    return lambda *tensors: sum(t.sum() for t in f(*tensors))


def gradient(f: Function, tensors: list[Any]) -> Function:
    return grad(total(f), argnums=tuple(range(len(tensors))))


def pullback(f: Function, *tensors: Any) -> Any:
    results, pull = vjp(f, *tensors)
    return results, pull(tuple(torch.ones_like(t) for t in results))


def pushed(f: Function, *tensors: Any) -> Any:
    return jvp(f, tensors, tuple(torch.full_like(t, 0.5) for t in tensors))


def twice(tensors: Any) -> list[Any]:
    return [torch.stack([t, t]) for t in tensors]


KINDS: dict[str, Function] = {
    "vjp": pullback,
    "jvp": pushed,
    "vmap": lambda f, *t: vmap(f)(*twice(t)),
    "vmap of grad": lambda f, *t: vmap(gradient(f, list(t)))(*twice(t)),
    "jvp of grad": lambda f, *t: pushed(gradient(f, list(t)), *t),
}


def operators() -> list[Any]:
    declare_torchvision_operators()
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if torch.float64 in op.supported_dtypes("cpu") and not op.name.startswith("empty")]


def sample_of(op: Any) -> tuple[Function, list[torch.Tensor]] | None:
    """A function of the floating-point tensors among an operator's arguments, and these."""
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", torch.float64, requires_grad=False))
    if not samples:
        return None
    sample = samples[min(1, len(samples) - 1)]
    given = [sample.input, *sample.args]
    places = [i for i, x in enumerate(given) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    if not places:
        return None

    def call(*tensors: torch.Tensor) -> Any:
        arguments = list(given)
        for i, t in zip(places, tensors, strict=True):
            arguments[i] = t
        results = pytree.tree_leaves(op.op(*arguments, **sample.kwargs))
        return tuple(t for t in results if isinstance(t, torch.Tensor) and t.is_floating_point())

    return call, [given[i].detach() for i in places]


def judge(op: Any, kind: Function) -> bool | None:
    """Whether it is one graph. None: eager refuses it."""
    sample = sample_of(op)
    if sample is None:
        return None
    call, tensors = sample

    def f(*tensors: torch.Tensor) -> Any:
        return kind(call, *tensors)

    def run(f: Function) -> list[Any]:
        torch.manual_seed(0)
        return pytree.tree_leaves(f(*[t.clone() for t in tensors]))

    try:
        wanted = run(f)
    except Exception:
        return None
    compiled = vesta.compile(f, options=OPTIONS)
    found = run(compiled)
    where = f"{op.name} {op.variant_test_name}"
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-8, equal_nan=True, msg=lambda m: f"{where}: {m}")
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0, where
    report = vesta.explain(compiled)(*tensors)
    return not report.breaks and not report.fallbacks


def sweep(kind: str, step: int) -> None:
    verdicts = [judge(op, KINDS[kind]) for op in operators()[::step]]
    judged = [v for v in verdicts if v is not None]
    assert len(judged) > len(verdicts) / 2
    assert sum(judged) > 0.85 * len(judged), f"{sum(judged)} of {len(judged)} are one graph"


@pytest.mark.parametrize("kind", KINDS)
def test_some_operators(kind):
    sweep(kind, step=60)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_operators(kind):
    sweep(kind, step=1)
