"""Arguments: Python values, containers, objects."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import typing

import torch

from tests.capture.guard_rows import Runner, row

X = torch.linspace(-2.0, 3.0, 6).reshape(2, 3)


@row
def kind_of_number(runner: Runner) -> None:
    @runner.compile
    def f(x, n):
        return x * n, type(n).__name__

    for n in (2, 2.0, True, 2 + 0j, 2, True):
        runner.call(f, X, n)
    runner.hit(f, X, 2)
    runner.hit(f, X, True)


@row
def integer(runner: Runner) -> None:
    @runner.compile
    def f(x, n):
        return x + n if n > 3 else x - n

    for n in (5, 6, 7, 1, 0, -1, 5, 2**40, 2**70):
        runner.call(f, X, n)
    for n in (5, 6, 7):
        runner.hit(f, X, n)


@row
def integer_as_a_size(runner: Runner) -> None:
    @runner.compile
    def f(x, n):
        return torch.zeros(n, 3).sum() + n, x.repeat(n, 1)

    for n in (2, 3, 4, 1, 0, 5):
        runner.call(f, X, n)
    runner.hit(f, X, 4)


@row
def floating(runner: Runner) -> None:
    @runner.compile
    def f(x, s):
        return x * s, s > 1.0

    for s in (0.5, 0.25, 1.5, float("inf"), float("nan"), -0.0, 0.0, 0.5):
        runner.call(f, X, s)


@row
def sign_of_zero(runner: Runner) -> None:
    @runner.compile
    def f(x, s):
        return torch.copysign(x, torch.tensor(s)), str(s)

    for s in (0.0, -0.0, 0.0):
        runner.call(f, X, s)


@row
def string(runner: Runner) -> None:
    @runner.compile
    def f(x, mode):
        return getattr(torch, mode)(x)

    for mode in ("sin", "cos", "exp", "sin"):
        runner.call(f, X, mode)
    runner.hit(f, X, "".join(["si", "n"]))


@row
def none_or_tensor(runner: Runner) -> None:
    @runner.compile
    def f(x, mask=None):
        return x.exp() if mask is None else x.masked_fill(mask, 0.0)

    runner.call(f, X)
    runner.call(f, X, X > 0)
    runner.call(f, X, None)
    runner.hit(f, X, mask=None)
    runner.hit(f, X, X < 0)


@row
def truth(runner: Runner) -> None:
    @runner.compile
    def f(x, flag):
        return x + 1 if flag else x - 1

    for flag in (True, False, True, 0, 1, "", "a", [], [0], None, {}, {1: 1}):
        runner.call(f, X, flag)
    runner.hit(f, X, False)


@row
def count_of_arguments(runner: Runner) -> None:
    @runner.compile
    def f(x, *rest, scale=1.0, **named):
        for each in rest:
            x = x + each
        for name, each in named.items():
            x = x * each + len(name)
        return x * scale

    runner.call(f, X)
    runner.call(f, X, X, X)
    runner.call(f, X, X, a=X)
    runner.call(f, X, X, a=X, bb=X)
    runner.call(f, X, X, bb=X, a=X + 1)
    runner.call(f, X, scale=2.0)
    runner.call(f, X + 1, X + 1)
    runner.hit(f, X * 2)
    runner.call(f)


@row
def length_of_a_list(runner: Runner) -> None:
    @runner.compile
    def f(xs):
        total = xs[0]
        for each in xs[1:]:
            total = total * 2 + each
        return total, len(xs)

    xs = [X, X + 1]
    runner.call(f, xs)
    xs.append(X * 3)
    runner.call(f, xs)
    del xs[0]
    runner.call(f, xs)
    runner.hit(f, [X + 5, X])
    runner.call(f, tuple(xs))
    runner.call(f, [])


@row
def element_of_a_list(runner: Runner) -> None:
    @runner.compile
    def f(x, ns):
        return x * ns[0] + ns[-1]

    ns = [2, 5, 7]
    runner.call(f, X, ns)
    ns[0] = 3
    runner.call(f, X, ns)
    ns[-1] = "no number"
    runner.call(f, X, ns)
    ns[-1] = X
    runner.call(f, X, ns)


@row
def keys_of_a_dict(runner: Runner) -> None:
    @runner.compile
    def f(d):
        total = 0
        for key, value in d.items():
            total = total * 2 + value.sum() * len(key)
        return total, list(d)

    d = {"a": X, "bcd": X + 1}
    runner.call(f, d)
    d["ef"] = X * 2
    runner.call(f, d)
    d["a"] = d.pop("a")
    runner.call(f, d)
    del d["ef"]
    runner.call(f, d)
    runner.hit(f, {"bcd": X, "a": X})
    runner.call(f, collections.OrderedDict(d))


@row
def order_of_an_ordered_dict(runner: Runner) -> None:
    @runner.compile
    def f(d):
        total = 0.0
        for value in d.values():
            total = total * 2 + value
        return total

    d = collections.OrderedDict(a=X, b=X + 1, c=X * 3)
    runner.call(f, d)
    d.move_to_end("a")
    runner.call(f, d)
    d.move_to_end("c", last=False)
    runner.call(f, d)


@row
def missing_key(runner: Runner) -> None:
    @runner.compile
    def f(x, d):
        return x * d.get("scale", 2.0), "bias" in d

    d: dict[str, typing.Any] = {}
    runner.call(f, X, d)
    d["other"] = 1
    runner.call(f, X, d)
    d["scale"] = 3.0
    runner.call(f, X, d)
    d["bias"] = None
    runner.call(f, X, d)


@row
def default_dict(runner: Runner) -> None:
    @runner.compile
    def f(x, d):
        return x * d["scale"], len(d)

    d = collections.defaultdict(lambda: 2.0)
    runner.call(f, X, d)
    runner.see(dict(d))
    d["scale"] = 5.0
    runner.call(f, X, d)
    del d["scale"]
    d.default_factory = lambda: 7.0
    runner.call(f, X, d)
    runner.see(dict(d))


@row
def nested(runner: Runner) -> None:
    @runner.compile
    def f(tree):
        (a, b), rest = tree["pair"], tree["rest"]
        return a * rest[0]["k"] + b

    tree = {"pair": [X, X + 1], "rest": ({"k": 2.0},)}
    runner.call(f, tree)
    tree["rest"][0]["k"] = 3.0
    runner.call(f, tree)
    tree["pair"][1] = 4
    runner.call(f, tree)
    tree["pair"].append(1)
    runner.call(f, tree)


@row
def content_of_a_set(runner: Runner) -> None:
    @runner.compile
    def f(x, names):
        return x * (2 if "a" in names else 3) + len(names)

    names = {"a", "b"}
    runner.call(f, X, names)
    names.remove("a")
    runner.call(f, X, names)
    names.update("cd")
    runner.call(f, X, names)
    runner.call(f, X, frozenset("ab"))
    runner.hit(f, X, {"b", "a"})


@row
def deque(runner: Runner) -> None:
    @runner.compile
    def f(x, q):
        for each in q:
            x = x * 2 + each
        return x

    q = collections.deque([1.0, 2.0], maxlen=3)
    runner.call(f, X, q)
    q.append(3.0)
    runner.call(f, X, q)
    q.append(4.0)
    runner.call(f, X, q)
    q.rotate()
    runner.call(f, X, q)


@dataclasses.dataclass
class Settings:
    scale: float
    names: list[str] = dataclasses.field(default_factory=list)
    inner: Settings | None = None


@row
def field_of_a_dataclass(runner: Runner) -> None:
    @runner.compile
    def f(x, s):
        return x * s.scale + len(s.names) + (s.inner.scale if s.inner else 0)

    s = Settings(2.0)
    runner.call(f, X, s)
    s.scale = 3.0
    runner.call(f, X, s)
    s.names.append("a")
    runner.call(f, X, s)
    s.inner = Settings(5.0)
    runner.call(f, X, s)
    s.inner.scale = 6.0
    runner.call(f, X, s)
    s.unread = 1
    runner.hit(f, X, s)


@row
def frozen_dataclass(runner: Runner) -> None:
    @dataclasses.dataclass(frozen=True)
    class Shape:
        rows: int
        columns: int = 3

    @runner.compile
    def f(x, s):
        return x.reshape(s.rows, s.columns), s

    for s in (Shape(2), Shape(3, 2), Shape(6, 1), Shape(2)):
        runner.call(f, X, s)


class Point(typing.NamedTuple):
    a: torch.Tensor
    n: int = 2


class OtherPoint(typing.NamedTuple):
    a: torch.Tensor
    n: int = 2


@row
def named_tuple(runner: Runner) -> None:
    @runner.compile
    def f(p):
        return p._replace(a=p.a * p.n)

    for p in (Point(X), Point(X, 3), Point(X, 4), OtherPoint(X, 4), Point(X + 1)):
        runner.call(f, p)
    runner.call(f, (X, 2))


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@row
def member_of_an_enum(runner: Runner) -> None:
    @runner.compile
    def f(x, c):
        return x * c.value if c is Color.RED else x + c.value

    for c in (Color.RED, Color.BLUE, Color.RED):
        runner.call(f, X, c)
    runner.hit(f, X, Color.BLUE)


class Plain:
    scale = 2.0

    def __init__(self, bias: float = 1.0) -> None:
        self.bias = bias


class Doubled(Plain):
    scale = 4.0


@row
def attribute_of_an_object(runner: Runner) -> None:
    @runner.compile
    def f(x, o):
        return x * o.scale + o.bias

    o = Plain()
    runner.call(f, X, o)
    o.bias = 2.0
    runner.call(f, X, o)
    o.scale = 3.0
    runner.call(f, X, o)
    del o.scale
    runner.call(f, X, o)
    runner.call(f, X, Doubled(5.0))
    del o.bias
    runner.call(f, X, o)


@row
def which_object(runner: Runner) -> None:
    marker = object()

    @runner.compile
    def f(x, o, p):
        return x + 1 if o is marker else (x + 2 if o is p else x + 3)

    other = object()
    for o, p in ((marker, marker), (other, marker), (other, other), (None, None), (marker, None)):
        runner.call(f, X, o, p)


@row
def same_list_twice(runner: Runner) -> None:
    @runner.compile
    def f(x, a, b):
        a.append(1)
        return x * len(b), a is b

    a: list[int] = []
    runner.call(f, X, a, [])
    runner.see(a)
    runner.call(f, X, a, a)
    runner.see(a)
    runner.call(f, X, [], a)
    runner.see(a)


@row
def kind_of_a_container(runner: Runner) -> None:
    class Mine(list):
        def __getitem__(self, at):
            return super().__getitem__(at) * 10

    @runner.compile
    def f(x, ns):
        return x * ns[0], type(ns).__name__

    for ns in ([2, 3], (2, 3), Mine([2, 3]), {0: 2}, "ab", range(2, 4), [2, 3]):
        runner.call(f, X, ns)


@row
def slots(runner: Runner) -> None:
    class Slotted:
        __slots__ = ("a", "b")

    @runner.compile
    def f(x, o):
        return x * o.a + getattr(o, "b", 0)

    o = Slotted()
    runner.call(f, X, o)
    o.a = 2.0
    runner.call(f, X, o)
    o.a = 3.0
    runner.call(f, X, o)
    o.b = X
    runner.call(f, X, o)


@row
def isinstance_of_an_argument(runner: Runner) -> None:
    @runner.compile
    def f(x, v):
        if isinstance(v, int):
            return x + v
        if isinstance(v, list | tuple):
            return x + sum(v)
        if isinstance(v, torch.Tensor):
            return x * v
        return x

    for v in (1, 2.0, True, [1, 2], (3,), X, "a", None, torch.nn.Parameter(X), [1, 2, 3]):
        runner.call(f, X, v)


@row
def callable_argument(runner: Runner) -> None:
    @runner.compile
    def f(x, g):
        return g(x) + 1

    class Twice:
        def __call__(self, x):
            return x * 2

    for g in (
        torch.sin,
        torch.cos,
        lambda x: x * 3,
        lambda x: x * 4,
        Twice(),
        functools.partial(torch.add, other=5),
        abs,
    ):
        runner.call(f, X, g)
    runner.hit(f, X, torch.sin)


@row
def contents_of_a_partial(runner: Runner) -> None:
    def g(x, scale, bias=0.0):
        return x * scale + bias

    @runner.compile
    def f(x, p):
        return p(x)

    for p in (
        functools.partial(g, scale=2.0),
        functools.partial(g, scale=3.0),
        functools.partial(g, scale=3.0, bias=1.0),
    ):
        runner.call(f, X, p)
    p = functools.partial(g, scale=2.0)
    runner.call(f, X, p)
    p.keywords["scale"] = 9.0
    runner.call(f, X, p)
    p.__setstate__((torch.sub, (X * 2,), {}, {}))
    runner.call(f, X, p)


@row
def torch_values(runner: Runner) -> None:
    @runner.compile
    def f(x, dtype, size, device):
        return x.to(dtype).sum() + torch.ones(size, dtype=dtype, device=device)

    runner.call(f, X, torch.float32, torch.Size([2]), torch.device("cpu"))
    runner.call(f, X, torch.float64, torch.Size([2]), torch.device("cpu"))
    runner.call(f, X, torch.float32, torch.Size([2, 1]), "cpu")
    runner.call(f, X, torch.int64, (2,), torch.device("meta"))


@row
def slice_and_range(runner: Runner) -> None:
    @runner.compile
    def f(x, s, r):
        total = x[:, s].sum()
        for i in r:
            total = total * 2 + i
        return total

    for s, r in (
        (slice(0, 1), range(2)),
        (slice(1, 3), range(2)),
        (slice(None), range(3)),
        (slice(0, 3, 2), range(3, 0, -1)),
    ):
        runner.call(f, X, s, r)


@row
def object_with_dict_replaced(runner: Runner) -> None:
    @runner.compile
    def f(x, o):
        return x * o.bias

    o = Plain(2.0)
    runner.call(f, X, o)
    o.__dict__ = {"bias": 3.0}
    runner.call(f, X, o)
    held = o.__dict__
    o.__dict__ = {"bias": 4.0}
    runner.call(f, X, o)
    held["bias"] = 5.0
    runner.call(f, X, o)
    o.__dict__["bias"] = 6.0
    runner.call(f, X, o)
    vars(o).update(bias=7.0)
    runner.call(f, X, o)
    object.__setattr__(o, "bias", 8.0)
    runner.call(f, X, o)


@row
def object_with_class_replaced(runner: Runner) -> None:
    @runner.compile
    def f(x, o):
        return x * o.scale, type(o).__name__

    o = Plain()
    runner.call(f, X, o)
    o.__class__ = Doubled
    runner.call(f, X, o)
    object.__setattr__(o, "__class__", Plain)
    runner.call(f, X, o)


@row
def unread_argument(runner: Runner) -> None:
    @runner.compile
    def f(x, unread):
        return x.sin()

    runner.call(f, X, [1, 2, 3])
    runner.call(f, X * 2, [1, 2, 3])
    runner.hit(f, X * 3, [1, 2, 3])
    runner.call(f, X, {"a": X})
    runner.call(f, X, None)


@row
def global_dict_of_handlers(runner: Runner) -> None:
    @runner.compile
    def f(x, name):
        return HANDLERS[name](x)

    runner.call(f, X, "sin")
    runner.call(f, X, "cos")
    runner.patch(HANDLERS, "sin", torch.exp)
    runner.call(f, X, "sin")
    runner.patch(HANDLERS, "tan", torch.tan)
    runner.call(f, X, "tan")
    runner.call(f, X, "none")


HANDLERS = {"sin": torch.sin, "cos": torch.cos}
