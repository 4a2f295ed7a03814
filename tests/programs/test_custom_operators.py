"""Operators of torch.library that write to their arguments, and factories that write to an out= tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import vesta
from tests.build import generates_code
from tests.numerics.wide_runs import copies


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    """Written with NumPy, so that nothing can look into them."""
    lib = torch.library.Library("vesta_written", "DEF")

    def scale(x: torch.Tensor, by: float) -> None:
        x.numpy().__imul__(by)

    def swap(x: torch.Tensor, y: torch.Tensor) -> None:
        a, b = x.numpy(), y.numpy()
        a[...], b[...] = b.copy(), a.copy()

    def push(stack: list[torch.Tensor], x: torch.Tensor, count: torch.Tensor | None = None) -> torch.Tensor:
        for t in stack:
            t.numpy().__iadd__(x.numpy())
        if count is not None:
            count.numpy().__iadd__(len(stack))
        return torch.from_numpy(x.numpy().sum(keepdims=True).reshape(1))

    lib.define("scale(Tensor(a!) x, float by) -> ()")
    lib.impl("scale", scale, "CPU")
    lib.define("swap(Tensor(a!) x, Tensor(b!) y) -> ()")
    lib.impl("swap", swap, "CompositeExplicitAutograd")
    lib.define("push(Tensor(a!)[] stack, Tensor x, Tensor(b!)? count=None) -> Tensor")
    lib.impl("push", push, "CPU")
    lib.impl("push", lambda stack, x, count=None: x.new_empty(1), "Meta")
    yield
    lib._destroy()


def scaled(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch.ops.vesta_written.scale(y, 3.0)
    torch.ops.vesta_written.scale(x, 2.0)
    return y + x


def scaled_view(x: torch.Tensor) -> torch.Tensor:
    torch.ops.vesta_written.scale(x[1:].t(), 2.0)
    return x * 2


def swapped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch.ops.vesta_written.swap(x, y)
    return x - 2 * y


def pushed(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    count = torch.zeros(1)
    first = torch.ops.vesta_written.push([y, y * 2], x, count)
    second = torch.ops.vesta_written.push([y], x)
    return first + 1, second * 2, count, y * 2


def matrices(n: int) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    return [torch.randn(4, 4, generator=g) for _ in range(n)]


def compare(program: Callable[..., Any], inputs: list[torch.Tensor]) -> Any:
    compiled = vesta.trace_and_compile(program)
    for _ in range(2):
        ours, theirs = copies(inputs), copies(inputs)
        torch.testing.assert_close(compiled(*ours), program(*theirs), rtol=1e-6, atol=1e-6)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
    return compiled.report()


@pytest.mark.parametrize(("program", "inputs"), [(scaled, 1), (scaled_view, 1), (swapped, 2), (pushed, 2)])
def test_what_an_operator_writes_is_written(program: Callable[..., Any], inputs: int):
    report = compare(program, matrices(inputs))
    assert not report.fallbacks
    (variant,) = report.variants
    assert any("vesta_written" in x.op for x in variant.externs)
    assert bool(variant.kernels) == generates_code()


def test_through_dynamo():
    torch._dynamo.reset()
    vesta.reset()
    compiled = torch.compile(scaled, backend="vesta")
    ours, theirs = matrices(1), matrices(1)
    torch.testing.assert_close(compiled(*ours), scaled(*theirs), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_arguments_that_share_memory():
    (x,) = matrices(1)
    report = compare(lambda x: (torch.ops.vesta_written.swap(x[:2], x[1:3]), x + 1)[1], [x])
    assert any("shares memory" in f.reason for f in report.fallbacks)


FACTORIES: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "arange": (lambda out: torch.arange(1, 6, out=out) * 2, torch.empty(5)),
    "arange of integers": (lambda out: torch.arange(1, 6, out=out) * 2, torch.empty(5, dtype=torch.int32)),
    "arange into strides": (lambda out: torch.arange(1, 6, out=out) * 2, torch.empty(10)[::2]),
    "arange into nothing": (lambda out: torch.arange(1, 6, out=out) * 2, torch.empty(0)),
    "linspace": (lambda out: torch.linspace(0, 1, 7, out=out) + 1, torch.empty(7)),
    "linspace in half precision": (lambda out: torch.linspace(0, 1, 7, out=out) + 1, torch.empty(7).bfloat16()),
    "logspace": (lambda out: torch.logspace(0, 1, 7, out=out) + 1, torch.empty(7)),
    "eye": (lambda out: torch.eye(3, out=out) * 3, torch.empty(3, 3)),
    "eye of two sizes": (lambda out: torch.eye(3, 4, out=out) * 3, torch.empty(4, 3).t()),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_into_a_given_tensor(name: str):
    program, out = FACTORIES[name]
    report = compare(program, [out])
    assert name == "arange into nothing" or not report.fallbacks


@pytest.mark.parametrize("transposed", [False, True])
def test_what_an_operator_in_python_returns_is_not_copied(transposed: bool) -> None:
    made: list[int] = []

    def doubled(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        made.append(y.data_ptr())
        return y

    name = f"vesta_made::doubled_{transposed}"
    operator = torch.library.custom_op(name, doubled, mutates_args=(), schema="(Tensor x) -> Tensor")
    operator.register_fake(torch.empty_like)

    def f(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = operator(x.sin())
        return y.t() if transposed else y

    compiled, x = vesta.compile(f, options={"only_if_faster": False}), torch.randn(64, 64)
    (graph,) = vesta.explain(compiled)(x).graphs
    assert graph.compiled
    for _ in range(2):
        y = compiled(x)
        assert y.data_ptr() == made[-1]
    torch.testing.assert_close(y, f(x))
