"""Values read through every kind of place, which change between calls: each change must be seen."""

import collections
import dataclasses
import enum
import functools
import itertools
import operator
import types
import weakref

import torch

from tests.capture.case import case, maker, t

VALUE = 1
TABLE = {"deep": {"list": [1, 2]}}
MODULE = types.ModuleType("made")
MODULE.k = 1
Pair = collections.namedtuple("Pair", "x n")


class Box:
    shared = 1

    def __init__(self, n):
        self.n = n

    def get(self):
        return self.n

    @property
    def double(self):
        return self.n * 2

    def scale(self, x):
        return x * self.n


class Sub(Box):
    pass


class Slots:
    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n


class Level(int):
    pass


class Name(str):
    pass


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int
    parts: tuple = ()


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def over(*values):
    """Calls with each value, the first again at the end, and each twice in a row."""
    return lambda f, x, make: [f(x, make(v)) for v in (*values, values[0]) for _ in range(2)]


@case(lambda: (t(3), lambda v: Pair(t(3), v)), drive=over(1, 2, 5))
def namedtuple_field(x, p):
    return x * p.n + p.x, p.n


@case(lambda: (t(3), lambda v: Pair(t(3), v)), drive=over(1, 2, 5))
def namedtuple_unpacked(x, p):
    y, n = p
    return x * n + y, p[1]


@case(lambda: (t(6), lambda v: slice(v, v + 2)), drive=over(0, 1, 3))
def slice_members(x, s):
    return x[s] * 2, s.start


@case(lambda: (t(6), lambda v: (0, (slice(v, None), v))), drive=over(0, 1, 3))
def slice_in_tuple(x, parts):
    return x[parts[1][0]], parts[1][1]


@case(lambda: (t(3), Box), drive=over(1, 2, 3, "s"))
def attribute(x, b):
    return x * b.n if isinstance(b.n, int) else x


@case(lambda: (t(3), Box), drive=over(1, 2, 3))
def method_and_property(x, b):
    return b.scale(x) + b.double + b.get()


@case(lambda: (t(3), Slots), drive=over(1, 2, 3))
def slot(x, b):
    return x * b.n


@case(lambda: (t(3), lambda v: Box(v).scale), drive=over(1, 2, 3))
def bound_method(x, f):
    return f(x) + 1


@case(lambda: (t(3), lambda v: functools.partial(operator.mul, v)), drive=over(1, 2, 3))
def partial_argument(x, f):
    return f(x) + 1


@case(lambda: (t(3), lambda v: functools.partial(torch.add, alpha=v)), drive=over(1, 2, 3))
def partial_keyword(x, f):
    return f(x, x)


@case(lambda: (t(3), lambda v: lambda y: y * v), drive=over(1, 2, 3))
def closure_of_argument(x, f):
    return f(x) + 1


@case(lambda: (t(3), lambda v: lambda y, k=v: y * k), drive=over(1, 2, 3))
def default_of_argument(x, f):
    return f(x) + 1


@case(lambda: (t(3), lambda v: lambda y, *, k=v: y * k), drive=over(1, 2, 3))
def keyword_default_of_argument(x, f):
    return f(x) + 1


@case(lambda: (t(3), lambda v: [[{"a": (v, 1)}]]), drive=over(1, 2, 3))
def deep_in_containers(x, c):
    return x * c[0][0]["a"][0]


@case(lambda: (t(3), lambda v: {v: 2, "k": 1}), drive=over(1, 2, "z"))
def keys_of_dict(x, d):
    return x * len(d), list(d)


@case(lambda: (t(3), lambda v: {(v, 0): 5}), drive=over(1, 2))
def tuple_keys(x, d):
    return x * d.get((1, 0), 9), (2, 0) in d


@case(lambda: (t(3), lambda v: {v, 10}), drive=over(1, 2, 3))
def members_of_set(x, s):
    return x * sum(s), 2 in s


@case(lambda: (t(3), lambda v: frozenset([v])), drive=over(1, 2))
def members_of_frozenset(x, s):
    return x + (1 in s), len(s)


@case(lambda: (t(3), lambda v: range(v, v + 3)), drive=over(1, 2))
def range_argument(x, r):
    for i in r:
        x = x + i
    return x, len(r), r.start


@case(lambda: (t(3), Level), drive=over(1, 2, 3))
def int_subclass(x, n):
    return x * n, n + 1, type(n).__name__


@case(lambda: (t(3), Name), drive=over("a", "bb", "a"))
def str_subclass(x, s):
    return x * len(s), s.upper(), s == "a"


@case(lambda: (t(3), lambda v: Color(v)), drive=over(1, 2))
def enum_member(x, c):
    return x * c.value, c is Color.RED


