"""Functions called: parameters of every kind, recursion, lambdas, decorators, functools."""

import functools
import operator

import torch

from tests.capture.case import Given, case, maker, t


@case(lambda: (t(3),), lambda: Given(t(3), 4), lambda: Given(t(3), b=5), lambda: Given(x=t(3), b=1, a=7))
def defaults(x, a=2, b=3):
    return x * a + b


@case(lambda: Given(t(3), scale=2), lambda: Given(t(3), scale=3, shift=1))
def keyword_only(x, *, scale, shift=0):
    return x * scale + shift


@case(lambda: (t(3), 2), lambda: Given(t(3), 3, c=9))
def positional_only(x, a, /, b=1, *, c=2):
    return x * a + b - c


@case(lambda: (t(3), 1, 2), lambda: (t(3),), lambda: Given(t(3), 1, k=2, m=t(3)))
def var_arguments(x, *args, **kwargs):
    for a in args:
        x = x + a
    for k in sorted(kwargs):
        x = x * kwargs[k]
    return x, args, kwargs


def _mix(a, /, b, *rest, c=3, **more):
    return a + b * c + sum(rest) + sum(more.values())


@case(lambda: (t(3), [1, 2], {"d": 4}), lambda: (t(3), [], {"c": 5}))
def star_calls(x, items, table):
    return _mix(x, 2, *items, **table), _mix(*[x, 1], *items, c=1), _mix(x, **{"b": 2})


def _factorial(n):
    return 1 if n <= 1 else n * _factorial(n - 1)


@case(lambda: (t(3), 4), lambda: (t(3), 6))
def recursion(x, n):
    return x * _factorial(n)


@case(lambda: (t(3), 3), lambda: (t(3), 5), rebind=True)
def own_recursion(x, n):
    if n == 0:
        return x
    return own_recursion(x + n, n - 1) * 2


def _even(x, n):
    return x if n == 0 else _odd(x + 1, n - 1)


def _odd(x, n):
    return x * 2 if n == 0 else _even(x - 3, n - 1)


@case(lambda: (t(3), 4), lambda: (t(3), 5))
def mutual_recursion(x, n):
    return _even(x, n)


@case(lambda: (t(3), 2))
def lambdas(x, n):
    double = lambda y: y * 2
    return (lambda y, k=n: double(y) + k)(x), (lambda *a: a)(1, x)


def _append(value, into=[]):
    into.append(value)
    return into


@case(lambda: (t(2),))
def mutable_default(x):
    return _append(x + 1), len(_append(2))


@case(lambda: (t(3),), lambda: (t(3), [7]))
def own_mutable_default(x, seen=[1]):
    seen.append(len(seen))
    return x + seen[-1], seen


def scaled(factor):
    def decorate(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs) * factor

        inner.factor = factor
        return inner

    return decorate


@case(lambda: (t(3),))
def wraps_what_it_returns(x):
    y = x + 1

    def halved(z):
        """Half of it."""
        return z / 2

    @functools.wraps(halved)
    def wrapper():
        return halved(y)

    def named():
        return y

    named.__name__, named.__qualname__, named.__doc__, named.__module__ = "other", "Some.other", "Text.", "somewhere"
    return wrapper, wrapper.__name__, named, wrapper()


@case(lambda: (t(3),), lambda: (t(4),))
@scaled(3)
@scaled(2)
def decorated(x):
    """Doubled, then tripled."""
    return x + 1


@scaled(5)
def _inner_decorated(x):
    return x - 1


@case(lambda: (t(3),))
def calls_decorated(x):
    return _inner_decorated(x), _inner_decorated.__name__, _inner_decorated.factor, _inner_decorated.__wrapped__(x)


@case(lambda: (t(3), 2))
def partials(x, n):
    add = functools.partial(operator.add, x)
    named = functools.partial(_mix, c=n)
    again = functools.partial(named, x, b=1)
    return add(n), named(x, 3), again(), again.keywords, add.args[0] is x


@maker(lambda: (t(3),), lambda: Given(t(3), k=5))
def partial_compiled():
    def f(a, x, k=1):
        return x * a + k

    return functools.partial(f, 3, k=2)


@functools.lru_cache(maxsize=4)
def _cached(n):
    print("computing", n)
    return n * n


@case(lambda: (t(3), 3), lambda: (t(3), 4))
def lru_cache(x, n):
    return x + _cached(n) + _cached(n)


class Tables:
    def __init__(self):
        self.made = []

    @functools.lru_cache(maxsize=2, typed=True)  # noqa: B019
    def of(self, n, /, kind="sum", *, scale=1):
        self.made.append((n, kind, scale))
        return [n, kind, torch.full((3,), float(n)) * scale]

    @functools.lru_cache(maxsize=None)  # noqa: B019
    def shared(self):
        return {"calls": 0}


@case(lambda: (t(3), Tables()))
def results_that_are_kept_for_an_object(x, tables):
    for _ in range(2):
        a, b = tables.of(1), tables.of(1, scale=2)
        x = x + a[2] * b[2] + tables.of(True)[2]
        a[0] += 1
        state = tables.shared()
        state["calls"] += 1
    return x, a, b, tables.shared() is state, state, tables.made, type(tables).of.cache_info()


