"""Names and functions: globals, closures, defaults, code, methods, classes, builtins."""

from __future__ import annotations

import builtins
import functools
import math
import sys
import types

import torch

from tests.capture.guard_rows import Door, row

HERE = sys.modules[__name__]
X = torch.linspace(-2.0, 3.0, 6).reshape(2, 3)

SCALE = 2.0
LIMITS = [1.0, 2.0]
UNREAD = 0


def helper(x):
    return x * 2


def other_helper(x):
    return x * 5


@row
def global_value(door: Door) -> None:
    @door.compile
    def f(x):
        return x * SCALE

    door.patch(HERE, "SCALE", 2.0)
    door.call(f, X)
    for value in (3.0, 4, torch.tensor([1.0, 2.0, 3.0]), None, 2.0):
        HERE.SCALE = value
        door.call(f, X)
    HERE.UNREAD = 5
    door.hit(f, X)


@row
def global_written_by_globals(door: Door) -> None:
    f = door.compile(lambda x: x * SCALE)
    door.patch(HERE, "SCALE", 2.0)
    door.call(f, X)
    globals()["SCALE"] = 3.0
    door.call(f, X)
    vars(HERE).update(SCALE=4.0)
    door.call(f, X)


@row
def global_appears(door: Door) -> None:
    @door.compile
    def f(x):
        return x * hidden  # noqa: F821

    door.call(f, X)
    door.patch(HERE, "hidden", 2.0)
    door.call(f, X)
    HERE.hidden = 3.0
    door.call(f, X)


@row
def element_of_a_global_list(door: Door) -> None:
    @door.compile
    def f(x):
        return x.clamp(LIMITS[0], LIMITS[-1])

    door.patch(HERE, "LIMITS", [1.0, 2.0])
    door.call(f, X)
    LIMITS[0] = 0.0
    door.call(f, X)
    LIMITS.append(2.5)
    door.call(f, X)
    HERE.LIMITS = [-1.0, 1.0]
    door.call(f, X)


@row
def global_function(door: Door) -> None:
    @door.compile
    def f(x):
        return helper(x) + 1

    door.patch(HERE, "helper", helper)
    door.call(f, X)
    HERE.helper = other_helper
    door.call(f, X)
    HERE.helper = torch.sin
    door.call(f, X)
    HERE.helper = lambda x: x * 11
    door.call(f, X)


@row
def code_of_a_function(door: Door) -> None:
    def g(x):
        return x * 2

    def h(x):
        return x * 3

    f = door.compile(lambda x: g(x) + 1)
    door.call(f, X)
    g.__code__ = h.__code__
    door.call(f, X)


@row
def code_of_the_function_itself(door: Door) -> None:
    def f(x):
        return x * 2

    def h(x):
        return x * 3

    compiled = door.compile(f)
    door.call(compiled, X)
    f.__code__ = h.__code__
    door.call(compiled, X)


@row
def defaults(door: Door) -> None:
    def g(x, scale=2.0, *, bias=0.0):
        return x * scale + bias

    f = door.compile(lambda x: g(x) + 1)
    door.call(f, X)
    g.__defaults__ = (3.0,)
    door.call(f, X)
    g.__kwdefaults__ = {"bias": 1.0}
    door.call(f, X)
    g.__kwdefaults__["bias"] = 2.0
    door.call(f, X)
    g.__defaults__ = None
    door.call(f, X)


@row
def defaults_of_the_function_itself(door: Door) -> None:
    def f(x, scale=2.0, *, bias=0.0):
        return x * scale + bias

    compiled = door.compile(f)
    door.call(compiled, X)
    f.__defaults__ = (3.0,)
    door.call(compiled, X)
    f.__kwdefaults__["bias"] = 2.0
    door.call(compiled, X)
    f.__defaults__ = None
    door.call(compiled, X)