@case(lambda: (t(3), lambda v: Frozen(v, (v, v + 1))), drive=over(1, 2, 3))
def frozen_dataclass(x, c):
    return x * c.n + c.parts[1], c == Frozen(1, (1, 2)), hash(c) == hash(Frozen(c.n, c.parts))


@case(lambda: (t(3), lambda v: collections.deque([v, 2])), drive=over(1, 2))
def deque_items(x, d):
    return x * d[0] + d[-1], len(d)


@case(
    lambda: (t(3), lambda v: collections.OrderedDict([(v, 1), ("m", 2)] if v != "r" else [("m", 2), ("a", 1)])),
    drive=over("a", "b", "r"),
)
def ordered_keys(x, d):
    first = next(iter(d))
    return x * d[first], first


@case(lambda: (t(3), lambda v: collections.Counter("a" * v)), drive=over(1, 2, 3))
def counter_values(x, c):
    return x * c["a"], c.most_common(1)


@case(lambda: (t(3), lambda v: collections.defaultdict(lambda: v)), drive=over(1, 2))
def default_factory(x, d):
    return x * d["missing"], len(d)


@case(lambda: (t(3), lambda v: types.MappingProxyType({"k": v})), drive=over(1, 2))
def mapping_proxy(x, m):
    return x * m["k"]


@case(lambda: (t(3), lambda v: collections.ChainMap({}, {"k": v})), drive=over(1, 2))
def chain_map(x, m):
    return x * m["k"]


@case(lambda: (t(3), lambda v: types.SimpleNamespace(k=v)), drive=over(1, 2, None))
def namespace(x, s):
    return x if s.k is None else x * s.k


@case(lambda: (t(3), lambda v: iter([v, 5])), drive=over(1, 2))
def iterator(x, it):
    return x * next(it), list(it)


@case(lambda: (t(3), lambda v: (i * v for i in range(1, 4))), drive=over(1, 2))
def generator(x, it):
    return x * next(it) + sum(it)


@case(lambda: (t(3), lambda v: itertools.count(v)), drive=over(1, 2))
def counting(x, it):
    return x * next(it) + next(it)


@case(lambda: (t(3), lambda v: zip([v, 2], [3, 4])), drive=over(1, 2))
def zip_argument(x, pairs):
    for a, b in pairs:
        x = x * a + b
    return x


@case(lambda: (t(3), lambda v: torch.Size([v, 2])), drive=over(1, 2, 3))
def size_argument(x, s):
    return x.sum() + torch.zeros(s), s[0], s.numel()


@case(lambda: (t(3), lambda v: bytes([v])), drive=over(1, 2))
def bytes_argument(x, b):
    return x * b[0], b


@case(lambda: (t(3), lambda v: bytearray([v])), drive=over(1, 2))
def bytearray_argument(x, b):
    return x * b[0], len(b)


@case(lambda: (t(3), lambda v: complex(v, 1)), drive=over(1, 2))
def complex_argument(x, z):
    return x * z.real, z * 2


@case(lambda: (t(3), lambda v: [None, False, 0, 0.0, "", -0.0][v]), drive=over(0, 1, 2, 3, 4, 5))
def false_values(x, v):
    return x + 1 if v else x - 1, v, v is None, v == 0


@case(lambda: (t(3), lambda v: [1, True, 1.0][v]), drive=over(0, 1, 2))
def equal_values_of_other_types(x, v):
    return x * v, type(v).__name__, {v: 0}


@case(lambda: (t(3), lambda v: {"k": [1, True, 1.0][v]}), drive=over(0, 1, 2))
def equal_values_in_dict(x, d):
    return x * d["k"], type(d["k"]).__name__


@case(lambda: (t(3), lambda v: [Box, Sub][v](1)), drive=over(0, 1))
def class_changes(x, b):
    return x * b.n, type(b).__name__, isinstance(b, Sub)


@case(lambda: (t(3), lambda v: [Box, Sub][v]), drive=over(0, 1))
def class_is_argument(x, cls):
    return x * cls(3).n, cls.__name__, issubclass(cls, Sub)


@case(lambda: (t(3), lambda v: [torch.relu, torch.neg, len][v]), drive=over(0, 1, 2))
def builtin_is_argument(x, f):
    return f(x)


@case(lambda: (t(3), lambda v: weakref.ref(KEPT[v])), drive=over(0, 1))
def weak_reference(x, ref):
    return x * ref().n


KEPT = [Box(2), Box(3)]


def after(*changes):
    """Calls twice before any change and after each."""

    def drive(f, x, *rest):
        results = [f(x, *rest), f(x, *rest)]
        for change in changes:
            change()
            results += [f(x, *rest), f(x, *rest)]
        return results

    return drive


