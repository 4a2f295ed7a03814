"""The parts of random functions: classes, helpers, exceptions, and the arguments of the calls."""

PRELUDE = '''\
"""A random function; see tests/capture/random_functions.py."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import operator

import torch

from tests.capture.case import maker, t

G = 2
GL = [1, 2]
GD = {"a": 1}


class Odd(Exception):
    def __init__(self, value, note="odd"):
        super().__init__(value, note)
        self.value = value


class Odder(Odd, KeyError):
    pass


class Box:
    made = 0
    rank = 3

    def __init__(self, a, items=()):
        type(self).made += 1
        self.a = a
        self.items = list(items)

    @property
    def twice(self):
        return self.a * 2

    @twice.setter
    def twice(self, value):
        self.a = value // 2

    @staticmethod
    def of(*items, a=1, **more):
        return Box(a + len(more), items)

    @classmethod
    def ranked(cls, by=1):
        return cls.rank + by

    def method(self, x, *, by=2):
        self.items.append(len(self.items))
        return x * by + self.a

    def __getitem__(self, at):
        return self.items[at]

    def __setitem__(self, at, value):
        self.items[at] = value

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        yield from self.items

    def __contains__(self, value):
        return value == self.a

    def __add__(self, other):
        return Box(self.a + (other.a if isinstance(other, Box) else other), self.items)

    __radd__ = __add__

    def __iadd__(self, other):
        self.a += other
        return self

    def __eq__(self, other):
        return isinstance(other, Box) and self.a == other.a

    def __lt__(self, other):
        return self.a < other.a

    def __hash__(self):
        return hash(self.a)

    def __bool__(self):
        return self.a % 3 != 0

    def __call__(self, x, by=1):
        return x + by

    def __enter__(self):
        self.items.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.items.append(kind.__name__ if kind else "exit")
        return kind is not None and issubclass(kind, Odd) and self.a % 2 == 0

    def __getattr__(self, name):
        if name.startswith("late_"):
            return len(name)
        raise AttributeError(name)

    def __repr__(self):
        return f"Box({self.a})"


class SubBox(Box):
    rank = 5

    def method(self, x, *, by=3):
        return super().method(x, by=by) + 1

    def __len__(self):
        return super().__len__() + 1


@dataclasses.dataclass(order=True)
class Point:
    a: int = 1
    b: float = 0.5
    names: list = dataclasses.field(default_factory=list, compare=False)


Pair = collections.namedtuple("Pair", "left right")


def defaulted(x, n=2, *rest, flag=False, seen=[], **named):
    seen.append(n)
    return x * n + len(rest) + len(named) + (1 if flag else 0)


def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


@counted
def clipped(x):
    return x.clamp(-4, 4)


known = {}


def cached(n):
    if n not in known:
        known[n] = n * n % 7
    return known[n]


def counting(n):
    got = 0
    while n > 0:
        got = (yield n + got) or 0
        n -= 1
    return got


def delegating(n):
    yield -1
    result = yield from counting(n)
    yield result


@contextlib.contextmanager
def logged(log, name):
    log.append(name)
    try:
        yield len(log)
    except Odd as error:
        log.append(repr(error))
    finally:
        log.append("/" + name)


def risky(n):
    if n % 3 == 0:
        raise Odd(n)
    if n % 5 == 0:
        raise ValueError("five", n)
    return n
'''

ARGUMENTS = (
    'lambda: (t(3), t(2, 3), 2, [1, 2, 5], {"a": 1, "b": 4}, Box(1, [3]), [t(3, seed=1), t(3, seed=2)])',
    "lambda: (t(3, seed=3), t(2, 3, seed=4), 5, [0], {}, SubBox(4), [t(3, seed=1)])",
)

PARAMETERS = "x, y, n, xs, d, o, ts"
