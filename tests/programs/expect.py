"""A compiled call beside eager's: results, arguments after the call, errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import vesta
from tests.numerics.compare import check
from tests.numerics.wide_runs import copies, perturbed_runs, reference_run

Function = Callable[..., Any]


def outcome(function: Function, args: list[Any]) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args), None
        except Exception as error:
            return None, error


def expect_eager(function: Function, *args: Any, calls: int = 2, compiled: Any = None) -> Any:
    """Results, arguments after the call, and errors with their text are eager's. Returns the compiled function."""
    compiled = compiled or vesta.trace_and_compile(function)
    for call in range(calls):
        ours_in, eager_in = list(copies(list(args))), list(copies(list(args)))
        eager, eager_error = outcome(function, eager_in)
        ours, our_error = outcome(compiled, ours_in)
        if eager_error or our_error:
            assert type(our_error) is type(eager_error), f"call {call}: {our_error!r} instead of {eager_error!r}"
            assert str(our_error) == str(eager_error)
        else:
            compare(ours, eager, values=not numbers(eager))
            if numbers(eager):
                runs = reference_run(function, *args), perturbed_runs(function, *args)
                check(detached(ours), detached(eager), runs[0], perturbed=runs[1])
        for ours_after, eager_after in zip(ours_in, eager_in, strict=True):
            compare(ours_after, eager_after)
    return compiled


def detached(value: Any) -> Any:
    return pytree.tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, value)


def numbers(value: Any) -> bool:
    """Whether the number rule reads every tensor in it."""
    tensors = [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]
    return all(t.layout == torch.strided and not t.is_quantized and t.device.type == "cpu" for t in tensors)


def compare(ours: Any, eager: Any, values: bool = True) -> None:
    if isinstance(eager, (tuple, list)):
        assert type(ours) is type(eager) and len(ours) == len(eager)
        for o, e in zip(ours, eager, strict=True):
            compare(o, e, values)
        return
    if not isinstance(eager, torch.Tensor):
        assert type(ours) is type(eager) and (ours == eager or ours != ours)
        return
    assert ours.layout == eager.layout and ours.device == eager.device and ours.dtype == eager.dtype
    assert ours.shape == eager.shape and ours.requires_grad == eager.requires_grad
    if eager.device.type == "meta":
        assert ours.stride() == eager.stride()
    elif eager.is_quantized:
        assert ours.qscheme() == eager.qscheme() and torch.equal(ours.int_repr(), eager.int_repr())
    elif eager.layout != torch.strided:
        assert torch.equal(ours.to_dense(), eager.to_dense())
    elif eager.is_floating_point() or eager.is_complex():
        assert ours.stride() == eager.stride() or not eager.numel()
        if values:
            torch.testing.assert_close(ours.detach(), eager.detach(), equal_nan=True)
    elif values:
        assert torch.equal(ours, eager)
