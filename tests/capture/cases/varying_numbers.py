"""Floats, integers and strings that are others in each call, and what a program may do with them."""

import copy
import functools
import math
import operator

import torch

from tests.capture.case import case, maker, t


class Schedule:
    def __init__(self, rate):
        self.rate = rate
        self.step = 0
        self.history = []

    def __call__(self):
        self.step += 1
        self.rate *= 0.5
        self.history.append(self.rate)
        return self.rate


def scaled(x, factor=1.0, *, shift=0.0):
    return x * factor + shift


@case(*[lambda v=v: (t(3), v) for v in (0.1, 0.7, 0.25, -3.5, 0.0, math.inf, 1e300)])
def arithmetic_with_tensors(x, s):
    return x * s, s * x, x + s, s - x, x - s, x / (s * s + 1), x.mul(s), torch.add(x, s), x.sub_(s)


@case(*[lambda v=v: (t(3), v) for v in (1.5, 2.5, 0.25, -3.5, math.nan, -0.0)])
def arithmetic_with_numbers(x, s):
    lr = 0.1 * 0.9**2 * s
    pair = (s + 1, -s, s // 2, s % 1.5, abs(s), divmod(s, 2), s**2, +s, 2**s)
    return x * lr, pair, round(lr, 3), float(s), operator.mul(s, 3), math.floor(lr) if s == s else None


@case(*[lambda v=v: (t(3), v) for v in (1.5, 2.5, 0.25, 8.0, 9.0, 2.0, 0.1)])
def comparisons(x, s):
    if s > 2.25 or s == 0.25:
        x = x + 1
    while s < 7 and s:
        s = s * 2
    return x * 3, s, min(s, 8.0), max(1, s), 1 < s <= 9, s in (8.0, 2.0), not s


@case(*[lambda v=v: (t(3), v) for v in (1.5, 2.5, 0.25, 8.0, 9.0, 2.0, 0.1)])
def value_is_asked_for(x, s):
    y = torch.clamp(x, max=s)
    z = torch.add(x, x, alpha=s)
    return y, z, f"{s:.2f}", str(s), s.is_integer(), int(s), hash(s), {s: 1}, [s].index(s), repr([s])


@case(*[lambda v=v: (t(3), v) for v in (1.5, 0.0, 0.25, 0.0, 9.0, -2.0, 0.1)])
def exceptions_of_some_values(x, s):
    try:
        a = 1 / s
    except ZeroDivisionError as e:
        a = str(e)
    try:
        b = math.log(s)
    except ValueError as e:
        b = str(e)
    return x * 2, a, b, (-8.0) ** s


# What is computed from a number that is another in each call raises at last, or gives a number of another type.
def last(*values):
    return [lambda v=v: (t(3), v) for v in (1.5, 2.5, 0.25, 8.0, *values, 3.5, *values)]


@case(*last(-1.0, 0.0))
def a_logarithm_that_raises_at_last(x, s):
    return x * 2, math.log(s)


@case(*last(1e6))
def an_exponential_that_raises_at_last(x, s):
    y = math.exp(s)
    return y, x * 2, y


@case(*last(0.0))
def a_division_that_raises_at_last(x, s):
    return x + 1, 1 / s


@case(*last(0.0))
def a_remainder_that_raises_at_last(x, s):
    return [5 % s, x + 1]


@case(*last(1e200))
def a_power_that_raises_at_last(x, s):
    return x + 1, s**2.5


@case(*last(-4.0))
def a_power_that_is_complex_at_last(x, s):
    return x + 1, s**0.5


@case(*last(math.inf, math.nan))
def an_integer_that_raises_at_last(x, s):
    return x + 1, math.floor(s), int(s)


@case(*last(0.0, -1.0))
def a_tensor_of_what_raises_at_last(x, s):
    return x * math.log(s) + s


@case(*last(-1.0))
def caught_at_last(x, s):
    try:
        y = math.log(s)
    except ValueError as e:
        y = str(e)
    print("between")
    return x * 2, y


@case(*[lambda v=v: (t(3), v) for v in (3, 5, 7, 9, 0, 4, -2, 0)])
def integers_that_raise_at_last(x, n):
    return x * n, 12 // n, 2.0**n, math.log(n)


@case(lambda: (t(3), [(0.5, 3), (0.25, 7), (0.75, 100), (0.5, 1053), (0.5, 8), (0.7, 1120), (0.5, -2000)] * 3))
def raises_in_some_turns_of_a_loop(x, pairs):
    found = []
    for m, e in pairs:
        print("begin")
        try:
            y = -1.0 * math.ldexp(m, e)
        except OverflowError:
            found.append(None)
        else:
            found.append(float.fromhex(y.hex()))
    return x, found


@case(*[lambda v=v: (t(3), v) for v in (1.5, 2, 0.25, 8, True, "a", None, 3.5)])
def other_types(x, s):
    if isinstance(s, float):
        return x * s, type(s).__name__
    return x, type(s)


@case(*[lambda v=v: (t(3), v) for v in (1.5, 2.5, 0.25, 8.0, 9.0, 2.0)])
def through_objects(x, s):
    o = Schedule(s)
    d = {"s": s, "nested": [s, (s, 1)]}
    a, b = s, d["nested"][1][0]
    f = lambda k: k * s  # noqa: E731
    return scaled(x, o(), shift=a), scaled(x, **{"factor": b}), o, copy.deepcopy(d), f(x), [*d["nested"]], a is None


@maker(*[lambda v=v: (t(3), Schedule(v)) for v in (1.5, 2.5, 0.25, 8.0, 9.0, 2.0)])
def kept_in_attributes():
    calls = []

    def f(x, o):
        calls.append(len(calls))
        return x * o(), o.history, calls

    return f


@case(*[lambda v=v: (t(3, seed=v),) for v in range(8)])
def items_of_tensors(x):
    v = x.sum().item()
    if v > 0:
        x = x - v
    print(f"{v:.3f}")
    y = x * v
    n = int(abs(v))
    return y, v * 2, n, [v] * 2


@case(*[lambda v=v: (t(2, 3), v) for v in (2, 7, 3, 1, 0, -5, 9, 12, 4, 5)])
def integers(x, n):
    a = 0.5**n
    return x * a, x * n, n // 2, {n: "n"}, [0] * (n % 3), f"{n}"


@case(*[lambda v=v: (t(2, 3), v) for v in ("a", "b", "", "d", "ee", "f", "g", "hh", "a")])
def strings(x, name):
    out = {name: x * 2}
    text = name + "x"
    print(text, f"<{name}>")
    return out, len(name), name.upper(), text[0], name == "f", sorted([name, "c"])


@case(*[lambda v=v: (torch.tensor([1, 2, 3]), t(3).sum(), v) for v in (1.5, 2.5, 0.25, 8.0, 9.0)])
def tensors_of_other_kinds(i, zero_d, s):
    return i * s, zero_d * s, zero_d.double() + s, i.bool() * s, i + s, torch.full((2,), s), torch.tensor(s)


@case(*[lambda v=v: (t(3), v) for v in (1.5, 2.5, 0.25, 8.0, 9.0)])
def assigned_to_items(x, s):
    y = x.clone()
    y[0] = s
    y[1:] = s * 2
    return y, torch.where(x > 0, x, s), x**s, x // s, x % s, torch.lerp(x, y, s)


@case(*[lambda v=v: (t(3).bfloat16(), t(3).half(), torch.complex(t(3), t(3)), v) for v in (1.75, 0.25, 2.0, 8.5)])
def other_dtypes(b, h, c, s):
    return b * s, b + s, h * s, c * s, b / s, h - s


@case(*[lambda v=v: (t(3, grad=True), v) for v in (1.75, 0.25, 1e5, 8.5)])
def with_gradients(x, s):
    y = (x * s).sum() + s
    y.backward()
    return y, x.grad


NAMES = ("sum", "mean")


@case(*[lambda name=name: (t(3), name) for name in ("max", "sum", "min", "mean", "max")])
def text_that_c_code_compares(x, name):
    return x + 1, name in NAMES, [name] == ["mean"], [*NAMES, "min"].count(name), (name, 1) == ("max", 1)


@case(*[lambda name=name: (t(3), name) for name in ("a", "b", "c", "a")])
def text_that_c_code_joins(x, name):
    return x + 1, functools.reduce(operator.add, [name, "-", name]), max([name, "b"])


@case(*[lambda v=v: (v,) for v in (5, 7, 1 << 20, 1 << 35, -3, 1 << 31, (1 << 62) + 1, -(1 << 40))])
def integers_of_any_size_as_tensors(n):
    return (
        torch.tensor(n),
        torch.tensor(n, dtype=torch.float64),
        torch.tensor([n, 1]),
        torch.as_tensor((2, n), dtype=torch.int64),
        torch.tensor([[n], [2]]),
        torch.full((2,), n),
    )