@case(
    lambda: (t(3),),
    drive=after(
        lambda: globals().update(VALUE=2), lambda: globals().update(VALUE="s"), lambda: globals().update(VALUE=1)
    ),
)
def global_value(x):
    return x * VALUE if isinstance(VALUE, int) else x


@case(lambda: (t(3),), drive=after(lambda: TABLE["deep"]["list"].append(7), lambda: TABLE.update(deep={"list": [9]})))
def global_nested(x):
    return x * TABLE["deep"]["list"][-1]


@case(lambda: (t(3),), drive=after(lambda: setattr(MODULE, "k", 3), lambda: setattr(MODULE, "k", torch.ones(3))))
def module_attribute(x):
    return x * MODULE.k


@case(
    lambda: (t(3), Sub(2)),
    drive=after(lambda: setattr(Box, "shared", 5), lambda: setattr(Sub, "shared", 6), lambda: delattr(Sub, "shared")),
)
def inherited_class_attribute(x, b):
    return x * b.shared


@case(lambda: (t(3), Sub(2)), drive=after(lambda: setattr(Sub, "get", lambda self: 50), lambda: delattr(Sub, "get")))
def method_overridden_later(x, b):
    return x * b.get()


@case(lambda: (t(3), Box(2)), drive=after(lambda: setattr(Box, "double", 7)))
def property_replaced(x, b):
    return x * b.double


@case(lambda: (t(3), Box(2)), drive=after(lambda: setattr(Box, "__getattr__", lambda self, name: 9)))
def getattr_added_later(x, b):
    return x * getattr(b, "absent", 4)


@case(
    lambda: (t(3), Box(2)),
    drive=after(lambda: setattr(Box, "__bool__", lambda self: False), lambda: setattr(Box, "__len__", lambda self: 3)),
)
def truth_added_later(x, b):
    return x + 1 if b else x - 1


@case(lambda: (t(3), Box(2), Box(2)), drive=after(lambda: setattr(Box, "__eq__", lambda self, other: True)))
def equality_added_later(x, a, b):
    return x * (1 if a == b else 2)


@case(
    lambda: (t(3), KEPT),
    drive=after(lambda: KEPT.append(Box(9)), lambda: setattr(KEPT[0], "n", 11), lambda: KEPT.reverse()),
)
def list_of_objects(x, boxes):
    return x * sum(b.n for b in boxes), boxes[0].n


def _helper(x, k=2):
    return x * k


def _other(x, k=3):
    return x + k


@case(
    lambda: (t(3),),
    drive=after(lambda: globals().update(_helper=_other), lambda: setattr(_other, "__defaults__", (8,))),
)
def function_rebound(x):
    return _helper(x)


@maker(lambda: (t(3),), drive=lambda f, x: [(f.change(v), f(x), f(x)) for v in (1, 2, "s", 2.5, None)])
def cell_value():
    value = 1

    def f(x):
        return x * value if isinstance(value, (int, float)) else x

    def change(new):
        nonlocal value
        value = new

    f.change = change
    return f


@maker(lambda: (t(3),), drive=lambda f, x: [(f.lists[0].append(1), f(x))[1] for _ in range(4)])
def list_in_cell():
    values = []

    def f(x):
        return x * len(values)

    f.lists = [values]
    return f


@case(
    lambda: (t(3),),
    drive=after(lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
)
def default_dtype(x):
    return torch.zeros(2) + x.sum(), torch.get_default_dtype()


@case(
    lambda: (t(3, grad=True),), drive=after(lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True))
)
def grad_mode(x):
    y = x * 2
    return y.requires_grad, y


class WithHook:
    def __init__(self):
        self.hooks = {}

    def __call__(self, x):
        for hook in self.hooks.values():
            x = hook(x)
        return x


@case(
    lambda: (t(3), WithHook()),
    drive=lambda f, x, w: [
        f(x, w),
        w.hooks.update(a=torch.relu),
        f(x, w),
        w.hooks.update(b=torch.neg),
        f(x, w),
        w.hooks.pop("a"),
        f(x, w),
    ],
)
def hooks_added_and_removed(x, w):
    return w(x) * 2


@case(
    lambda: (t(3), Box(2)),
    drive=lambda f, x, b: [f(x, b), b.__dict__.update(n=5), f(x, b), setattr(b, "__dict__", {"n": 7}), f(x, b)],
)
def instance_dictionary_replaced(x, b):
    return x * b.n


@case(
    lambda: (t(3), [t(3)]),
    drive=lambda f, x, parts: [f(x, parts), parts.append(parts[0]), f(x, parts), parts.__setitem__(1, x), f(x, parts)],
)
def aliasing_in_list_changes(x, parts):
    return x + sum(parts), parts[0] is parts[-1], parts[-1] is x