@case(lambda: (t(3), "ab"), lambda: (t(3), "abc"))
def results_that_are_dropped(x, names):
    sizes = [_size_of(name) + _size_of(name * 2, more=(1, 2)) for name in names]
    _size_of.cache_clear()
    return x * sum(sizes) + _size_of("a"), _size_of.cache_info()


@functools.lru_cache(maxsize=1)
def _size_of(name, more=()):
    if name == "c":
        raise KeyError(name)
    return len(name) + sum(more)


@case(lambda: (t(3), 2), lambda: (t(3), 5))
def results_that_are_not_kept(x, n):
    try:
        x = x * _size_of("c")
    except KeyError as error:
        return x, n, error.args, _size_of.cache_info().misses
    return x


@functools.cache
def _made_once(n):
    return torch.arange(n).float()


@case(lambda: (t(3), 3))
def cached_tensor(x, n):
    table = _made_once(n)
    return x + table, table


@case(lambda: ([t(2), t(2, seed=1), t(2, seed=2)],), lambda: ([t(2)],))
def reduce(parts):
    return functools.reduce(lambda a, b: a * 2 + b, parts), functools.reduce(operator.mul, [1, 2, 3], 4)


@functools.singledispatch
def _describe(value):
    return "object"


@_describe.register
def _(value: int):
    return value + 1


@_describe.register(torch.Tensor)
def _(value):
    return value * 2


@case(lambda: (t(3), 3), lambda: (t(3), "s"))
def singledispatch(x, n):
    return _describe(x), _describe(n), _describe(None)


@case(lambda: (t(3), torch.relu), lambda: (t(3), torch.sin), lambda: (t(3), lambda y: y + 1))
def function_argument(x, f):
    return f(x) * 2


@case(lambda: (t(3), [torch.relu, torch.abs]), lambda: (t(3), [torch.neg]))
def functions_in_list(x, steps):
    for step in steps:
        x = step(x)
    return x


def _compose(*functions):
    def run(x):
        for f in functions:
            x = f(x)
        return x

    return run


@case(lambda: (t(3),))
def composed(x):
    return _compose(torch.relu, lambda y: y + 1, _compose(torch.neg))(x)


@case(lambda: (t(3),))
def function_attributes(x):
    def f(y):
        f.calls += 1
        return y + f.calls

    f.calls = 0
    return f(f(x)), f.calls, f.__name__, f.__qualname__, f.__defaults__


def _counted(x):
    _counted.calls = getattr(_counted, "calls", 0) + 1
    return x + _counted.calls


@case(lambda: (t(3),))
def global_function_attribute(x):
    return _counted(x)


@case(lambda: (t(3), 1), lambda: (t(3), 2))
def wrong_arguments_inside(x, n):
    try:
        if n == 1:
            _mix(x)
        else:
            _mix(x, 1, b=2)
    except TypeError as error:
        return x + 1, str(error)


@case(lambda: (t(3),), lambda: Given(t(3), 1, 2, 3), lambda: Given(t(3), zz=1), lambda: Given(x=t(3), a=1))
def wrong_arguments_outside(x, a=1):
    return x + a


def returns_nothing(x):
    x + 1


@case(lambda: (t(3),))
def no_return(x):
    return returns_nothing(x), x * 2


@case(lambda: (t(3),))
def returns_none(x):
    x * 2


@case(lambda: (t(3),))
def returns_argument(x):
    return x


@case(lambda: (3,), lambda: ("s",), lambda: (None,), lambda: ([1],))
def no_tensor_at_all(value):
    return value, [value, value]


@case(lambda: (t(3), 2))
def annotated(x: "torch.Tensor", n: int = 3) -> "torch.Tensor":
    y: torch.Tensor = x * n
    z: int
    return y


@case(lambda: (t(3), {"alpha": 2}), lambda: (t(3), {"alpha": 3, "out": None}))
def keywords_to_operator(x, options):
    return torch.add(x, x, **options), torch.sum(x, dim=0, keepdim=True), torch.clamp(x, min=-1, max=1)


@case(lambda: (t(3), "relu"), lambda: (t(3), "sigmoid"))
def function_by_name(x, name):
    return getattr(torch, name)(x), getattr(x, name)(), callable(getattr(torch, name, None))


def _deep(x, n):
    return x + n if n == 0 else _deep(x, n - 1)


@case(lambda: (t(3), 100))
def deep_calls(x, n):
    return _deep(x, n)


@case(lambda: (t(3), 2), lambda: (t(3), 3))
def returns_function(x, n):
    def add(y):
        return x + y * n

    return add, add(1)


@case(lambda: (t(3),))
def nested_three_deep(x):
    def outer(y):
        def middle(z):
            def inner(w):
                return w + y + z + x

            return inner(z * 2)

        return middle(y + 1)

    return outer(x)


method_caller = operator.methodcaller("clamp", min=0)


@case(lambda: (t(3), {"k": [1, 2]}))
def operator_callers(x, d):
    return (
        method_caller(x),
        operator.itemgetter("k")(d),
        operator.attrgetter("shape")(x),
        operator.itemgetter(0, 1)([5, 6]),
    )
