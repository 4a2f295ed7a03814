"""Layers, parameters and buffers of modules: read without running torch.nn.Module.__getattr__, with the same guards."""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import vesta

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")

X = torch.tensor([[-1.0, 2.0, 3.0]])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.register_parameter("none", None)
        self.register_buffer("shift", torch.tensor([4.0, 5.0, 6.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x) * self.weight + self.shift
        return y if self.none is None else y + self.none


def calls_of(m: nn.Module, changes: list[Callable[[], Any]]) -> Any:
    """Compiled and eager results before the changes and after each of them are equal; the report of the calls."""
    vesta.reset()
    compiled = vesta.compile(m)
    with torch.no_grad():
        for change in [lambda: None, *changes]:
            change()
            torch.testing.assert_close(compiled(X), m(X), rtol=1e-5, atol=1e-5)
    return vesta.explain(compiled).explanation


def test_torchs_function_is_known() -> None:
    assert vesta._C.is_getattr_of_modules(nn.Module.__getattr__)


def test_other_functions_are_not() -> None:
    f = nn.Module.__getattr__
    other = f.__code__.replace(co_consts=tuple("_others" if c == "_buffers" else c for c in f.__code__.co_consts))
    assert not vesta._C.is_getattr_of_modules(types.FunctionType(other, f.__globals__))
    assert not vesta._C.is_getattr_of_modules(types.FunctionType(other, globals()))
    assert not vesta._C.is_getattr_of_modules(nn.Module.__call__)
    assert not vesta._C.is_getattr_of_modules(len)


def test_parts_that_are_replaced_are_seen() -> None:
    m = Model()

    def replace_buffer() -> None:
        m.shift = torch.tensor([7.0, 8.0, 9.0])

    def give_parameter() -> None:
        m.none = nn.Parameter(torch.tensor([1.0, 1.0, 1.0]))

    def replace_layer() -> None:
        m.layer = nn.Linear(3, 3, bias=False)

    def by_instance() -> None:
        m.__dict__["shift"] = torch.tensor([0.5, 0.5, 0.5])

    assert not calls_of(m, [replace_buffer, give_parameter, replace_layer, by_instance]).breaks


def test_a_buffer_in_the_place_of_a_parameter() -> None:
    m = Model()

    def change() -> None:
        del m.weight
        m.register_buffer("weight", torch.tensor([2.0, 2.0, 2.0]))

    calls_of(m, [change])


def test_what_is_missing_raises_eagers_error() -> None:
    m = Model()
    compiled = vesta.compile(m)
    with torch.no_grad():
        compiled(X)
        del m.weight
        with pytest.raises(AttributeError, match="'Model' object has no attribute 'weight'"):
            compiled(X)
        m.weight = nn.Parameter(torch.ones(3))
        torch.testing.assert_close(compiled(X), m(X))


def test_an_error_that_the_program_expects() -> None:
    class Optional(Model):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return x + self.extra
            except AttributeError:
                return x * getattr(self, "other", 3.0)

    m = Optional()

    def add() -> None:
        m.register_buffer("extra", torch.ones(3))

    calls_of(m, [lambda: setattr(m, "other", 5.0), add])


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_tables_of_both_kinds(kind: type) -> None:
    m = Model()
    for table in ("_parameters", "_buffers", "_modules"):
        m.__dict__[table] = kind(m.__dict__[table])
    assert not calls_of(m, [lambda: m._buffers.update(shift=torch.zeros(3))]).breaks


class Counting(dict[str, Any]):
    reads = 0

    def __getitem__(self, key: str) -> Any:
        Counting.reads += 1
        return super().__getitem__(key)


def test_a_table_with_code_of_its_own_is_asked() -> None:
    m = Model()
    m.__dict__["_buffers"] = Counting(m._buffers)
    with torch.no_grad():
        m(X)
        per_call, Counting.reads = Counting.reads, 0
        compiled = vesta.compile(m)
        for _ in range(3):
            compiled(X)
    assert Counting.reads == 3 * per_call


class OwnHook(Model):
    def __getattr__(self, name: str) -> Any:
        if name == "scale":
            return 2.0
        return super().__getattr__(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.scale


class OwnDict(Model):
    @property
    def __dict__(self) -> Any:
        return {"_parameters": {"weight": torch.tensor([9.0, 9.0, 9.0])}, **object.__getattribute__(self, "seen")}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def test_classes_with_a_hook_of_their_own() -> None:
    calls_of(OwnHook(), [])


def test_a_class_with_a_dict_of_its_own() -> None:
    m = OwnDict.__new__(OwnDict)
    object.__setattr__(m, "seen", {})
    with torch.no_grad():
        expected = OwnDict.forward(m, X)
        torch.testing.assert_close(vesta.compile(OwnDict.forward)(m, X), expected)
        torch.testing.assert_close(expected, X * 9)


def test_a_hook_that_is_patched_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    m = Model()
    compiled = vesta.compile(m)
    own = nn.Module.__getattr__

    def doubled(self: nn.Module, name: str) -> Any:
        x = own(self, name)
        return x * 2 if name == "shift" else x

    with torch.no_grad():
        compiled(X)
        monkeypatch.setattr(nn.Module, "__getattr__", doubled)
        torch.testing.assert_close(compiled(X), m(X))
        patched = m(X)
        monkeypatch.undo()
        torch.testing.assert_close(compiled(X), m(X))
        assert not torch.equal(patched, m(X))
