"""Classes: methods, super, properties, descriptors, attribute hooks, metaclasses, slots."""

import abc
import io
import operator
import typing

import torch

from tests.capture.case import case, t


class Base:
    kind = "base"
    made = 0

    def __init__(self, scale):
        self.scale = scale
        type(self).made += 1

    def apply(self, x):
        return x * self.scale

    @classmethod
    def default(cls):
        return cls(2)

    @staticmethod
    def shift(x):
        return x + 1

    @property
    def double(self):
        return self.scale * 2

    @double.setter
    def double(self, value):
        self.scale = value // 2


class Derived(Base):
    kind = "derived"

    def __init__(self, scale, extra=1):
        super().__init__(scale)
        self.extra = extra

    def apply(self, x):
        return super().apply(x) + self.extra


class Left(Base):
    def apply(self, x):
        return super().apply(x) * 3


class Right(Base):
    def apply(self, x):
        return super().apply(x) - 5


class Diamond(Left, Right):
    pass


@case(lambda: (t(3), 2), lambda: (t(3), 3))
def instance_made_and_used(x, n):
    d = Derived(n)
    return d.apply(x), d.kind, Base.shift(x), Derived.made


@case(lambda: (t(3), Derived(2)), lambda: (t(3), Derived(3, 4)), lambda: (t(3), Base(2)), lambda: (t(3), Diamond(1)))
def instance_argument(x, layer):
    return layer.apply(x), layer.kind


@case(lambda: (t(3),))
def instance_escapes(x):
    d = Derived(4)
    d.value = x * 2
    d.me = d
    return d


@case(lambda: (t(3), Derived(2)), lambda: (t(3), Base(8)))
def properties(x, layer):
    before = layer.double
    layer.double = before + 6
    return x * layer.double, before, layer.scale


@case(lambda: (t(3),))
def class_and_static_methods(x):
    d = Derived.default()
    return d.apply(x), type(d) is Derived, d.shift(x), Derived.shift(x), d.default().scale


@case(lambda: (t(3),))
def diamond(x):
    return (
        Diamond(2).apply(x),
        [c.__name__ for c in Diamond.__mro__],
        isinstance(Diamond(1), Right),
        issubclass(Left, Right),
    )


@case(lambda: (t(3), Base(3)))
def bound_methods(x, layer):
    f = layer.apply
    g = Base.apply
    return f(x), g(layer, x), f.__self__ is layer, f == layer.apply, f.__func__ is g


@case(lambda: (t(3),), lambda: (t(4),), drive=lambda f, x: f(x))
def bound_method_escapes(x):
    b = Base(2)
    b.value = x + 1
    return b.apply, b.value


class Callable:
    def __init__(self, n):
        self.n, self.calls = n, 0

    def __call__(self, x, *, k=0):
        self.calls += 1
        return x * self.n + self.calls + k


@case(lambda: (t(3), Callable(2)), lambda: (t(3), Callable(5)))
def callable_object(x, f):
    return f(x) + f(x, k=3), callable(f), f.calls


CALLABLE = case(lambda: (t(3),), lambda: (t(5),))(Callable(3))
METHOD_OF = Derived(2, 7)


class Dynamic:
    def __init__(self):
        self.seen = []

    def __getattr__(self, name):
        if name.startswith("missing"):
            raise AttributeError(f"no {name} here")
        self.seen.append(name)
        return len(name)


@case(lambda: (t(3), Dynamic()))
def getattr_hook(x, d):
    return x * d.four + d.seven77, hasattr(d, "missing1"), getattr(d, "missing", 9), d.seen


