"""Lifetimes: calls of a compiled function leave nothing behind, and it keeps nothing alive that its owner drops."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import itertools
import logging
import os
import sys
import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.build import generates_code

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")

SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")  # freed memory stays in quarantine


@pytest.fixture(autouse=True)
def no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest keeps what torch logs of a compile."""
    for handler in logging.getLogger().handlers:
        monkeypatch.setattr(handler, "level", logging.CRITICAL)


def rss() -> float:
    """MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "used", "free", "keepcost")]


_mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
if _mallinfo is not None:
    _mallinfo.restype = _Mallinfo


def allocated() -> int:
    """Bytes that malloc has given out: what RSS grows by, without the allocator's noise."""
    info = _mallinfo() if _mallinfo and not SANITIZED else _Mallinfo()
    return info.used + info.hblkhd


def collect() -> None:
    """Also what is let go when a collection's weak references tell of it."""
    while gc.collect():
        pass


def captured(compiled: Any) -> Any:
    return vesta.explain(compiled).explanation.captures[0]


# Calls


@dataclass
class Kind:
    function: Callable[..., Any]
    arguments: Callable[[torch.Tensor, int], tuple[Any, ...]]  # of call number n
    raises: type[BaseException] | None
    breaks: bool


KINDS: dict[str, Kind] = {}


