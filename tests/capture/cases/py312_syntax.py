"""Syntax of Python 3.12: type parameters, type statements, f-strings without limits, inlined comprehensions."""

import itertools
import typing

import torch

from tests.capture.case import case, t

type Number = int | float
type Pair[T] = tuple[T, T]


def _first[T](items: list[T]) -> T:
    return items[0]


class Box[T]:
    def __init__(self, value: T):
        self.value = value

    def map[U](self, f: typing.Callable[[T], U]) -> "Box[U]":
        return Box(f(self.value))


@case(lambda: ([t(3), t(3, seed=1)],))
def generic_function(parts):
    return _first(parts) + 1, _first.__type_params__[0].__name__


@case(lambda: (t(3),))
def generic_class(x):
    return Box(x).map(lambda y: y * 2).value, Box[int].__origin__ is Box


@case(lambda: (t(3), 2), lambda: (t(3), 2.5))
def type_alias(x, n: Number):
    return x * n, isinstance(n, Number.__value__), Pair[int].__origin__ is Pair


@case(lambda: (t(3), 2))
def generic_made_inside(x, n):
    def scale[T: torch.Tensor](y: T) -> T:
        return y * n

    class Inner[U]:
        factor: U = n

    type Local = list[Inner]
    return scale(x) + Inner.factor, Local.__name__


@case(lambda: (t(3), {"a": 1}))
def f_string_quotes(x, d):
    return (
        x,
        f"{d['a']} {f'{f"{1 + 1}"}'} {
            len(d)  # a comment inside
        } {'\n'.join(['p', 'q'])!r}",
    )


@case(lambda: (t(3), 3), lambda: (t(3), 4))
def inlined_comprehensions(x, n):
    i = "outer"
    made = [i * 2 for i in range(n)]
    names = [sorted(k for k in locals()) for _ in range(1)]
    return x + made[-1], i, names


@case(lambda: (t(3),))
def comprehension_error_lines(x):
    y = x + 1
    return [
        y / (2 - i)
        for i in [
            0,
            2 - 0,
            "s",
        ]
    ]


@case(lambda: (t(3), [1, 2, 3, 4, 5]))
def batched(x, ns):
    return [x * sum(b) for b in itertools.batched(ns, 2)]


class Meta(type):
    pass


class Overrides(Box[int]):
    @typing.override
    def map(self, f):
        return super().map(lambda v: f(v) + 1)


@case(lambda: (t(3),))
def override(x):
    return Overrides(x).map(lambda y: y * 3).value, Overrides.map.__override__


@case(lambda: (t(3),))
def comprehension_with_cells(x):
    fs = [lambda: x * i for i in range(3)]
    return fs[0](), [f() for f in fs], {k: (lambda: k)() for k in "ab"}


@case(lambda: (t(3), slice(0, 2)))
def hashable_slices(x, s):
    return x[s], {s: 1}[slice(0, 2)]
