"""Python 3.13: defaults of type parameters, copies of locals(), copy.replace, and what the interpreter changed."""

import copy
import dataclasses
import sys
import typing
import warnings

from tests.capture.case import case, t


@dataclasses.dataclass
class Point:
    a: int
    b: object = None


class Box[T = int]:
    def __init__(self, value):
        self.value = value


@case(lambda: (t(3),))
def type_parameter_default(x):
    def f[T = int](y: T) -> T:
        return y + 1

    return f(x), Box(x).value, Box.__type_params__[0].__default__


@case(lambda: (t(3), 2))
def locals_is_a_copy(x, n):
    seen = locals()
    n = 5
    y = x * n
    return y, seen["n"], sorted(seen), sorted(locals())


@case(lambda: (t(3), 2))
def writes_through_frame_locals(x, n):
    sys._getframe().f_locals["n"] = 10
    return x * n


def _writes_callers(name, value):
    sys._getframe(1).f_locals[name] = value


@case(lambda: (t(3), 2))
def callee_writes_locals(x, n):
    y = x + n
    _writes_callers("n", 7)
    z = y * n
    _writes_callers("z", z + 1)
    return z, n


@case(lambda: (t(3), Point(1)))
def copy_replace(x, p):
    return copy.replace(p, b=x + 1), p


@warnings.deprecated("use something else")
def _old(x):
    return x + 1


@case(lambda: (t(3),))
def deprecated(x):
    return _old(x) * 2


@case(lambda: (t(3), 2))
def exec_in_copy_of_locals(x, n):
    exec("n = 100")
    exec("m = n + 1", globals(), space := {"n": 1})
    return x * n, space["m"]


@case(lambda: (t(3),))
def docstrings_are_dedented(x):
    def documented():
        """First.

        Indented.
        """

    return x, documented.__doc__


@case(lambda: (t(3),))
def type_is(x):
    def check(v) -> typing.TypeIs[int]:
        return isinstance(v, int)

    return x + check(3), check("s")


class Static:
    def __init__(self):
        self.x = 1
        self.y = 2


@case(lambda: (t(3),))
def static_attributes(x):
    return x + len(Static.__static_attributes__), sorted(Static.__static_attributes__), Static.__firstlineno__ > 0
