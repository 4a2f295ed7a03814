"""A compiled function keeps nothing alive that it was called with: objects die when their owner drops them."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import vesta

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")


def captured(compiled: Any) -> Any:
    return vesta.explain(compiled).explanation.captures[0]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("scale", torch.rand(16))
        self.listed = [nn.Linear(16, 16)]

    def forward(self, x):
        return self.listed[0](self.linear(x) * self.scale)


@dataclasses.dataclass
class Holding:
    weight: torch.Tensor
    module: nn.Module


def of_a_local_class() -> nn.Module:
    weight = torch.rand(16, 16)

    class Local(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x):
            return self.linear(x @ weight)

    return Local()


def a_closure() -> Callable[[torch.Tensor], torch.Tensor]:
    weight, module = torch.rand(16, 16), nn.Linear(16, 16)
    return lambda x: module(x @ weight)


def calls(f, x):
    return f(x) + 1


def asks_for_the_id(f, x):
    return f(x) * (id(f) % 5)


def hashes(f, x):
    return f(x) * (hash(f) % 5)


def is_a_key(f, x):
    return f(x) * {f: 2}[f]


def is_in_a_set(f, x):
    return f(x) * len({f, 3})


def finds_itself(f, x):
    return f(x) if f in [f] else x


def lists_parameters(f, x):
    return f(x) + sum(p.sum() for p in f.parameters())


def calls_functionally(f, x):
    return torch.func.functional_call(f, dict(f.named_parameters()), (x,))


def reads_the_state(f, x):
    return f(x) + sum(v.sum() for v in f.state_dict().values())


def breaks(f, x):
    y = x + 1
    print(end="")
    return f(y) * (id(f) % 5)


def writes(f, x):
    f.last = [x, {f: x}]
    return f(x)


def returns(f, x):
    return {f: f(x)}, type(f), f


def appends(f, x):
    f(x + 1)
    return x * 2


def of_a_dict(f, x):
    return sum(module(x) for module in f.values()) + sum(1 for key in f if isinstance(key, nn.Module))


MODULES: dict[str, Callable[[], Any]] = {
    "a module": Model,
    "an inference module": lambda: Model().eval().requires_grad_(False),
    "a convolution": lambda: nn.Sequential(nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)).eval(),
    "a module of a local class": of_a_local_class,
}
FUNCTIONS = [calls, asks_for_the_id, hashes, is_a_key, is_in_a_set, finds_itself, lists_parameters, calls_functionally]
FUNCTIONS += [reads_the_state, breaks, writes, returns]
CASES: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    f"{function.__name__}, {name}": (function, make) for function in FUNCTIONS for name, make in MODULES.items()
}
CASES |= {
    "a closure": (calls, a_closure),
    "a closure's id": (asks_for_the_id, a_closure),
    "a method": (calls, lambda: Model().forward),
    "a method's hash": (hashes, lambda: Model().forward),
    "a list's append": (appends, lambda: [torch.rand(3)].append),
    "a tensor's method": (appends, lambda: torch.rand(2, 16).__mul__),
    "a list": (lambda f, x: f[1](x @ f[0]), lambda: [torch.rand(16, 16), Model()]),
    "a dict": (lambda f, x: f["module"](x @ f["weight"]), lambda: {"weight": torch.rand(16, 16), "module": Model()}),
    "a dict by modules": (of_a_dict, lambda: (lambda m: {m: m})(Model())),
    "a dataclass": (lambda f, x: f.module(x @ f.weight), lambda: Holding(torch.rand(16, 16), Model())),
    "a tensor": (lambda f, x: x @ f, lambda: torch.rand(16, 16)),
    "a tensor's id": (lambda f, x: x @ f * (id(f) % 5), lambda: torch.rand(16, 16)),
    "a tensor in a set": (lambda f, x: x @ f * len({f}), lambda: torch.rand(16, 16)),
}


def parts(x: Any, seen: set[int]) -> list[Any]:
    """All that weak references can watch of what an argument leads to."""
    if id(x) in seen or isinstance(x, int | float | str | bool | type(None)):
        return []
    seen.add(id(x))
    found: list[Any] = []
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, list | tuple):
        inner: list[Any] = [*x]
    elif isinstance(x, dict):
        inner = [*x.keys(), *x.values()]
    elif isinstance(x, nn.Module):
        inner = [*x.modules(), *x.parameters(), *x.buffers(), *getattr(x, "listed", ())]
        if "<locals>" in type(x).__qualname__:
            inner += [type(x), type(x).forward, *(c.cell_contents for c in type(x).forward.__closure__)]
        found = [x]
    elif isinstance(x, Holding):
        inner, found = [x.weight, x.module], [x]
    elif isinstance(x, type):
        return [x]
    else:
        closure = getattr(x, "__closure__", None) or ()
        inner = [getattr(x, "__self__", None), *(cell.cell_contents for cell in closure)]
        found = [x] if closure else []
    return found + [p for y in inner for p in parts(y, seen)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("gradients", [False, True])
def test_what_is_dropped_dies(name: str, gradients: bool) -> None:
    function, make = CASES[name]
    compiled = vesta.compile(function)
    with torch.set_grad_enabled(gradients):
        for _ in range(3):
            f, x = make(), torch.rand(2, 16)
            wanted = function(f, x)
            for _ in range(2):
                result = compiled(f, x)
            found, expected = (
                [t for t in torch.utils._pytree.tree_leaves(r) if isinstance(t, torch.Tensor)] for r in (result, wanted)
            )
            torch.testing.assert_close(found, expected, msg=name)
            watched = [weakref.ref(part) for part in [*parts(f, set()), x]]
            assert len(watched) >= 2
            del f, x, wanted, result, found, expected
            # The program's own cycles wait for the collector.
            gc.collect()
            assert [part() for part in watched if part() is not None] == []
    report = captured(compiled)  # of variants whose objects are gone nothing is left to tell
    assert report.calls == 6 and report.hits + report.aside >= 3


@pytest.mark.parametrize("function", [calls, asks_for_the_id, is_a_key, lists_parameters, breaks])
def test_nothing_waits_for_the_collector(function: Callable[..., Any]) -> None:
    compiled = vesta.compile(function)
    gc.disable()
    try:
        for make in MODULES["a module"], MODULES["an inference module"]:
            with torch.no_grad():
                f, x = make(), torch.rand(2, 16)
                result = compiled(f, x), compiled(f, x)
                watched = [weakref.ref(part) for part in [*parts(f, set()), x]]
                del f, x, result
                assert [part() for part in watched if part() is not None] == []
    finally:
        gc.enable()


def test_an_address_that_is_used_again() -> None:
    """A new object in the place of one that went is another object."""

    class Thing:
        pass

    def function(thing, x):
        table = {thing: 2.0}
        return x * id(thing), table[thing]

    compiled = vesta.compile(function)
    x = torch.ones(2, dtype=torch.int64)
    places = set()
    for _ in range(40):
        thing = Thing()
        places.add(id(thing))
        assert compiled(thing, x)[0].tolist() == [id(thing)] * 2
        del thing
    assert len(places) < 40


def test_classes_that_come_and_go() -> None:
    def make(n: int) -> Any:
        class Local:
            factor = n

            def method(self, x):
                return x * self.factor

        return Local()

    compiled = vesta.compile(lambda thing, x: thing.method(x))
    x = torch.ones(2)
    for n in range(20):
        thing = make(n)
        kind = weakref.ref(type(thing))
        assert compiled(thing, x).tolist() == [n, n]
        del thing
        gc.collect()
        assert kind() is None


def test_variants_of_objects_that_are_gone_count() -> None:
    """A call with a new object each time is not compiled for ever."""
    compiled = vesta.compile(lambda f, x: f(x) * len({f}), options={"variant_limit": 4})
    for _ in range(12):
        f, x = nn.Linear(4, 4), torch.rand(2, 4)
        assert torch.equal(compiled(f, x), f(x))
    report = captured(compiled)
    assert report.fallbacks and "limit of 4 variants" in report.fallbacks[0].reason
    assert not report.graphs


MODEL: Any = None


def test_a_global_that_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "MODEL", None)
    globals()["MODEL"] = Model()
    compiled = vesta.compile(lambda x: MODEL(x) * (id(MODEL) % 5 + 1))
    compiled(torch.rand(2, 16))
    compiled(torch.rand(2, 16))
    watched = [weakref.ref(part) for part in parts(MODEL, set())]
    del globals()["MODEL"]
    gc.collect()
    assert [part() for part in watched if part() is not None] == []
    with pytest.raises(NameError):
        compiled(torch.rand(2, 16))


def test_an_attribute_of_a_class() -> None:
    class Holder:
        weight = torch.rand(4)
        module = nn.Linear(4, 4)

    compiled = vesta.compile(lambda x: Holder.module(x) + Holder.weight)
    x = torch.rand(2, 4)
    with torch.no_grad():
        compiled(x), compiled(x)
        watched = [weakref.ref(Holder.weight), weakref.ref(Holder.module), weakref.ref(Holder.module.weight)]
        Holder.weight, Holder.module = torch.ones(4), nn.Identity()
        assert [part() for part in watched if part() is not None] == []
        assert torch.equal(compiled(x), x + 1)


def test_functions_of_one_code_and_other_globals() -> None:
    code = compile("def function(x):\n    return helper(x) * factor\n", "<generated>", "exec")
    spaces = [{"factor": n, "helper": helper} for n, helper in ((2.0, torch.relu), (3.0, torch.exp))]
    for space in spaces:
        exec(code, space)
    compiled = vesta.compile(calls)
    x = torch.linspace(-1, 1, 5)
    for _ in range(2):
        for space in spaces:
            torch.testing.assert_close(compiled(space["function"], x), calls(space["function"], x))


def test_others_are_still_told() -> None:
    """A program that releases an object that others watch is a break, whether or not Vesta watches it, too."""
    told = []

    def function(thing, x):
        y = x * (id(thing) % 7)
        thing = None
        told.append(len(told))
        return y + 1

    class Thing:
        pass

    compiled = vesta.compile(function)
    for _ in range(3):
        thing = Thing()
        x = torch.ones(2)
        wanted = function(thing, x)
        assert torch.equal(compiled(thing, x), wanted)
        assert torch.equal(compiled(thing, x), wanted)
    assert told == [*range(9)]
