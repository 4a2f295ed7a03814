"""Class statements in compiled functions: one that nothing reads costs nothing, any other is made in each call."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

import vesta
from tests.capture.captured import made_of

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")

X = torch.tensor([-1.0, 2.0, 3.0])
SCALE = 2.0
LOG: list[str] = []


class Registered:
    names: ClassVar[list[str]] = []

    def __init_subclass__(cls) -> None:
        Registered.names.append(cls.__name__)


class Meta(type):
    made = 0

    def __init__(cls, name: str, bases: Any, space: Any) -> None:
        super().__init__(name, bases, space)
        Meta.made += 1


class Descriptor:
    def __set_name__(self, owner: type, name: str) -> None:
        LOG.append(name)


def unused(x: torch.Tensor) -> torch.Tensor:
    class Unused(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            return inner(a)

    def inner(a: torch.Tensor) -> torch.Tensor:
        return a * 3 if a.dim() else Unused.apply(a)

    return inner(x + 1)


def with_docstring(x: torch.Tensor) -> torch.Tensor:
    class Unused:
        """Text."""

        size: int = 3
        __slots__ = ("a",)

        def method(self) -> Any:
            return super().__repr__(), __class__  # type: ignore[name-defined]

    return x.relu() + 1


@pytest.mark.parametrize("function", [unused, with_docstring], ids=lambda f: f.__name__)
def test_an_unused_class_is_no_break(function: Callable[..., Any]) -> None:
    compiled = vesta.compile(function)
    for x in (X, X + 1):
        assert torch.equal(compiled(x), function(x))
    made = made_of([compiled])
    assert made and made.graphs == 1 and not made.breaks and not made.fallbacks and made.hits == 1


def reads_attribute(x: torch.Tensor) -> Any:
    class C:
        y = 3

    return x * C.y


def makes_object(x: torch.Tensor) -> Any:
    class C:
        def __init__(self, v: torch.Tensor) -> None:
            self.v = v

    return C(x + 1).v * 2


def asks_class(x: torch.Tensor) -> Any:
    class C:
        pass

    return x + (1 if isinstance(x, C) else 2)


def derives(x: torch.Tensor) -> Any:
    class A:
        y = 2

    class B(A):
        pass

    return x + B.y


def decorated(x: torch.Tensor) -> Any:
    @dataclass
    class C:
        v: Any

    return C(x + 1).v


def applies(x: torch.Tensor) -> Any:
    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return g * 2

    return F.apply(x + 1)


def names_it(x: torch.Tensor) -> Any:
    class C:
        pass

    return x + 1, C.__qualname__, f"{C}"


def as_key(x: torch.Tensor) -> Any:
    class C:
        pass

    return {C: x}[C] + len({C, int})


def raises(x: torch.Tensor) -> Any:
    class Wrong(ValueError):
        pass

    try:
        if x.dim() == 1:
            raise Wrong("no")
    except Wrong as error:
        return x + len(str(error))
    return x


def body_reads_global(x: torch.Tensor) -> Any:
    class C:
        y = SCALE

    return x + 1


def body_raises(x: torch.Tensor) -> Any:
    try:

        class C:
            y = {}["missing"]
    except KeyError:
        return x - 1
    return x


def body_appends(x: torch.Tensor) -> Any:
    class C:
        LOG.append("body")

    return x + 1


def registers(x: torch.Tensor) -> Any:
    class C(Registered):
        pass

    return x + 1


def by_metaclass(x: torch.Tensor) -> Any:
    class C(metaclass=Meta):
        pass

    return x + 1


def by_inherited_metaclass(x: torch.Tensor) -> Any:
    class C(BY_META):
        pass

    return x + 1


BY_META = Meta("BY_META", (), {})


def names_descriptor(x: torch.Tensor) -> Any:
    class C:
        field = Descriptor()

    return x + 1


@pytest.mark.parametrize(
    "function",
    [
        reads_attribute,
        makes_object,
        asks_class,
        derives,
        decorated,
        applies,
        names_it,
        as_key,
        raises,
        body_reads_global,
        body_raises,
        body_appends,
        registers,
        by_metaclass,
        by_inherited_metaclass,
        names_descriptor,
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("gradients", [False, True])
def test_what_reads_or_sees_the_class_is_as_in_eager(function: Callable[..., Any], gradients: bool) -> None:
    def state() -> Any:
        return list(LOG), list(Registered.names), Meta.made

    def run(f: Callable[..., Any]) -> Any:
        LOG.clear(), Registered.names.clear()
        Meta.made = 0
        return [(f((X + i).requires_grad_(gradients)), state()) for i in range(3)]

    expected, found = run(function), run(vesta.compile(function))
    for (a, seen), (b, seen_compiled) in zip(expected, found, strict=True):
        parts = list(zip(a, b, strict=True)) if isinstance(a, tuple) else [(a, b)]
        assert all(torch.equal(u, v) if isinstance(u, torch.Tensor) else u == v for u, v in parts)
        assert seen == seen_compiled


def test_a_returned_class_is_another_in_each_call() -> None:
    def function(x: torch.Tensor) -> Any:
        class C:
            pass

        return x + 1, C

    compiled = vesta.compile(function)
    (_, first), (_, second) = compiled(X), compiled(X)
    assert isinstance(first, type) and first is not second and first.__name__ == "C"


def test_a_global_that_the_body_reads_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        class C:
            if SCALE > 2:
                raise ValueError("too large")

        return x + 1

    compiled = vesta.compile(function)
    assert torch.equal(compiled(X), X + 1)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    with pytest.raises(ValueError, match="too large"):
        compiled(X)


def test_the_class_of_a_trace_goes_with_it() -> None:
    def make() -> tuple[Callable[..., Any], type]:
        class Base:
            pass

        def function(x: torch.Tensor) -> torch.Tensor:
            class C(Base):
                pass

            return x + 1

        return function, Base

    function, base = make()
    compiled = vesta.compile(function)
    compiled(X), compiled(X)
    gc.collect()
    assert not base.__subclasses__()
    gone = weakref.ref(base)
    del base, function, compiled
    gc.collect()
    assert gone() is None


def test_masked_operators_have_no_breaks() -> None:
    compiled = vesta.compile(lambda x, m: torch.masked.softmax(x, 0, mask=m) + torch.masked.sum(x, mask=m))
    for mask in (X > 0, X > 2):
        expected = torch.masked.softmax(X, 0, mask=mask) + torch.masked.sum(X, mask=mask)
        torch.testing.assert_close(compiled(X, mask), expected, equal_nan=True)
    made = made_of([compiled])
    assert made and not made.breaks and not made.fallbacks and made.hits == 1