@row
def default_that_is_a_list(door: Door) -> None:
    def f(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return x * len(seen)

    compiled = door.compile(f)
    for _ in range(4):
        door.call(compiled, X)
    door.see(f.__defaults__)


@row
def closure(door: Door) -> None:
    scale, unread = 2.0, 1

    def set_scale(value):
        nonlocal scale
        scale = value

    @door.compile
    def f(x):
        return x * scale

    door.call(f, X)
    for value in (3.0, 4.0, X, torch.tensor(5.0), 2.0):
        set_scale(value)
        door.call(f, X)
    unread += 1
    door.hit(f, X)


@row
def cell_written_by_cell_contents(door: Door) -> None:
    scale = 2.0

    def f(x):
        return x * scale

    compiled = door.compile(f)
    door.call(compiled, X)
    f.__closure__[0].cell_contents = 3.0
    door.call(compiled, X)
    del f.__closure__[0].cell_contents
    door.call(compiled, X)
    f.__closure__[0].cell_contents = 4.0
    door.call(compiled, X)


@row
def closure_of_an_inner_function(door: Door) -> None:
    def make(scale):
        def g(x):
            return x * scale

        return g

    g = make(2.0)
    f = door.compile(lambda x: g(x) + 1)
    door.call(f, X)
    g.__closure__[0].cell_contents = 3.0
    door.call(f, X)
    g = make(4.0)
    door.call(f, X)


@row
def counter_in_a_closure(door: Door) -> None:
    count = 0

    @door.compile
    def f(x):
        nonlocal count
        count += 1
        return x * count

    for _ in range(5):
        door.call(f, X)
    door.see(count)


@row
def counter_in_a_global(door: Door) -> None:
    @door.compile
    def f(x):
        global COUNT
        COUNT += 1
        return x + 1

    door.patch(HERE, "COUNT", 0)
    for _ in range(4):
        door.call(f, X)
        door.see(HERE.COUNT)
    HERE.COUNT = 100
    door.call(f, X)
    door.see(HERE.COUNT)


COUNT = 0


class Scaler:
    factor = 2.0
    table: dict[str, float] = {}  # noqa: RUF012

    def __init__(self):
        self.own = 1.0

    def apply(self, x):
        return x * self.factor * self.own

    @property
    def twice(self):
        return self.factor * 2

    @staticmethod
    def static(x):
        return x + 1

    @classmethod
    def of_class(cls, x):
        return x * cls.factor


class SubScaler(Scaler):
    pass


@row
def method_on_the_class(door: Door) -> None:
    s = SubScaler()
    f = door.compile(lambda x: s.apply(x))
    door.call(f, X)
    door.patch(Scaler, "apply", lambda self, x: x * 7)
    door.call(f, X)
    door.patch(SubScaler, "apply", lambda self, x: x * 8)
    door.call(f, X)
    door.on_exit(lambda: None)
    del SubScaler.apply
    SubScaler.apply = Scaler.apply
    door.call(f, X)


@row
def method_on_the_instance(door: Door) -> None:
    s = Scaler()
    f = door.compile(lambda x: s.apply(x))
    door.call(f, X)
    s.apply = lambda x: x * 7
    door.call(f, X)
    s.apply = types.MethodType(lambda self, x: x * self.own * 9, s)
    door.call(f, X)
    del s.apply
    door.call(f, X)


@row
def class_attribute(door: Door) -> None:
    s = SubScaler()
    f = door.compile(lambda x: s.apply(x) + s.of_class(x))
    door.call(f, X)
    door.patch(Scaler, "factor", 3.0)
    door.call(f, X)
    door.patch(SubScaler, "factor", 4.0)
    door.call(f, X)
    s.factor = 5.0
    door.call(f, X)
    door.patch(Scaler, "unread_attribute", 4.0)
    door.call(f, X)


@row
def container_on_a_class(door: Door) -> None:
    f = door.compile(lambda x: x * Scaler.table.get("k", 2.0))
    door.patch(Scaler, "table", {})
    door.call(f, X)
    Scaler.table["k"] = 3.0
    door.call(f, X)
    SubScaler.table["k"] = 4.0
    door.call(f, X)


@row
def property_replaced(door: Door) -> None:
    s = Scaler()
    f = door.compile(lambda x: x * s.twice)
    door.call(f, X)
    s.factor = 5.0
    door.call(f, X)
    door.patch(Scaler, "twice", property(lambda self: 9.0))
    door.call(f, X)
    Scaler.twice = 11.0
    door.call(f, X)


@row
def static_and_class_methods(door: Door) -> None:
    f = door.compile(lambda x: Scaler.static(x) + SubScaler.of_class(x))
    door.call(f, X)
    door.patch(Scaler, "static", staticmethod(lambda x: x + 2))
    door.call(f, X)
    door.patch(Scaler, "of_class", classmethod(lambda cls, x: x * 9))
    door.call(f, X)


@row
def bases_of_a_class(door: Door) -> None:
    class Base:
        scale = 2.0

    class Other:
        scale = 3.0

    class Mine(Base):
        pass

    o = Mine()
    f = door.compile(lambda x: (x * o.scale, isinstance(o, Base)))
    door.call(f, X)
    Mine.__bases__ = (Other,)
    door.call(f, X)


@row
def getattr_added(door: Door) -> None:
    class Mine:
        pass

    o = Mine()
    f = door.compile(lambda x: x * o.missing)
    door.call(f, X)
    Mine.__getattr__ = lambda self, name: 3.0
    door.call(f, X)
    Mine.__getattribute__ = lambda self, name: 4.0
    door.call(f, X)


@row
def operator_added(door: Door) -> None:
    class Mine:
        def __mul__(self, x):
            return x * 2

    o = Mine()
    f = door.compile(lambda x: o * x)
    door.call(f, X)
    Mine.__mul__ = lambda self, x: x * 3
    door.call(f, X)
    del Mine.__mul__
    door.call(f, X)


@row
def truth_and_length_of_an_object(door: Door) -> None:
    class Mine:
        size = 1

        def __len__(self):
            return self.size

    o = Mine()
    f = door.compile(lambda x: x + 1 if o else x - 1)
    door.call(f, X)
    o.size = 0
    door.call(f, X)
    Mine.__bool__ = lambda self: True
    door.call(f, X)


@row
def constant_of_another_module(door: Door) -> None:
    f = door.compile(lambda x: x * math.pi)
    door.call(f, X)
    door.patch(math, "pi", 3.0)
    door.call(f, X)


@row
def function_of_torch(door: Door) -> None:
    f = door.compile(lambda x: torch.sin(x))
    door.call(f, X)
    door.patch(torch, "sin", torch.cos)
    door.call(f, X)


@row
def function_of_torch_functional(door: Door) -> None:
    f = door.compile(lambda x: torch.nn.functional.relu(x))
    door.call(f, X)
    door.patch(torch.nn.functional, "relu", torch.nn.functional.relu6)
    door.call(f, X * 4)
    door.patch(torch.nn.functional, "relu", lambda x: x * 2)
    door.call(f, X * 4)


@row
def module_attribute(door: Door) -> None:
    constants = types.ModuleType("constants")
    constants.scale = 2.0
    f = door.compile(lambda x: x * constants.scale)
    door.call(f, X)
    constants.scale = 3.0
    door.call(f, X)
    del constants.scale
    door.call(f, X)
    constants.__getattr__ = lambda name: 4.0
    door.call(f, X)


@row
def builtin(door: Door) -> None:
    @door.compile
    def f(x, xs):
        return x * len(xs)

    door.call(f, X, [1, 2])
    door.patch(builtins, "len", lambda xs: 7)
    door.call(f, X, [1, 2])


@row
def builtin_shadowed_by_a_global(door: Door) -> None:
    @door.compile
    def f(x, xs):
        return x * len(xs) + sum(xs)

    door.call(f, X, [1, 2])
    door.patch(HERE, "len", lambda xs: 7)
    door.call(f, X, [1, 2])
    door.patch(HERE, "sum", lambda xs: 70)
    door.call(f, X, [1, 2])


@row
def imported_inside(door: Door) -> None:
    @door.compile
    def f(x):
        import fake_constants_of_this_test as constants

        return x * constants.scale

    door.call(f, X)
    constants = types.ModuleType("fake_constants_of_this_test")
    constants.scale = 2.0
    door.patch(sys.modules, "fake_constants_of_this_test", constants)
    door.call(f, X)
    constants.scale = 3.0
    door.call(f, X)
    other = types.ModuleType("fake_constants_of_this_test")
    other.scale = 4.0
    sys.modules["fake_constants_of_this_test"] = other
    door.call(f, X)


@row
def lru_cache(door: Door) -> None:
    calls = []

    @functools.lru_cache
    def scale(n):
        calls.append(n)
        return n * 2.0

    @door.compile
    def f(x, n):
        return x * scale(n)

    for n in (2, 2, 3, 2):
        door.call(f, X, n)
        door.see(calls)
    scale.cache_clear()
    door.call(f, X, 2)
    door.see(calls)


@row
def wrapped_function(door: Door) -> None:
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*arguments):
            wrapper.calls += 1
            return function(*arguments) * wrapper.factor

        wrapper.calls, wrapper.factor = 0, 1.0
        return wrapper

    @decorate
    def g(x):
        return x + 1

    f = door.compile(lambda x: g(x))
    door.call(f, X)
    g.factor = 2.0
    door.call(f, X)
    door.see(g.calls)
    door.call(f, X)
    door.see(g.calls)


