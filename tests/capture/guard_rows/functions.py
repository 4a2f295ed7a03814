"""Names and functions: globals, closures, defaults, code, methods, classes, builtins."""

from __future__ import annotations

import builtins
import functools
import math
import sys
import types

import torch

from tests.capture.guard_rows import Runner, row

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
def global_value(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * SCALE

    runner.patch(HERE, "SCALE", 2.0)
    runner.call(f, X)
    for value in (3.0, 4, torch.tensor([1.0, 2.0, 3.0]), None, 2.0):
        HERE.SCALE = value
        runner.call(f, X)
    HERE.UNREAD = 5
    runner.hit(f, X)


@row
def global_written_by_globals(runner: Runner) -> None:
    f = runner.compile(lambda x: x * SCALE)
    runner.patch(HERE, "SCALE", 2.0)
    runner.call(f, X)
    globals()["SCALE"] = 3.0
    runner.call(f, X)
    vars(HERE).update(SCALE=4.0)
    runner.call(f, X)


@row
def global_appears(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x * hidden  # noqa: F821

    runner.call(f, X)
    runner.patch(HERE, "hidden", 2.0)
    runner.call(f, X)
    HERE.hidden = 3.0
    runner.call(f, X)


@row
def element_of_a_global_list(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return x.clamp(LIMITS[0], LIMITS[-1])

    runner.patch(HERE, "LIMITS", [1.0, 2.0])
    runner.call(f, X)
    LIMITS[0] = 0.0
    runner.call(f, X)
    LIMITS.append(2.5)
    runner.call(f, X)
    HERE.LIMITS = [-1.0, 1.0]
    runner.call(f, X)


@row
def global_function(runner: Runner) -> None:
    @runner.compile
    def f(x):
        return helper(x) + 1

    runner.patch(HERE, "helper", helper)
    runner.call(f, X)
    HERE.helper = other_helper
    runner.call(f, X)
    HERE.helper = torch.sin
    runner.call(f, X)
    HERE.helper = lambda x: x * 11
    runner.call(f, X)


@row
def code_of_a_function(runner: Runner) -> None:
    def g(x):
        return x * 2

    def h(x):
        return x * 3

    f = runner.compile(lambda x: g(x) + 1)
    runner.call(f, X)
    g.__code__ = h.__code__
    runner.call(f, X)


@row
def code_of_the_function_itself(runner: Runner) -> None:
    def f(x):
        return x * 2

    def h(x):
        return x * 3

    compiled = runner.compile(f)
    runner.call(compiled, X)
    f.__code__ = h.__code__
    runner.call(compiled, X)


@row
def defaults(runner: Runner) -> None:
    def g(x, scale=2.0, *, bias=0.0):
        return x * scale + bias

    f = runner.compile(lambda x: g(x) + 1)
    runner.call(f, X)
    g.__defaults__ = (3.0,)
    runner.call(f, X)
    g.__kwdefaults__ = {"bias": 1.0}
    runner.call(f, X)
    g.__kwdefaults__["bias"] = 2.0
    runner.call(f, X)
    g.__defaults__ = None
    runner.call(f, X)


@row
def defaults_of_the_function_itself(runner: Runner) -> None:
    def f(x, scale=2.0, *, bias=0.0):
        return x * scale + bias

    compiled = runner.compile(f)
    runner.call(compiled, X)
    f.__defaults__ = (3.0,)
    runner.call(compiled, X)
    f.__kwdefaults__["bias"] = 2.0
    runner.call(compiled, X)
    f.__defaults__ = None
    runner.call(compiled, X)


@row
def default_that_is_a_list(runner: Runner) -> None:
    def f(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return x * len(seen)

    compiled = runner.compile(f)
    for _ in range(4):
        runner.call(compiled, X)
    runner.see(f.__defaults__)


@row
def closure(runner: Runner) -> None:
    scale, unread = 2.0, 1

    def set_scale(value):
        nonlocal scale
        scale = value

    @runner.compile
    def f(x):
        return x * scale

    runner.call(f, X)
    for value in (3.0, 4.0, X, torch.tensor(5.0), 2.0):
        set_scale(value)
        runner.call(f, X)
    unread += 1
    runner.hit(f, X)


@row
def cell_written_by_cell_contents(runner: Runner) -> None:
    scale = 2.0

    def f(x):
        return x * scale

    compiled = runner.compile(f)
    runner.call(compiled, X)
    f.__closure__[0].cell_contents = 3.0
    runner.call(compiled, X)
    del f.__closure__[0].cell_contents
    runner.call(compiled, X)
    f.__closure__[0].cell_contents = 4.0
    runner.call(compiled, X)


@row
def closure_of_an_inner_function(runner: Runner) -> None:
    def make(scale):
        def g(x):
            return x * scale

        return g

    g = make(2.0)
    f = runner.compile(lambda x: g(x) + 1)
    runner.call(f, X)
    g.__closure__[0].cell_contents = 3.0
    runner.call(f, X)
    g = make(4.0)
    runner.call(f, X)


@row
def counter_in_a_closure(runner: Runner) -> None:
    count = 0

    @runner.compile
    def f(x):
        nonlocal count
        count += 1
        return x * count

    for _ in range(5):
        runner.call(f, X)
    runner.see(count)


@row
def counter_in_a_global(runner: Runner) -> None:
    @runner.compile
    def f(x):
        global COUNT
        COUNT += 1
        return x + 1

    runner.patch(HERE, "COUNT", 0)
    for _ in range(4):
        runner.call(f, X)
        runner.see(HERE.COUNT)
    HERE.COUNT = 100
    runner.call(f, X)
    runner.see(HERE.COUNT)


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
def method_on_the_class(runner: Runner) -> None:
    s = SubScaler()
    f = runner.compile(lambda x: s.apply(x))
    runner.call(f, X)
    runner.patch(Scaler, "apply", lambda self, x: x * 7)
    runner.call(f, X)
    runner.patch(SubScaler, "apply", lambda self, x: x * 8)
    runner.call(f, X)
    runner.on_exit(lambda: None)
    del SubScaler.apply
    SubScaler.apply = Scaler.apply
    runner.call(f, X)


@row
def method_on_the_instance(runner: Runner) -> None:
    s = Scaler()
    f = runner.compile(lambda x: s.apply(x))
    runner.call(f, X)
    s.apply = lambda x: x * 7
    runner.call(f, X)
    s.apply = types.MethodType(lambda self, x: x * self.own * 9, s)
    runner.call(f, X)
    del s.apply
    runner.call(f, X)


@row
def class_attribute(runner: Runner) -> None:
    s = SubScaler()
    f = runner.compile(lambda x: s.apply(x) + s.of_class(x))
    runner.call(f, X)
    runner.patch(Scaler, "factor", 3.0)
    runner.call(f, X)
    runner.patch(SubScaler, "factor", 4.0)
    runner.call(f, X)
    s.factor = 5.0
    runner.call(f, X)
    runner.patch(Scaler, "unread_attribute", 4.0)
    runner.call(f, X)


@row
def container_on_a_class(runner: Runner) -> None:
    f = runner.compile(lambda x: x * Scaler.table.get("k", 2.0))
    runner.patch(Scaler, "table", {})
    runner.call(f, X)
    Scaler.table["k"] = 3.0
    runner.call(f, X)
    SubScaler.table["k"] = 4.0
    runner.call(f, X)


@row
def property_replaced(runner: Runner) -> None:
    s = Scaler()
    f = runner.compile(lambda x: x * s.twice)
    runner.call(f, X)
    s.factor = 5.0
    runner.call(f, X)
    runner.patch(Scaler, "twice", property(lambda self: 9.0))
    runner.call(f, X)
    Scaler.twice = 11.0
    runner.call(f, X)


@row
def static_and_class_methods(runner: Runner) -> None:
    f = runner.compile(lambda x: Scaler.static(x) + SubScaler.of_class(x))
    runner.call(f, X)
    runner.patch(Scaler, "static", staticmethod(lambda x: x + 2))
    runner.call(f, X)
    runner.patch(Scaler, "of_class", classmethod(lambda cls, x: x * 9))
    runner.call(f, X)


@row
def bases_of_a_class(runner: Runner) -> None:
    class Base:
        scale = 2.0

    class Other:
        scale = 3.0

    class Mine(Base):
        pass

    o = Mine()
    f = runner.compile(lambda x: (x * o.scale, isinstance(o, Base)))
    runner.call(f, X)
    Mine.__bases__ = (Other,)
    runner.call(f, X)


@row
def getattr_added(runner: Runner) -> None:
    class Mine:
        pass

    o = Mine()
    f = runner.compile(lambda x: x * o.missing)
    runner.call(f, X)
    Mine.__getattr__ = lambda self, name: 3.0
    runner.call(f, X)
    Mine.__getattribute__ = lambda self, name: 4.0
    runner.call(f, X)


@row
def operator_added(runner: Runner) -> None:
    class Mine:
        def __mul__(self, x):
            return x * 2

    o = Mine()
    f = runner.compile(lambda x: o * x)
    runner.call(f, X)
    Mine.__mul__ = lambda self, x: x * 3
    runner.call(f, X)
    del Mine.__mul__
    runner.call(f, X)


@row
def truth_and_length_of_an_object(runner: Runner) -> None:
    class Mine:
        size = 1

        def __len__(self):
            return self.size

    o = Mine()
    f = runner.compile(lambda x: x + 1 if o else x - 1)
    runner.call(f, X)
    o.size = 0
    runner.call(f, X)
    Mine.__bool__ = lambda self: True
    runner.call(f, X)


@row
def constant_of_another_module(runner: Runner) -> None:
    f = runner.compile(lambda x: x * math.pi)
    runner.call(f, X)
    runner.patch(math, "pi", 3.0)
    runner.call(f, X)


@row
def function_of_torch(runner: Runner) -> None:
    f = runner.compile(lambda x: torch.sin(x))
    runner.call(f, X)
    runner.patch(torch, "sin", torch.cos)
    runner.call(f, X)


@row
def function_of_torch_functional(runner: Runner) -> None:
    f = runner.compile(lambda x: torch.nn.functional.relu(x))
    runner.call(f, X)
    runner.patch(torch.nn.functional, "relu", torch.nn.functional.relu6)
    runner.call(f, X * 4)
    runner.patch(torch.nn.functional, "relu", lambda x: x * 2)
    runner.call(f, X * 4)


@row
def module_attribute(runner: Runner) -> None:
    constants = types.ModuleType("constants")
    constants.scale = 2.0
    f = runner.compile(lambda x: x * constants.scale)
    runner.call(f, X)
    constants.scale = 3.0
    runner.call(f, X)
    del constants.scale
    runner.call(f, X)
    constants.__getattr__ = lambda name: 4.0
    runner.call(f, X)


@row
def builtin(runner: Runner) -> None:
    @runner.compile
    def f(x, xs):
        return x * len(xs)

    runner.call(f, X, [1, 2])
    runner.patch(builtins, "len", lambda xs: 7)
    runner.call(f, X, [1, 2])


@row
def builtin_shadowed_by_a_global(runner: Runner) -> None:
    @runner.compile
    def f(x, xs):
        return x * len(xs) + sum(xs)

    runner.call(f, X, [1, 2])
    runner.patch(HERE, "len", lambda xs: 7)
    runner.call(f, X, [1, 2])
    runner.patch(HERE, "sum", lambda xs: 70)
    runner.call(f, X, [1, 2])


@row
def imported_inside(runner: Runner) -> None:
    @runner.compile
    def f(x):
        import fake_constants_of_this_test as constants

        return x * constants.scale

    runner.call(f, X)
    constants = types.ModuleType("fake_constants_of_this_test")
    constants.scale = 2.0
    runner.patch(sys.modules, "fake_constants_of_this_test", constants)
    runner.call(f, X)
    constants.scale = 3.0
    runner.call(f, X)
    other = types.ModuleType("fake_constants_of_this_test")
    other.scale = 4.0
    sys.modules["fake_constants_of_this_test"] = other
    runner.call(f, X)


@row
def lru_cache(runner: Runner) -> None:
    calls = []

    @functools.lru_cache
    def scale(n):
        calls.append(n)
        return n * 2.0

    @runner.compile
    def f(x, n):
        return x * scale(n)

    for n in (2, 2, 3, 2):
        runner.call(f, X, n)
        runner.see(calls)
    scale.cache_clear()
    runner.call(f, X, 2)
    runner.see(calls)


@row
def wrapped_function(runner: Runner) -> None:
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

    f = runner.compile(lambda x: g(x))
    runner.call(f, X)
    g.factor = 2.0
    runner.call(f, X)
    runner.see(g.calls)
    runner.call(f, X)
    runner.see(g.calls)


@row
def metaclass(runner: Runner) -> None:
    class Meta(type):
        scale = 2.0

        def __getattr__(cls, name):
            return cls.scale

    class Mine(metaclass=Meta):
        pass

    f = runner.compile(lambda x: x * Mine.anything)
    runner.call(f, X)
    Meta.scale = 3.0
    runner.call(f, X)
    Mine.anything = 4.0
    runner.call(f, X)


@row
def bound_method_itself(runner: Runner) -> None:
    s, t = Scaler(), SubScaler()
    t.own = 3.0
    f = runner.compile(s.apply)
    runner.call(f, X)
    s.own = 2.0
    runner.call(f, X)
    g = runner.compile(t.apply)
    runner.call(g, X)
    runner.call(f, X)


@row
def one_method_of_two_objects(runner: Runner) -> None:
    class Mine:
        def __init__(self, scale):
            self.scale = scale

        @runner.compile
        def run(self, x):
            self.scale += 1
            return x * self.scale

    a, b = Mine(1.0), Mine(10.0)
    for o in (a, b, a, b, a):
        runner.call(o.run, X)
    runner.see(a.scale, b.scale)


@row
def descriptor(runner: Runner) -> None:
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
    f = runner.compile(lambda x: x * o.field)
    runner.call(f, X)
    o.field = 3.0
    runner.call(f, X)
    Mine.__dict__["field"].value = 5.0
    runner.call(f, X)
    o.__dict__["field"] = 100.0
    runner.call(f, X)
    del Mine.field
    runner.call(f, X)
