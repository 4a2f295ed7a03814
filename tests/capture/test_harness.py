"""The harness tells what a wrong compiler does: one deliberate mistake each, found and named."""

from __future__ import annotations

import copy
import os
import signal
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.capture.case import case_names
from tests.capture.running import run
from tests.capture.semantics import Task, check_case

SUBJECTS = Path(__file__).parent / "harness" / "subjects.py"


def right(f: Any) -> Any:
    return lambda *args, **kwargs: f(*args, **kwargs)


@pytest.mark.parametrize("name", case_names(SUBJECTS))
@pytest.mark.parametrize("compile", [lambda f: f, right], ids=["itself", "wrapped"])
def test_right_compilers_pass(name: str, compile: Any):
    assert check_case(SUBJECTS, name, compile) == []


def on_result(change: Callable[[Any], Any]) -> Any:
    return lambda f: lambda *args: change(f(*args))


def around(act: Callable[..., Any]) -> Any:
    return lambda f: lambda *args: act(f, *args)


def moved_by_a_line(f: Any) -> Any:
    return types.FunctionType(f.__code__.replace(co_firstlineno=f.__code__.co_firstlineno + 1), f.__globals__)


def stale(f: Any) -> Any:
    first: list[Any] = []

    def call(x: Any, n: Any) -> Any:
        first[:] = first or [n]
        return f(x, first[0])

    return call


def one_buffer(f: Any) -> Any:
    buffers: dict[Any, torch.Tensor] = {}

    def call(x: Any, n: Any) -> Any:
        y = f(x, n)
        return buffers.setdefault(y.shape, y).copy_(y)

    return call


def swallowing(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except Exception:
        return None


def with_error(make: Callable[[Exception], Exception], chain: bool = False) -> Any:
    def act(f: Any, *args: Any) -> Any:
        try:
            return f(*args)
        except Exception as error:
            made = make(error)
            if chain:
                made.__traceback__ = error.__traceback__
                raise made  # noqa: B904
        made.__traceback__ = None
        raise made

    return around(act)


def printing_twice(f: Any, *args: Any) -> Any:
    f(*args)
    return f(*args)


def quiet(f: Any, *args: Any) -> Any:
    with warnings.catch_warnings(record=True):
        return f(*args)


def elsewhere(f: Any, *args: Any) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        y = f(*args)
    for w in caught:
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno + 1)
    return y


def leaving_grad_off(f: Any, *args: Any) -> Any:
    y = f(*args)
    torch.set_grad_enabled(False)
    return y


def drawing(f: Any, *args: Any) -> Any:
    torch.rand(1)
    return f(*args)


def without_effects(f: Any, *args: Any) -> Any:
    before = [c.cell_contents for c in f.__closure__ or ()]
    y = f(*args)
    for cell, value in zip(f.__closure__ or (), before, strict=True):
        cell.cell_contents = value
    return y


def without_global_effects(f: Any, *args: Any) -> Any:
    before = f.__globals__["TOTAL"]
    y = f(*args)
    f.__globals__["TOTAL"] = before
    return y


def advanced(f: Any, *args: Any) -> Any:
    made = f(*args)
    next(made)
    return made


MISTAKES = [
    ("numbers", "pure", on_result(lambda y: y + 1e-3), "numbers differ"),
    ("dtype", "pure", on_result(lambda y: y.double()), "dtype 'torch.float64'"),
    ("a constant of the first call", "pure", stale, "call 3: result: numbers differ"),
    ("results overwritten", "pure", one_buffer, "earlier results[0]"),
    ("a copy of an argument returned", "returns_argument", on_result(copy.deepcopy), "identity"),
    ("order of keys", "returns_argument", on_result(lambda r: (r[0], r[1].update(b=r[1].pop("b")) or r[1])), "key 0"),
    ("effect on an argument lost", "appends", around(lambda f, x, out: f(x, list(out))), ": [0]: plain only"),
    ("effect done twice", "appends", around(lambda f, x, out: (f(x, out), f(x, out))[0]), "compiled only"),
    ("exception swallowed", "raises", around(swallowing), "outcome: returned, plain ZeroDivisionError"),
    ("exception of another type", "raises", with_error(lambda e: ValueError(*e.args)), "outcome: ValueError"),
    ("exception with another text", "raises", with_error(lambda e: type(e)("else")), "args"),
    ("traceback lost", "raises", with_error(lambda e: e), "traceback []"),
    ("another context", "raises", with_error(lambda e: type(e)(*e.args), chain=True), "__context__"),
    ("line", "raises", moved_by_a_line, "traceback"),
    ("printed twice", "prints", around(printing_twice), "stdout"),
    ("warning lost", "warns", around(quiet), "warnings"),
    ("warning at another line", "warns", around(elsewhere), "warnings"),
    ("argument not changed in place", "adds_in_place", around(lambda f, x: f(x.clone())), "[0]: numbers differ"),
    ("copy instead of view", "returns_view", on_result(lambda r: (r[0], r[1].clone())), "shares memory"),
    ("strides", "returns_view", on_result(lambda r: (r[0].contiguous(), r[1])), "strides"),
    ("gradient lost", "differentiable", on_result(torch.Tensor.detach), "requires_grad False"),
    ("grad mode left off", "pure", around(leaving_grad_off), "after the call, grad mode"),
    ("random numbers drawn", "pure", around(drawing), "random state of torch"),
    ("type of a tuple", "named", on_result(lambda r: (tuple(r[0]), r[1])), "type builtins.tuple"),
    ("cell not written", "counts", around(without_effects), "cell n contents: 0, plain 1"),
    ("global not written", "counts_globally", around(without_global_effects), "globals['TOTAL']: 0, plain 1"),
    ("attribute not written", "counts_in_attribute", around(lambda f, x, h: f(x, copy.copy(h))), ".count: 0, plain 1"),
    ("aliasing inside the result", "shares", on_result(lambda r: {k: list(v) for k, v in r.items()}), "identity"),
    ("generator advanced", "generates", around(advanced), "local i"),
]  # fmt: skip


@pytest.mark.parametrize(("subject", "compile", "told"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistake_is_told(subject: str, compile: Any, told: str):
    found = check_case(SUBJECTS, subject, compile)
    assert any(told in text for text in found), found


def dies_on_some(f: Any) -> Any:
    def call(*args: Any) -> Any:
        if f.__name__ == "appends":
            os.kill(os.getpid(), signal.SIGSEGV)
        if f.__name__ == "prints":
            time.sleep(60)
        return f(*args)

    return call


def test_crash_and_hang_cost_one_case():
    task = Task(str(SUBJECTS), f"{__name__}:dies_on_some")
    outcomes = {o.case: o.differences for o in run([task], limit_s=4)}
    assert list(outcomes) == case_names(SUBJECTS)
    assert outcomes.pop("appends")[0].startswith("crash: SIGSEGV")
    assert outcomes.pop("prints")[0].startswith("hang: no answer within 4 s")
    assert not any(outcomes.values())
