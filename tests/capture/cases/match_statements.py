"""match: every kind of pattern."""

import dataclasses
import enum

import torch

from tests.capture.case import case, t


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Custom:
    __match_args__ = ("first", "second")

    def __init__(self, first, second):
        self.first, self.second = first, second


@case(lambda: (t(3), 1), lambda: (t(3), "two"), lambda: (t(3), None), lambda: (t(3), -1.5), lambda: (t(3), True))
def literals(x, value):
    match value:
        case True:
            return x, "true"
        case 1 | 2:
            return x + 1
        case "two":
            return x + 2
        case None:
            return x + 3
        case -1.5:
            return x + 4
        case _:
            return x


@case(
    lambda: (t(3), [1, 2]),
    lambda: (t(3), (1, 5, 6, 7)),
    lambda: (t(3), []),
    lambda: (t(3), [[9], 3]),
    lambda: (t(3), "ab"),
    lambda: (t(3), range(3)),
)
def sequences(x, value):
    match value:
        case []:
            return x
        case [[inner], last]:
            return x * inner + last
        case [1, b]:
            return x + b
        case (first, *middle, last):
            return x + first + last, middle
        case _:
            return x - 1


@case(
    lambda: (t(3), {"kind": "scale", "by": 3}),
    lambda: (t(3), {"kind": "shift", "by": 3, "extra": 1}),
    lambda: (t(3), {"kind": "none"}),
    lambda: (t(3), {}),
    lambda: (t(3), 5),
)
def mappings(x, value):
    match value:
        case {"kind": "scale", "by": n}:
            return x * n
        case {"kind": "shift", "by": n, **rest}:
            return x + n, rest
        case {"kind": str(name)}:
            return x, name
        case {}:
            return x - 1
    return "no match"


@case(
    lambda: (t(3), Point(0, 2)),
    lambda: (t(3), Point(3, 4)),
    lambda: (t(3), Custom(5, t(3))),
    lambda: (t(3), Custom(5, "s")),
    lambda: (t(3), 2.5),
    lambda: (t(3), "word"),
    lambda: (t(3), t(3, seed=2)),
)
def classes(x, value):
    match value:
        case Point(x=0, y=n):
            return x + n
        case Point(a, b) if a < b:
            return x * a + b
        case Custom(n, torch.Tensor() as other):
            return x * n + other
        case Custom(second=str()):
            return x, "text"
        case int(n) | float(n):
            return x + n
        case str():
            return x, value
        case torch.Tensor(shape=s):
            return x + value, s


@case(lambda: (t(3), Color.RED), lambda: (t(3), Color.BLUE), lambda: (t(3), 1))
def values(x, value):
    match value:
        case Color.RED:
            return x + 1
        case Color.BLUE:
            return x + 2
    return x


@case(lambda: (t(3), 4), lambda: (t(3), 50), lambda: (t(3), -1))
def guards(x, n):
    match n:
        case k if k > 10:
            return x - k
        case k if k > 0:
            return x + k
        case k:
            return x * k


@case(lambda: (t(2, 3),), lambda: (t(4),), lambda: (t(1, 2, 2),))
def on_shape(x):
    match x.shape:
        case (n,):
            return x + n
        case (n, m):
            return x * n - m
        case (1, *rest):
            return x + len(rest)


@case(lambda: (t(3), ["move", {"to": Point(1, 2), "by": [3, 4]}]), lambda: (t(3), ["stop"]))
def nested(x, command):
    match command:
        case ["move", {"to": Point(x=a) as p, "by": [b, *_]}]:
            return x * a + b, p.y
        case [("stop" | "halt") as word]:
            return x, word


@case(lambda: (t(3), Point(1, 2)))
def too_many_positions(x, p):
    match p:
        case Point(1, 2, 3):
            return x
    return x + 1


@case(lambda: (t(3),))
def captures_stay_bound(x):
    match (1, 2):
        case (a, 3):
            pass
        case (b, 2):
            pass
    return x + a + b


@case(lambda: (t(3, seed=3),), lambda: (t(3, seed=4),))
def on_tensor_value(x):
    match x.sum() > 0:
        case flag if flag:
            return x + 1
        case _:
            return x - 1


@case(lambda: (t(3), [1, "a", None, [2]]), lambda: (t(3), []))
def in_loop(x, items):
    for item in items:
        match item:
            case int():
                x = x + item
            case str():
                continue
            case None:
                x = x * 2
            case [inner]:
                x = x - inner
                break
    return x
