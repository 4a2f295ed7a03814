"""Warnings of operators are given in each call of a compiled function, as often as eager gives them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import vesta

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")


@pytest.fixture
def always() -> Iterator[None]:
    """torch warns each time of what it warns of once otherwise."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


def given(f: Callable[..., Any], *args: Any, calls: int = 4, how: str = "always") -> list[list[tuple[Any, ...]]]:
    """The warnings of each call: category, first line, file."""
    out = []
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter(how)  # type: ignore[arg-type]
        for _ in range(calls):
            f(*args)
            out.append([(w.category, str(w.message).partition("\n")[0], w.filename) for w in log])
            log.clear()
    return out


def deprecated(x):
    return torch._aminmax(x)[0] * 2


def deprecated_twice(x):
    a = torch._aminmax(x)[0]
    return a + torch._aminmax(x * 2)[1]


def unread(x):
    torch._aminmax(x)
    return x * 2


def in_called(x):
    return deprecated(x) + deprecated(x * 3)


def after_break(x):
    y = x * 2
    torch._dynamo.graph_break()
    return torch._aminmax(y)[0]


def before_break(x):
    y = torch._aminmax(x)[0]
    torch._dynamo.graph_break()
    return y * 2


def of_degrees(x):
    return x[:1].std() + 1


def of_python(x):
    warnings.warn("from Python", stacklevel=1)
    return x * 2


def of_sizes(x):
    return F.mse_loss(x, x[:, None])


PROGRAMS = [
    deprecated,
    deprecated_twice,
    unread,
    in_called,
    after_break,
    before_break,
    of_degrees,
    of_python,
    of_sizes,
]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("gradients", [False, True])
def test_each_call(f: Callable[..., Any], gradients: bool, always: None) -> None:
    x = torch.ones(3, requires_grad=gradients)
    want = given(f, x)
    compiled = vesta.compile(f)
    assert given(compiled, x) == want
    assert want[0] == want[1]


def test_filters(always: None) -> None:
    """Shown once for a place by Python's default filter; an error where a filter says so."""
    x = torch.ones(3)
    compiled = vesta.compile(deprecated)
    shown = given(compiled, x, how="default")
    assert [len(w) for w in shown] == [1, 0, 0, 0]
    assert [len(w) for w in given(compiled, x)] == [1, 1, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in (deprecated, compiled, vesta.compile(deprecated)):
            with pytest.raises(UserWarning, match="_aminmax"):
                f(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled(x) == 2


def test_errors_of_filters_reach_the_handler(always: None) -> None:
    def f(x, log):
        log.append("a")
        try:
            torch._aminmax(x)
            log.append("b")
        except UserWarning:
            log.append("c")
        return x * 2

    compiled = vesta.compile(f)
    for how in ("ignore", "error", "ignore", "error"):
        with warnings.catch_warnings():
            warnings.simplefilter(how)  # type: ignore[arg-type]
            a: list[str] = []
            b: list[str] = []
            f(torch.ones(3), a)
            compiled(torch.ones(3), b)
            assert a == b


def test_one_graph(always: None) -> None:
    """A warning is no break."""
    explain = vesta.explain(deprecated)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            explain(torch.ones(3))
        found = explain.explanation
        assert not found.breaks and len(found.graphs) == 1 and found.graphs[0].hits + found.captures[0].aside == 3
        compiled = vesta.compile(deprecated, fullgraph=True)
        assert [float(compiled(torch.ones(3))) for _ in range(3)] == [2, 2, 2]


ONCE = """
import warnings, torch, vesta
def f(x):
    a, b = torch.meshgrid(x, x * 2)
    y = (a + b) * 2
    torch._aminmax(x)
    return y
with warnings.catch_warnings(record=True) as log:
    warnings.simplefilter("always")
    g = vesta.compile(f)
    for k in range(4):
        x = torch.ones(3, requires_grad={gradients})
        g(x)
        print(sorted(str(w.message).split()[0] for w in log))
        log.clear()
"""


@pytest.mark.parametrize("gradients", [False, True])
def test_once_in_a_process(gradients: bool) -> None:
    """A warning that torch gives once per process is given in the first call, however often programs are traced."""
    found = subprocess.run(
        [sys.executable, "-c", ONCE.format(gradients=gradients)], capture_output=True, text=True, check=True
    )
    first, *later = found.stdout.splitlines()
    assert first == "['_aminmax', 'torch.meshgrid:']" and later == ["[]"] * 3
    assert "Warning" not in found.stderr