class Intercepted:
    def __init__(self, n):
        object.__setattr__(self, "log", [])
        self.n = n

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        return value + 100 if name == "n" else value

    def __setattr__(self, name, value):
        self.log.append(f"set {name}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.log.append(f"del {name}")
        object.__delattr__(self, name)


@case(lambda: (t(3), Intercepted(1)), lambda: (t(3), Intercepted(2)))
def getattribute_and_setattr(x, it):
    it.m = it.n + 1
    y = x + it.m
    del it.m
    return y, it.log, hasattr(it, "m")


class Slotted:
    __slots__ = ("a", "b", "__weakref__")

    def __init__(self, a):
        self.a = a


class SlottedMore(Slotted):
    __slots__ = ("_c", "__private")

    def __init__(self, a, c):
        super().__init__(a)
        self._c = c
        self.__private = c + 1

    def total(self):
        return self.a + self._c + self.__private


@case(lambda: (t(3), SlottedMore(1, 2)), lambda: (t(3), SlottedMore(3, 4)))
def slots(x, s):
    s.b = x * s.total()
    try:
        s.other = 1
    except AttributeError as error:
        return s.b, str(error), Slotted(x)
    return None


@case(lambda: (t(3), Slotted(1)))
def unset_slot(x, s):
    return x + s.a + s.b


class Typed:
    """A data descriptor."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name) * 2

    def __set__(self, instance, value):
        if not isinstance(value, int):
            raise TypeError(f"{self.name} wants an int")
        setattr(instance, self.name, value)


class Lazy:
    """A non-data descriptor that caches in the instance."""

    def __init__(self, f):
        self.f = f

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        value = instance.__dict__[self.name] = self.f(instance)
        return value


class Described:
    width = Typed()

    def __init__(self, width):
        self.width = width
        self.computed = 0

    @Lazy
    def table(self):
        self.computed += 1
        return torch.arange(self.width).float()


@case(lambda: (t(6), Described(3)), lambda: (t(8), Described(4)))
def descriptors(x, d):
    y = x * d.width + d.table
    d.width = d.width // 2
    try:
        d.width = "s"
    except TypeError as error:
        return y + d.table, str(error), d.computed, type(Described.width).__name__


class Owner:
    """Gives what it holds, as an enumeration's property gives a member."""

    def __init__(self, held):
        self.held = held

    def __get__(self, instance, owner=None):
        return self.held


class Holding:
    point = Owner(Typed())


@case(lambda: (t(3),))
def held_by_a_descriptor(x):
    return x + 1, Holding.point


class Registry(type):
    classes = []

    def __new__(mcs, name, bases, namespace, tag=None):
        made = super().__new__(mcs, name, bases, namespace)
        made.tag = tag
        mcs.classes.append(name)
        return made

    def __call__(cls, *args):
        instance = super().__call__(*args)
        instance.born = True
        return instance

    def __len__(cls):
        return 7


class Registered(metaclass=Registry, tag="t"):
    def __init__(self, n=1):
        self.n = n


@case(lambda: (t(3), 2))
def metaclass(x, n):
    r = Registered(n)
    return x * r.n + len(Registered), r.born, Registered.tag, Registry.classes, type(Registered).__name__


@case(lambda: (t(3), 2), lambda: (t(3), 3))
def class_made_inside(x, n):
    class Inner(Base):
        factor = n

        def apply(self, y):
            return super().apply(y) * self.factor + x

    made = type("Made", (Inner,), {"factor": n + 1})
    return Inner(2).apply(x), made(1).apply(x), made.__name__, Inner.__qualname__


@case(lambda: (t(3),))
def class_with_metaclass_inside(x):
    class Inside(metaclass=Registry, tag="inside"):
        pass

    return x + len(Inside), Inside.tag, Registry.classes[-1]


class Plugins:
    known = {}

    def __init_subclass__(cls, /, name="none", **kwargs):
        super().__init_subclass__(**kwargs)
        cls.known[name] = cls.__name__

    def __class_getitem__(cls, item):
        return f"{cls.__name__}[{item}]"


@case(lambda: (t(3),))
def init_subclass(x):
    class One(Plugins, name="one"):
        pass

    return x + len(Plugins.known), Plugins.known, One["int"]


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, x): ...

    def twice(self, x):
        return self.area(x) * 2


class Square(Shape):
    def area(self, x):
        return x * x


@case(lambda: (t(3),))
def abstract(x):
    try:
        Shape()
    except TypeError as error:
        return Square().twice(x), str(error), isinstance(Square(), Shape)


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, value: T):
        self.value = value

    def map(self, f: typing.Callable[[T], T]) -> "Box[T]":
        return Box(f(self.value))


class HasArea(typing.Protocol):
    def area(self, x): ...


@case(lambda: (t(3),))
def generics(x):
    b = Box[torch.Tensor](x).map(lambda y: y + 1)
    value: typing.Optional[int] = typing.cast(int, 3)
    return b.value, typing.cast(torch.Tensor, x) * value, Box[int].__origin__ is Box, list[int] == list[int]


class Counted:
    alive = 0

    def __new__(cls, *args):
        instance = super().__new__(cls)
        instance.made_with = args
        return instance

    def __init__(self, n):
        self.n = n
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1


@case(lambda: (t(3),))
def new_and_del(x):
    c = Counted(2)
    y = x * c.n
    inside = Counted.alive
    made_with = c.made_with
    del c
    return y, inside, made_with, Counted.alive


class Singleton:
    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            cls.instance.uses = 0
        return cls.instance