def kind(
    arguments: Callable[[torch.Tensor, int], tuple[Any, ...]] = lambda x, n: (x,),
    *,
    raises: type[BaseException] | None = None,
    breaks: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        KINDS[function.__name__] = Kind(function, arguments, raises, breaks)
        return function

    return add


@kind(breaks=False)
def no_break(x):
    return {"y": x + 1, "z": [x, (x * 2, 3)]}


@kind()
def printed(x):
    y = x + 1
    print(end="")
    return y * 2, [y]


@kind()
def item(x):
    return x * x.sum().item()


@kind()
def branch(x):
    return x + 1 if x.sum() > 0 else x - 1


@kind(lambda x, n: (x, b"unknown"))
def c_function(x, data):
    y = x + 1
    return y * (zlib.crc32(data) % 3)


@kind(breaks=False)
def caught(x):
    try:
        return x[7, 7, 7]
    except IndexError as error:
        return x * len(error.args)


@kind()
def caught_after_a_break(x):
    try:
        y = x + 1
        print(end="")
        return {}[id(y)]
    except KeyError as error:
        return x * len(error.args)
    finally:
        y = None


@kind(raises=ValueError)
def uncaught(x):
    y = x + 1
    print(end="")
    raise ValueError(y)


@kind(raises=ZeroDivisionError)
def uncaught_in_a_callee(x):
    def divide(y, n):
        z = y * 2
        print(end="")
        return z / (1 // n)

    return divide(x + 1, 0)


@vesta.disable
def not_compiled(x, options):
    return x + options["more"]


@kind()
def disabled(x):
    return not_compiled(x + 1, {"more": x}) * 2


@kind()
def through_numpy(x):
    array = (x + 1).numpy()
    return torch.from_numpy(array * 2) + 1


@kind(lambda x, n: (x, [], {"old": x}, SimpleNamespace(count=0)), breaks=False)
def side_effects(x, items, table, place):
    items.append(x * 2)
    table["new"] = (x, x + 1)
    del table["old"]
    place.count += 1
    place.last = items
    return items


@kind(lambda x, n: (x, [], SimpleNamespace(count=0)))
def side_effects_and_a_break(x, items, place):
    items.append(x * 2)
    place.last = [x, lambda: x]
    print(end="")
    items.append(place.last)
    place.count += len(items)
    return items


@kind(lambda x, n: (x, (x + i for i in range(3))))
def generator(x, terms):
    for term in terms:
        x = x + term
    return x


@kind(breaks=False)
def generator_inside(x):
    def terms():
        for i in range(3):
            yield x * i

    return sum(terms()), [*zip(terms(), terms(), strict=True)]


@kind(lambda x, n: (x, 0.5 + n % 50))
def varying_float(x, scale):
    y = x * scale
    print(f"{scale:.3}", end="", file=NOWHERE)
    return y + scale


@kind(lambda x, n: (x, f"name {n % 50}"))
def varying_text(x, name):
    y = x + len(name)
    print(name.upper(), end="", file=NOWHERE)
    return y, name + "!"


@kind(lambda x, n: (torch.ones(2 + n % 5, 3), n % 5))
def varying_sizes(x, n):
    y = x * n
    print(end="")
    return y + x.shape[0]


@kind()
def in_a_callee(x):
    def callee(y, *rest, **named):
        z = y * 2
        print(end="")
        return z + 1, rest, named

    return callee(x + 1, x, [x], other={"x": x})


@kind()
def in_a_loop(x):
    for i in range(3):
        x = x + i
        print(end="")
    return x


@kind()
def in_a_with_block(x):
    with contextlib.nullcontext([x]) as held:
        y = held[0] + 1
        print(end="")
        y = y * 2
    return y


class Handled:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.args = error.args
        return True


@kind()
def in_a_with_block_that_handles(x):
    with Handled() as handled:
        y = x + 1
        print(end="")
        raise ValueError("handled", len(y))
    return y * 2, handled.args


@kind()
def closures(x):
    y = x + 1

    def inner():
        nonlocal y
        y = y * 2
        return y

    print(end="")
    return inner(), inner


@kind(lambda x, n: (x.clone().requires_grad_(),))
def gradients(x):
    y = x * 2
    print(end="")
    return (y * y).sum()


class Nowhere:
    def write(self, text: str) -> None: ...


NOWHERE = Nowhere()


@dataclass
class Alive:
    """The memory and objects of a process; a small constant in each is Python's own."""

    references: list[int]
    objects: int
    blocks: int
    malloc: int
    rss: float

    @classmethod
    def now(cls, things: list[Any]) -> Alive:
        collect()
        references = [sys.getrefcount(thing) for thing in things]
        return cls(references, len(gc.get_objects()), sys.getallocatedblocks(), allocated(), rss())


# Calls of slow functions are compiled, too.
compile_always = functools.partial(vesta.compile, options={"only_if_faster": False})


def call_many(name: str, compile: Callable[[Any], Any], calls: int) -> None:
    """Fails if what is held after `calls` calls, a few rounds of them, grows from round to round."""
    row = KINDS[name]
    compiled = compile(row.function)
    x = torch.rand(3, 4) + 0.1
    things = [x, row.function, row.function.__code__, row.function.__globals__, Handled, ValueError, Exception]
    things += [type(x), torch, (), "", None, True, 0.5, NOWHERE, print, *row.arguments(x, 0)[1:2]]
    numbers = itertools.count()

    def many(count: int) -> None:
        for n in itertools.islice(numbers, count):
            given = row.arguments(x, n)
            try:
                result = compiled(*given)
                if name == "gradients":
                    result.backward()
            except (ValueError, ZeroDivisionError) as error:
                assert row.raises is not None and isinstance(error, row.raises)
        given = result = None

    many(200)  # as many variants as there will be, and every cache full
    held = [Alive.now(things)]
    for _ in range(4):
        many(calls // 4)
        held.append(Alive.now(things))

    # The least round counts: a leak grows in every round.
    def growth(of: Callable[[Alive], float]) -> float:
        return min(of(after) - of(before) for before, after in itertools.pairwise(held))

    some = calls // 4 // 20
    blocks = some if name != "gradients" else calls // 4 // 2  # autograd.Function of torch 2.11 comes to a rest slowly
    assert [growth(lambda h, i=i: h.references[i]) > some for i in range(len(things))] == [False] * len(things)
    assert growth(lambda h: h.objects) < some
    assert growth(lambda h: h.blocks) < blocks
    assert growth(lambda h: h.malloc) < calls // 4 * 4
    if not SANITIZED:
        assert growth(lambda h: h.rss) < 0.25, held
        assert held[-1].rss - held[0].rss < 8, held
    if compile is compile_always:
        report = captured(compiled)
        assert report.graphs and bool(report.breaks) == row.breaks, report
        if generates_code():  # otherwise few operators gain nothing from a compile, and most calls run eager
            assert report.hits > report.calls // 2


@pytest.mark.parametrize("name", KINDS)
def test_calls_leave_nothing(name: str) -> None:
    call_many(name, compile_always, 2_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_calls_leave_nothing(name: str) -> None:
    call_many(name, compile_always, 100_000)


@pytest.mark.skipif(SANITIZED, reason="the sanitizer's allocator counts nothing")
@pytest.mark.parametrize("leak", [lambda: object(), lambda: torch.ones(1), lambda: ctypes.pythonapi.PyMem_RawMalloc(8)])
def test_what_calls_leave_is_found(leak: Callable[[], Any]) -> None:
    left = []

    def leaks(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: (left.append(leak()), function(*arguments))[1]

    with pytest.raises(AssertionError):
        call_many("no_break", leaks, 2_000)


# Models


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.calls, self.last = 0, []

    def forward(self, x):
        self.calls += 1
        for layer in self.layers:
            x = layer(x)
            if x.sum() > 0:
                x = torch.relu(x)
            print(end="")
        self.last.append(x)
        return x


class Hooked(nn.Module):
    """In a cycle with its own hook."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("seen", torch.zeros(()))
        self.linear.register_forward_hook(lambda module, inputs, output: self.after(output))

    def after(self, output):
        self.seen += 1
        return output * 2

    def forward(self, x):
        return self.linear(x)


def of_a_new_class() -> nn.Module:
    class Model(nn.Module):
        scale = 2.0

        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(16)
            self.weight = nn.Parameter(torch.ones(16))

        def forward(self, x):
            return self.norm(x) * self.weight * self.scale

    return Model()


MODELS: list[Callable[[], nn.Module]] = [
    lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
    Branching,
    Hooked,
    of_a_new_class,
    lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
    lambda: nn.Sequential(nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 16)),
]


def make_and_drop_models(count: int, compile: Callable[[nn.Module], Any], bound: float) -> None:
    """`bound`: MB for all of them."""
    x = torch.randn(4, 16)

    def one(n: int) -> list[weakref.ref[Any]]:
        model = MODELS[n % len(MODELS)]()
        train = n % 4 == 3
        model.train(train)
        compiled = compile(model)
        with torch.set_grad_enabled(train):
            for rows in (4, 4, 3):
                result = compiled(x[:rows])
            if train:
                result.sum().backward()
        of_model = [weakref.ref(each) for each in (model, *model.parameters(), *model.buffers())]
        if MODELS[n % len(MODELS)] is of_a_new_class:
            of_model.append(weakref.ref(type(model)))
        return [*of_model, weakref.ref(compiled), weakref.ref(result)]

    for n in range(2 * len(MODELS)):
        one(n)
    before = Alive.now([x])
    alive: list[weakref.ref[Any]] = []
    for n in range(count):
        alive += one(n)
        if n % 50 == 49:
            collect()
            alive = [ref for ref in alive if ref() is not None]
            assert not alive, [type(ref()) for ref in alive[:5]]
    after = Alive.now([x])
    assert after.references == before.references
    assert after.objects - before.objects < 500 + 8 * count  # torch keeps the text of a backward graph's code
    assert after.malloc - before.malloc < bound * 2**20
    if not SANITIZED:
        assert after.rss - before.rss < bound, after.rss - before.rss


def test_models_are_dropped() -> None:
    make_and_drop_models(60, vesta.compile, 12)


@pytest.mark.slow
def test_a_thousand_models_are_dropped() -> None:
    make_and_drop_models(1_000, vesta.compile, 24)


def test_a_model_that_stays_is_found() -> None:
    left = []

    def keeps(model: nn.Module) -> nn.Module:
        left.append(model)
        return vesta.compile(model)

    with pytest.raises(AssertionError, match=r"Linear|Sequential"):
        make_and_drop_models(50, keeps, 16)


# Objects that calls were given, gave, or read


def dead_after(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], calls: int = 4) -> None:
    """The parts of each call's arguments and results die with them, while the variants live."""
    compiled = vesta.compile(function)
    refs: list[weakref.ref[Any]] = []

    def note(x: Any) -> None:
        if isinstance(x, list | tuple | dict):
            for y in x.values() if isinstance(x, dict) else x:
                note(y)
        elif not isinstance(x, int | float | str | type(None)):
            refs.append(weakref.ref(x))

    def one() -> None:
        given = make()
        note(given)
        with contextlib.suppress(ValueError):
            note(compiled(*given))

    for _ in range(calls):
        one()
        gc.collect()
    report = captured(compiled)
    assert report.graphs and report.hits
    alive = [ref() for ref in refs if ref() is not None]
    assert not alive, [(type(x), gc.get_referrers(x)) for x in alive]
    assert len(refs) >= calls


class Thing:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def a_closure() -> Callable[[torch.Tensor], torch.Tensor]:
    weight, thing = torch.ones(3), Thing(weight=torch.ones(3))
    return lambda x: thing.method(x) + weight


class WeakThing(Thing):
    """Gives itself through a weak reference in its own __dict__."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.reference = weakref.ref(self)

    def __call__(self) -> Any:
        return self.reference()


def raises_after_a_break(thing, x):
    y = thing.method(x)
    print(end="")
    raise ValueError(y)


def breaks(thing, x, f):
    y = thing.method(x)
    thing.last = [y, f]
    print(end="")
    return f(y), lambda: (thing, y)


GLOBAL: Any = None
HELD: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "tensors": (lambda x, y: (x + y, x), lambda: (torch.ones(3), torch.ones(3))),
    "nested": (
        lambda items, table: [items[0] + table["x"], {"y": items}],
        lambda: ([torch.ones(3)], {"x": torch.ones(3)}),
    ),
    "objects": (lambda thing, x: thing.method(x), lambda: (Thing(weight=torch.ones(3)), torch.ones(3))),
    "objects that are written": (
        lambda thing, x: setattr(thing, "seen", [x + 1, thing.weight]),
        lambda: (Thing(weight=torch.ones(3)), torch.ones(3)),
    ),
    "modules": (lambda module, x: module(x), lambda: (nn.Linear(3, 3), torch.ones(3))),
    "functions": (lambda f, x: f(x) + 1, lambda: (a_closure(), torch.ones(3))),
    "methods": (lambda f, x: f(x) + 1, lambda: (Thing(weight=torch.ones(3)).method, torch.ones(3))),
    "partials": (lambda f, x: f(x) + 1, lambda: (functools.partial(torch.add, torch.ones(3)), torch.ones(3))),
    "functions that are made": (lambda x: (lambda y: x + y, [x * 2]), lambda: (torch.ones(3),)),
    "objects that are made": (lambda x: Thing(weight=x + 1), lambda: (torch.ones(3),)),
    "weak references": (lambda thing, x: x + thing().weight, lambda: (WeakThing(weight=torch.ones(3)), torch.ones(3))),
    "gradients": (lambda x: (x * 2).sum(), lambda: (torch.ones(3, requires_grad=True),)),
    "errors": (raises_after_a_break, lambda: (Thing(weight=torch.ones(3)), torch.ones(3))),
    "breaks": (breaks, lambda: (Thing(weight=torch.ones(3)), torch.ones(3), a_closure())),
}


@pytest.mark.parametrize("name", HELD)
def test_arguments_and_results_are_the_users(name: str) -> None:
    dead_after(*HELD[name])


def test_an_argument_that_stays_is_found() -> None:
    left = []
    with pytest.raises(AssertionError, match="Tensor"):
        dead_after(lambda x: [x + 1, left.append(x)][:1], lambda: (torch.ones(3),))


def test_what_was_read_outside_is_the_users() -> None:
    """Closures, globals and attributes of the function: another value is there, and the old one is gone."""
    cell, table = Thing(weight=torch.ones(3)), {"thing": Thing(weight=torch.ones(3))}

    def function(x):
        y = cell.method(x) + table["thing"].method(x) + GLOBAL.method(x) + function.thing.weight
        print(end="")
        return y * cell.weight

    global GLOBAL
    GLOBAL, function.thing = Thing(weight=torch.ones(3)), Thing(weight=torch.ones(3))
    compiled = vesta.compile(function)
    for _ in range(3):
        compiled(torch.ones(3))
    refs = [weakref.ref(x) for old in (cell, table["thing"], GLOBAL, function.thing) for x in (old, old.weight)]
    cell = table["thing"] = GLOBAL = function.thing = Thing(weight=torch.ones(3))
    gc.collect()
    assert [ref for ref in refs if ref() is not None] == []
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 4.0))


def test_a_frame_that_is_kept_keeps_its_own() -> None:
    """An error's traceback keeps the frame's objects, as in Python, and no longer."""

    def function(x):
        y = x + 1
        print(end="")
        raise ValueError(len(y))

    compiled = vesta.compile(function)
    for _ in range(3):
        x = torch.ones(3)
        ref = weakref.ref(x)
        try:
            compiled(x)
        except ValueError as error:
            kept = error
        del x
        gc.collect()
        assert ref() is not None
        del kept
        gc.collect()
        assert ref() is None
