"""Attributes found on classes of tensors are guarded: subclasses, bases, metaclasses and torch.Tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vesta
from tests.build import generates_code

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")

Case = tuple[Callable[..., Any], tuple[Any, ...], list[Callable[[], Any]]]
CASES: dict[str, Callable[[], Case]] = {}
PLAIN = torch.arange(4.0) - 1.5


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[function.__name__] = function
    return function


def subclass(**attributes: Any) -> tuple[Any, torch.Tensor]:
    kind: Any = type("Sub", (torch.Tensor,), attributes)
    return kind, PLAIN.clone().as_subclass(kind)


def put(owner: Any, name: str, *values: Any) -> list[Callable[[], Any]]:
    """Each of the values under the name, and then nothing."""
    return [*(lambda v=v: setattr(owner, name, v) for v in values), lambda: delattr(owner, name)]


@case
def a_method() -> Case:
    kind, x = subclass()
    return lambda x: x.sigmoid(), (x,), put(kind, "sigmoid", False, lambda x: x + 1, torch.Tensor.exp)


@case
def a_method_of_its_own() -> Case:
    kind, x = subclass(
        twice=lambda x: x * 2, alone=staticmethod(lambda x: x * 2), kind=classmethod(lambda cls, x: x * 2)
    )
    changes = [
        lambda: setattr(kind, "twice", lambda x: x * 3),
        lambda: setattr(kind, "alone", staticmethod(lambda x: x * 3)),
        lambda: setattr(kind, "kind", classmethod(lambda cls, x: x * 3)),
    ]
    return lambda x: x.twice() + kind.alone(x) + x.kind(x), (x,), changes


@case
def a_value() -> Case:
    kind, x = subclass(k=2.0)
    others = 3.0, 4, torch.full((4,), 5.0), torch.full((4,), 6.0), property(lambda x: 7.0)
    return lambda x: x * x.k, (x,), put(kind, "k", *others)


@case
def a_value_of_a_base() -> Case:
    base: Any = type("Base", (torch.Tensor,), {"k": 2.0})
    kind: Any = type("Sub", (base,), {})
    return (
        lambda x: x * x.k,
        (PLAIN.as_subclass(kind),),
        [*put(base, "k", 3.0)[:1], *put(kind, "k", 4.0), *put(base, "k")],
    )


@case
def a_base() -> Case:
    class Sub(torch.Tensor):
        def twice(self):
            return super().sigmoid()

    class Other(torch.Tensor):
        def sigmoid(self):
            return self * 7

    x = PLAIN.as_subclass(Sub)
    return lambda x: x.twice(), (x,), [lambda: setattr(Sub, "__bases__", (Other,)), *put(Other, "sigmoid", lambda x: x)]


@case
def an_attribute_that_is_missing() -> Case:
    kind, x = subclass()
    return lambda x: x * 2 if hasattr(x, "flag") else x + 1, (x,), put(kind, "flag", 3.0)


@case
def a_property() -> Case:
    kind, x = subclass(part=property(lambda x: x * 2))
    return lambda x: x.part, (x,), put(kind, "part", property(lambda x: x * 3), 4)


@case
def getattr_of_the_class() -> Case:
    kind, x = subclass()
    return lambda x: getattr(x, "part", 3), (x,), put(kind, "__getattr__", lambda x, name: 5, lambda x, name: 6)


@case
def getattribute_of_the_class() -> Case:
    kind, x = subclass()
    return lambda x: x.sigmoid(), (x,), put(kind, "__getattribute__", lambda x, name: lambda: 5)


@case
def torch_function() -> Case:
    kind, x = subclass()

    def times(n: int) -> Any:
        return classmethod(lambda cls, f, types, args=(), kw=None: PLAIN * n)

    disabled = torch._C._disabled_torch_function_impl
    return lambda x: torch.relu(x) + 1, (x,), put(kind, "__torch_function__", times(2), times(3), disabled, None)


@case
def torch_function_of_the_other_operand() -> Case:
    kind, x = subclass()
    seven = classmethod(lambda cls, f, types, args=(), kw=None: 7)
    return lambda plain, x: plain + x, (PLAIN, x), put(kind, "__torch_function__", seven)


@case
def what_torch_function_reads() -> Case:
    class Sub(torch.Tensor):
        factor = 2.0

        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None):
            result = super().__torch_function__(f, types, args, kwargs or {})
            return result * cls.factor if f is torch.Tensor.relu else result

    return lambda x: x.relu(), (PLAIN.as_subclass(Sub),), put(Sub, "factor", 3.0, 4.0)


@case
def an_operator() -> Case:
    kind, x = subclass()
    return lambda x: x + 1, (x,), put(kind, "__add__", lambda x, y: x * 4, None)


@case
def a_reflected_operator() -> Case:
    kind, x = subclass()
    return lambda plain, x: (1 + x) + (plain + x), (PLAIN, x), put(kind, "__radd__", lambda x, y: x * 4)


@case
def an_operator_in_place() -> Case:
    kind, x = subclass()

    def function(x):
        y = x.clone()
        y += 1
        return y

    return function, (x,), put(kind, "__iadd__", lambda x, y: x * 4)


@case
def other_operators() -> Case:
    kind, x = subclass()
    changes = [*put(kind, "__neg__", lambda x: x * 4), *put(kind, "__getitem__", lambda x, i: 1 / 0)]
    changes += [*put(kind, "__len__", lambda x: 9), *put(kind, "__lt__", lambda x, y: x)]
    return lambda x: (-x + x[0] * len(x), x < 1), (x,), changes


@case
def truth() -> Case:
    kind, x = subclass()
    return lambda x: x * 2 if x.sum() is not None and x.mean else x, (x,), put(kind, "mean", False)


@case
def a_metaclass() -> Case:
    meta: Any = type("Meta", (type(torch.Tensor),), {"z": 2.0})
    kind: Any = meta("Sub", (torch.Tensor,), {})
    changes = [*put(meta, "z", 3.0)[:1], *put(kind, "z", 4.0)]
    return lambda x: x * type(x).z, (PLAIN.as_subclass(kind),), changes


@case
def instance_checks() -> Case:
    meta: Any = type("Meta", (type,), {})
    kind: Any = meta("Kind", (), {})
    _, x = subclass()
    yes, no = (lambda cls, x: True), (lambda cls, x: False)
    return lambda x: x * 2 if isinstance(x, (kind, int)) else x, (x,), put(meta, "__instancecheck__", yes, no)


@case
def the_class_of_a_result() -> Case:
    kind, x = subclass()
    return lambda x: torch.relu(x).abs(), (x,), put(kind, "abs", False, lambda x: x)


@case
def the_class_of_a_new_tensor() -> Case:
    kind, _ = subclass()
    return lambda x: x.as_subclass(kind).abs(), (PLAIN,), put(kind, "abs", False, lambda x: x)


@case
def another_class() -> Case:
    _, x = subclass()
    other: Any = type("Other", (torch.Tensor,), {"z": 5})
    return lambda x: x.relu() * getattr(x, "z", 3), (x,), [lambda: setattr(x, "__class__", other)]


@case
def a_parameter() -> Case:
    x = torch.nn.Parameter(PLAIN.clone(), requires_grad=False)
    return lambda x: x.relu() + x, (x,), put(torch.nn.Parameter, "relu", lambda x: x * 2)


@case
def attributes_of_one_tensor() -> Case:
    x = PLAIN.clone()
    return lambda x: x.relu() * getattr(x, "k", 2), (x,), [*put(x, "relu", 5, lambda: PLAIN), *put(x, "k", 3, 4)]


@case
def attributes_of_one_tensor_from_the_start() -> Case:
    x = torch.nn.Parameter(PLAIN.clone(), requires_grad=False)
    x.relu = lambda: PLAIN * 3  # type: ignore[method-assign]
    return lambda x: x.relu(), (x,), [lambda: delattr(x, "relu"), *put(x, "relu", lambda: PLAIN)]


@case
def attributes_of_one_tensor_of_a_subclass() -> Case:
    _, x = subclass()
    return lambda x: x.relu() * getattr(x, "k", 2), (x,), [*put(x, "relu", lambda: PLAIN), *put(x, "k", 3, 4)]


@case
def a_method_that_torch_lacks() -> Case:
    torch.Tensor.vesta_thrice = lambda x: x * 3  # type: ignore[attr-defined]
    others = (lambda x: x * 4), torch.Tensor.exp, 3.0
    return lambda x: x.vesta_thrice() + 1, (PLAIN,), put(torch.Tensor, "vesta_thrice", *others)


@case
def an_attribute_that_torch_lacks() -> Case:
    return lambda x: x * 2 if hasattr(x, "vesta_flag") else x + 1, (PLAIN,), put(torch.Tensor, "vesta_flag", 3.0)


@case
def a_method_of_torch() -> Case:
    return lambda x: x.sigmoid(), (PLAIN,), put(torch.Tensor, "sigmoid", lambda x: x * 4, False)


@case
def an_operator_of_torch() -> Case:
    return lambda x: x + 1, (PLAIN,), put(torch.Tensor, "__add__", lambda x, y: x * 4)


@case
def the_truth_of_a_method_of_torch() -> Case:
    return lambda x: x * 2 if torch.Tensor.mean else x + 1, (PLAIN,), put(torch.Tensor, "mean", False)


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        found = function(*args)
    except Exception as error:
        return type(error), str(error)
    parts = found if isinstance(found, tuple) else (found,)
    return tuple((type(p), p.tolist() if isinstance(p, torch.Tensor) else p) for p in parts)


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen(name: str) -> None:
    own = dict(vars(torch.Tensor))
    function, args, changes = CASES[name]()
    compiled = vesta.compile(function)
    try:
        seen = []
        for change in [lambda: None, *changes]:
            change()
            wanted = outcome(function, args)
            for _ in range(2):
                found = outcome(compiled, args)
                assert repr(found) == repr(wanted), name
            seen.append(wanted)
        assert any(one != seen[0] for one in seen)
        # A program of few calls runs eager, and the graph of what does not exist any more is gone.
        assert vesta.explain(compiled).explanation.captures[0].graphs or not generates_code()
    finally:
        for added in vars(torch.Tensor).keys() - own.keys():
            delattr(torch.Tensor, added)
        for name, value in own.items():
            if vars(torch.Tensor)[name] is not value:
                setattr(torch.Tensor, name, value)


def test_no_change_is_no_recompile() -> None:
    kind, x = subclass(k=2.0)
    compiled = vesta.compile(lambda x: x.relu() * x.k + x)
    for n in range(6):
        kind.other = n  # another version of the class, and all that the program read is what it was
        torch.Tensor.vesta_other = n  # type: ignore[attr-defined]
        compiled(x)
        compiled(x)
    del torch.Tensor.vesta_other  # type: ignore[attr-defined]
    compiled(x)
    assert vesta.explain(compiled).explanation.captures[0].misses == 1
