"""Operators and protocols of user classes."""

import torch

from tests.capture.case import case, t


class Scaled:
    """Arithmetic on a tensor and a factor."""

    def __init__(self, x, k=1):
        self.x, self.k = x, k

    def _other(self, other):
        return other.x * other.k if isinstance(other, Scaled) else other

    def __add__(self, other):
        return Scaled(self.x * self.k + self._other(other))

    def __radd__(self, other):
        return Scaled(other + self.x * self.k, 2)

    def __sub__(self, other):
        return NotImplemented if isinstance(other, str) else Scaled(self.x - self._other(other))

    def __rsub__(self, other):
        return Scaled(other - self.x)

    def __mul__(self, other):
        return Scaled(self.x, self.k * other)

    __rmul__ = __mul__

    def __matmul__(self, other):
        return Scaled(self.x @ self._other(other))

    def __neg__(self):
        return Scaled(-self.x, self.k)

    def __pos__(self):
        return self

    def __abs__(self):
        return Scaled(self.x.abs(), abs(self.k))

    def __invert__(self):
        return Scaled(self.x, -self.k)

    def __iadd__(self, other):
        self.x = self.x + other
        return self

    def __truediv__(self, other):
        return Scaled(self.x / other, self.k)

    def __floordiv__(self, other):
        return Scaled(self.x, self.k // other)

    def __pow__(self, n, modulo=None):
        return Scaled(self.x**n, self.k)

    def __lshift__(self, n):
        return Scaled(self.x, self.k << n)

    def __rlshift__(self, n):
        return n + 1000

    def __and__(self, other):
        return ("and", self.k, other)

    def __rand__(self, other):
        return ("rand", self.k, other)

    def __divmod__(self, n):
        return divmod(self.k, n)


@case(lambda: (t(3), 2), lambda: (t(3), 3))
def arithmetic(x, n):
    s = Scaled(x, n)
    return [
        s + 1,
        1 + s,
        s - s,
        5 - s,
        s * 3,
        3 * s,
        -s,
        +s,
        abs(s),
        ~s,
        s / 2,
        s // 2,
        s**2,
        s << 1,
        n << s,
        s & 1,
        1 & s,
    ]


@case(lambda: (t(3, 3),))
def matmul_and_divmod(x):
    s = Scaled(x, 7)
    return s @ s, divmod(s, 2), pow(s, 2)


@case(lambda: (t(3), Scaled(t(3, seed=1), 2)))
def in_place(x, s):
    same = s
    s += x
    s *= 3
    return s, same, same is s


@case(lambda: (t(3),))
def tensor_on_the_left(x):
    return [(x + 0) * 1, [1] + [2], sum([Scaled(x), Scaled(x)], 5)]


@case(lambda: (t(3),))
def not_implemented(x):
    s = Scaled(x)
    try:
        s - "text"
    except TypeError as error:
        return s - 1, str(error)


class Ordered:
    def __init__(self, n):
        self.n = n
        self.asked = 0

    def __eq__(self, other):
        self.asked += 1
        return isinstance(other, Ordered) and self.n == other.n

    def __lt__(self, other):
        self.asked += 1
        return self.n < other.n

    def __le__(self, other):
        return "truthy" if self.n <= other.n else ""

    def __hash__(self):
        return hash(self.n)

    def __repr__(self):
        return f"Ordered({self.n})"


@case(lambda: (t(3), 2, 1), lambda: (t(3), 2, 2), lambda: (t(3), 1, 2))
def ordering(x, a, b):
    p, q = Ordered(a), Ordered(b)
    if p < q:
        x = x + 1
    if p == q:
        x = x * 2
    return (
        x,
        p <= q,
        p != q,
        p > q,
        sorted([q, p, Ordered(0)]),
        max(p, q),
        p.asked,
        p in [q],
        len({p, q}),
        {p: 1}.get(q),
    )


class Truth:
    def __init__(self, value, log):
        self.value, self.log = value, log

    def __bool__(self):
        self.log.append(self.value)
        return self.value


@case(lambda: (t(3), True), lambda: (t(3), False))
def truth(x, value):
    log = []
    a, b = Truth(value, log), Truth(not value, log)
    c = a and b
    d = a or b
    if a:
        x = x + 1
    while not b:
        b.value = True
    return x, c is a, d is b, log, bool(a), not b


class BadTruth:
    def __bool__(self):
        return 3


@case(lambda: (t(3),))
def truth_of_wrong_type(x):
    if BadTruth():
        return x + 1


class Sized:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


@case(lambda: (t(3), 0), lambda: (t(3), 4))
def length(x, n):
    s = Sized(n)
    return (x + 1 if s else x - 1), len(s), bool(s)


class Table:
    def __init__(self):
        self.items = {}
        self.log = []

    def __getitem__(self, key):
        self.log.append(("get", key if not isinstance(key, slice) else "slice"))
        if isinstance(key, slice):
            return key
        if isinstance(key, tuple):
            return len(key)
        return self.items[key]

    def __setitem__(self, key, value):
        self.items[key] = value

    def __delitem__(self, key):
        del self.items[key]

    def __contains__(self, key):
        self.log.append(("contains", key))
        return key in self.items

    def __missing__(self, key):
        return "missing"


@case(lambda: (t(3), Table()))
def item_protocol(x, table):
    table["a"] = x * 2
    table["b"] = 1
    table["b"] += 5
    del table["a"]
    return table, "a" in table, "b" not in table, table[1:2], table[1, 2, ...], x + table["b"]


class OldIteration:
    def __init__(self, n):
        self.n = n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError(i)
        return i * 10


@case(lambda: (t(3), 3), lambda: (t(3), 2))
def iteration_by_getitem(x, n):
    for v in OldIteration(n):
        x = x + v
    return x, list(OldIteration(n)), 10 in OldIteration(n), [*OldIteration(2)]


class Count:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n

    def __reversed__(self):
        return iter([self.n, 99])

    def __length_hint__(self):
        return self.n


@case(lambda: (t(3), 3), lambda: (t(3), 5))
def iterator_class(x, n):
    c = Count(n)
    for v in c:
        x = x + v
        if v == 1:
            break
    return x, next(c), next(c, "over"), list(reversed(c)), list(Count(2)), dict(zip("ab", Count(2))), max(Count(4))


class GeneratorIter:
    def __init__(self, parts):
        self.parts = parts

    def __iter__(self):
        for p in self.parts:
            yield p * 2


@case(lambda: ([t(2), t(2, seed=1)],), lambda: ([t(2)],))
def iter_is_generator(parts):
    g = GeneratorIter(parts)
    a, *_ = g
    return sum(g), a, [*g], torch.cat(list(g))


class Number:
    def __init__(self, n):
        self.n = n

    def __int__(self):
        return self.n

    def __float__(self):
        return self.n + 0.5

    def __index__(self):
        return self.n

    def __round__(self, digits=None):
        return ("round", digits)

    def __trunc__(self):
        return self.n

    def __complex__(self):
        return complex(self.n, 1)


@case(lambda: (t(4), 2), lambda: (t(4), 1))
def number_protocol(x, n):
    k = Number(n)
    return (
        x * int(k) + float(k),
        [10, 20, 30][k],
        list(range(k)),
        round(k),
        round(k, 2),
        hex(k),
        complex(k),
        "abc"[:k],
        x[k:],
    )


class Describes:
    def __repr__(self):
        return "R"

    def __str__(self):
        return "S"

    def __bytes__(self):
        return b"B"

    def __dir__(self):
        return ["d"]

    def __sizeof__(self):
        return 5


@case(lambda: (t(2),))
def text_protocol(x):
    d = Describes()
    return x + 1, repr(d), str(d), f"{d}{d!r}", bytes(d), dir(d), [d].__repr__()


@case(lambda: (t(3), [1, 2]), lambda: (t(3), (1, 2)))
def in_place_on_builtins(x, items):
    before = items
    items += type(items)([3])
    items *= 2
    return x + len(items), items is before, items


class Left:
    def __add__(self, other):
        return "Left.add"


class RightOfLeft(Left):
    def __radd__(self, other):
        return "Right.radd"


@case(lambda: (t(2),))
def subclass_reflected_first(x):
    return x + 1, Left() + RightOfLeft(), Left() + Left(), RightOfLeft() + Left()


class Vector(list):
    def __add__(self, other):
        return Vector(a + b for a, b in zip(self, other, strict=True))

    def norm(self):
        return sum(v * v for v in self)


@case(lambda: ([t(2), t(2, seed=1)],))
def list_subclass(parts):
    v = Vector(parts)
    v.tag = "t"
    v.append(parts[0] * 3)
    return v + v, v.norm(), type(v[:1]).__name__, isinstance(v, list), v


class Defaulting(dict):
    def __missing__(self, key):
        value = self[key] = len(self)
        return value

    def __getattr__(self, name):
        try:
            return self[name] if name in self else super().__getattribute__(name)
        except KeyError:
            raise AttributeError(name) from None


@case(lambda: (t(3), Defaulting(a=2)), lambda: (t(3), Defaulting()))
def dict_subclass(x, d):
    return x * d["a"] + d["new"] + d.new, d, d.get("zz"), list(d.items()), hasattr(d, "other")


class Meters(float):
    def __add__(self, other):
        return Meters(float(self) + float(other))


class Name(str):
    def shout(self):
        return Name(self.upper() + "!")


class Level(int):
    unit = "m"


class Pair(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    @property
    def a(self):
        return self[0]


@case(lambda: (t(3),))
def subclasses_of_immutables(x):
    p = Pair(x, 2)
    return p, p.a * p[1], Meters(1.5) + 2, Name("hey").shout(), x * Level(3), Level(3) + 1, type(Level(2) + 1).__name__


@case(lambda: (t(3), 2), lambda: (t(3), 5), lambda: (t(3), 6))
def outcomes_of_comparisons_are_bools(x, n):
    even, large = n % 2 == 0, n > 4
    try:
        picked = (10, 20)[even]
    except TypeError as error:
        picked = repr(error)
    return x + n, picked, "ab"[large], even is True, type(large), isinstance(large, int), x.sum(0, keepdim=large)