@case(lambda: (t(3),))
def singleton(x):
    s = Singleton()
    s.uses += 1
    return x + s.uses, Singleton() is s


@case(lambda: (t(3), Base(2)))
def attribute_errors(x, b):
    try:
        b.nothing
    except AttributeError as error:
        x = x + 1
        name, owner = error.name, error.obj is b
    try:
        x.nothing
    except AttributeError as error:
        return x, name, owner, str(error)


@case(lambda: (t(3), Base(2)))
def attribute_builtins(x, b):
    setattr(b, "w", x + 1)
    b.__dict__["v"] = 3
    delattr(b, "scale")
    return getattr(b, "w") * b.v, hasattr(b, "scale"), vars(b).keys(), getattr(b, "kind"), "v" in dir(b)


@case(lambda: (t(3), Base(2)), lambda: (t(3), Derived(2)))
def type_checks(x, b):
    if isinstance(b, Derived):
        x = x + 10
    elif type(b) == Base:
        x = x + 20
    return x, isinstance(x, (int, torch.Tensor)), isinstance(3, int | str), type(b).__name__, b.__class__.kind


@case(lambda: (t(3), Base(2)))
def class_reassigned(x, b):
    b.__class__ = Left
    return b.apply(x), type(b).__name__


@case(lambda: (t(3), Base(2)), drive=lambda f, x, b: (f(x, b), setattr(Base, "kind", "changed"), f(x, b)))
def class_attribute_changes(x, b):
    return x * len(b.kind), b.kind


@case(lambda: (t(3), Base(2)), drive=lambda f, x, b: (f(x, b), setattr(b, "kind", "shadow!"), f(x, b)))
def instance_shadows_class(x, b):
    return x * len(b.kind)


def _patched(self, x):
    return x * 1000


@case(lambda: (t(3), Base(2)), drive=lambda f, x, b: (f(x, b), setattr(Base, "apply", _patched), f(x, b)))
def method_patched(x, b):
    return b.apply(x)


@case(lambda: (t(3), Base(2)))
def method_on_instance(x, b):
    b.apply = lambda y: y - 1
    return b.apply(x), Base.apply(b, x)


class Counter:
    total = 0

    def forward(self, x):
        self.total += 1
        Counter.total += 10
        return x + self.total


@case(lambda: (t(3), Counter()))
def class_and_instance_counters(x, c):
    return c.forward(x) + c.forward(x), Counter.total, c.total


class Chained:
    def __init__(self):
        self.steps = []

    def add(self, f):
        self.steps.append(f)
        return self

    def run(self, x):
        for f in self.steps:
            x = f(x)
        return x


@case(lambda: (t(3),))
def fluent(x):
    return Chained().add(torch.relu).add(lambda y: y * 2).add(torch.neg).run(x)


@case(lambda: (t(3),), drive=lambda f, x: f(METHOD_OF, x))
def unbound_function_with_self(self, x):
    return self.apply(x) + self.extra


class Buffer(io.BytesIO):
    def write(self, data=None):
        return super().write(b"-" if data is None else data)

    def both(self):
        return self.write, super().write


class Longer(list):
    def append(self, x):
        super().append(x * 2)

    def __len__(self):
        return super().__len__() + 10

    def bound(self):
        return super().append, super().__len__, super().__getitem__


@case(lambda: (t(3), Buffer(), Longer([1])))
def super_of_a_class_written_in_c(x, buffer, numbers):
    buffer.write()
    buffer.write(b"abc")
    own, inherited = buffer.both()
    append, length, item = numbers.bound()
    print("in between")
    own()
    inherited(b"d")
    append(5)
    numbers.append(4)
    return x + length(), buffer.getvalue(), list(numbers), len(numbers), item(0), append.__self__ is numbers


class Measured:
    def __init__(self, low, high):
        self.pair = (low, high)
        self.inner = [low]

    low = property(operator.itemgetter(0))
    first = property(operator.attrgetter("pair"))

    def __getitem__(self, i):
        return self.pair[i]

    last = property(lambda self: self.inner[-1], lambda self, value: self.inner.append(value))


class Appended(list):
    last = property(operator.itemgetter(-1), list.append)


@case(lambda: (t(3), Measured(1, 2)), lambda: (t(3), Measured(3, 4)))
def properties_by_functions_of_c(x, m):
    m.last = m.low + 1
    return x * m.low, m.first, m.last, m.inner


@case(lambda: (t(3), Appended([1, 2])), lambda: (t(3), Appended([3, 4])))
def a_property_set_by_a_function_of_c(x, items):
    items.last = 7
    return x * items.last, list(items)
