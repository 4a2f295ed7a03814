"""Functions that tests/capture/test_harness.py compiles wrongly."""

import typing
import warnings

import torch

from tests.capture.case import case, maker, t

TOTAL = 0


class State(typing.NamedTuple):
    h: torch.Tensor
    n: int


class Holder:
    def __init__(self):
        self.count = 0


@case(lambda: (t(3), 2), lambda: (t(4), 3))
def pure(x, n):
    return x * n + 1


@case(lambda: (t(3), []))
def appends(x, out):
    out.append(x + 1)
    return x * 2


@case(lambda: (t(3), {"b": 1, "a": 2}))
def returns_argument(x, d):
    return x + 1, d


@case(lambda: (t(3), 0))
def raises(x, n):
    y = x + 1
    return y / (1 // n)


@case(lambda: (t(3),))
def prints(x):
    print("size", x.shape[0])
    return x + 1


@case(lambda: (t(3),))
def warns(x):
    warnings.warn("careful", stacklevel=1)
    return x + 1


@case(lambda: (t(3),))
def adds_in_place(x):
    x.add_(1)
    return x * 2


@case(lambda: (t(2, 3),))
def returns_view(x):
    return x.t(), x[0]


@case(lambda: (t(2, 3, grad=True),))
def differentiable(x):
    return x * 2


@case(lambda: (t(2),))
def named(x):
    return State(x + 1, 2), [x]


@maker(lambda: (t(3),))
def counts():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x + n

    return f


@case(lambda: (t(3),))
def counts_globally(x):
    global TOTAL
    TOTAL += 1
    return x + TOTAL


@case(lambda: (t(3), Holder()))
def counts_in_attribute(x, h):
    h.count += 1
    return x + h.count


@case(lambda: (t(3),))
def shares(x):
    y = [x + 1]
    return {"a": y, "b": y}


@case(lambda: (t(3), 3))
def generates(x, n):
    return (x + i for i in range(n))