@row
def metaclass(door: Door) -> None:
    class Meta(type):
        scale = 2.0

        def __getattr__(cls, name):
            return cls.scale

    class Mine(metaclass=Meta):
        pass

    f = door.compile(lambda x: x * Mine.anything)
    door.call(f, X)
    Meta.scale = 3.0
    door.call(f, X)
    Mine.anything = 4.0
    door.call(f, X)


@row
def bound_method_itself(door: Door) -> None:
    s, t = Scaler(), SubScaler()
    t.own = 3.0
    f = door.compile(s.apply)
    door.call(f, X)
    s.own = 2.0
    door.call(f, X)
    g = door.compile(t.apply)
    door.call(g, X)
    door.call(f, X)


@row
def one_method_of_two_objects(door: Door) -> None:
    class Mine:
        def __init__(self, scale):
            self.scale = scale

        @door.compile
        def run(self, x):
            self.scale += 1
            return x * self.scale

    a, b = Mine(1.0), Mine(10.0)
    for o in (a, b, a, b, a):
        door.call(o.run, X)
    door.see(a.scale, b.scale)


@row
def descriptor(door: Door) -> None:
    class Field:
        def __init__(self):
            self.value = 2.0

        def __get__(self, o, kind=None):
            return self.value if o is not None else self

        def __set__(self, o, value):
            self.value = value * 2

    class Mine:
        field = Field()

    o = Mine()
    f = door.compile(lambda x: x * o.field)
    door.call(f, X)
    o.field = 3.0
    door.call(f, X)
    Mine.__dict__["field"].value = 5.0
    door.call(f, X)
    o.__dict__["field"] = 100.0
    door.call(f, X)
    del Mine.field
    door.call(f, X)
