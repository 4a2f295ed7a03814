"""Cells, nonlocal and global names."""

from tests.capture.case import case, maker, t

TOTAL = 0
LATEST = None
TABLE = {"scale": 2}
HISTORY = []


@maker(lambda: (t(3),), lambda: (t(4),))
def nonlocal_counter():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x + n

    return f


@maker(lambda: (t(3),))
def nonlocal_tensor():
    last = None

    def f(x):
        nonlocal last
        y = x if last is None else x + last
        last = y * 2
        return y

    return f


@maker(lambda: (t(3),))
def shared_cell():
    count = 0

    def up():
        nonlocal count
        count += 1
        return count

    def read():
        return count

    def f(x):
        up()
        y = x + read()
        up()
        return y * read(), up, read

    return f


@maker(lambda: (t(3),))
def cell_of_list():
    seen = []

    def f(x):
        seen.append(x.shape[0])
        return x * len(seen)

    return f


@case(lambda: (t(3),))
def global_counter(x):
    global TOTAL
    TOTAL += 1
    return x + TOTAL


@case(lambda: (t(3),))
def global_tensor(x):
    global LATEST
    before = LATEST
    LATEST = x * 2
    return before, LATEST + 1


@case(lambda: (t(3),))
def global_created_and_deleted(x):
    global CREATED
    CREATED = x + 1
    y = CREATED * 2
    if len(HISTORY) > 1:
        del CREATED
    HISTORY.append(1)
    return y


@case(lambda: (t(3),))
def globals_dict(x):
    globals()["TOTAL"] = globals()["TOTAL"] + 5
    return x + TOTAL, "TOTAL" in globals()


@case(lambda: (t(3),))
def reads_global_table(x):
    TABLE["scale"] += 1
    return x * TABLE["scale"], TABLE


def _rescale(x, factor):
    TABLE["scale"] = factor
    return x * TABLE["scale"]


@case(lambda: (t(3),), drive=lambda f, x: (f(x), TABLE.update(scale=9), f(x)))
def global_changed_between_calls(x):
    return x * TABLE["scale"]


@case(lambda: (t(3),), drive=lambda f, x: [(_set_total(v), f(x)) for v in (1, 1, 2, 2.5, None, 1)])
def global_type_changes(x):
    return x if TOTAL is None else x + TOTAL


def _set_total(value):
    global TOTAL
    TOTAL = value


@maker(lambda: (t(3),), drive=lambda f, x: (f(x), f.set(3), f(x), f.set("s"), f(x)))
def cell_changed_between_calls():
    value = 1

    def f(x):
        return x * value if isinstance(value, int) else x

    def assign(new):
        nonlocal value
        value = new

    f.set = assign
    return f


@maker(lambda: (t(3),))
def unbound_cell():
    def f(x):
        return x + later

    if f is None:
        later = 1
    return f


@case(lambda: (t(3),))
def cell_bound_late(x):
    def inner():
        return y + 1

    y = x * 2
    first = inner()
    y = x * 3
    return first, inner()


@case(lambda: (t(3),))
def cell_deleted(x):
    y = x * 2

    def inner():
        return y

    del y
    try:
        inner()
    except NameError as error:
        return x + 1, str(error), type(error).__name__


@case(lambda: (t(3),))
def argument_is_cell(x):
    def change():
        nonlocal x
        x = x + 1
        return x

    change()
    y = change()
    return x, y is x


@case(lambda: (t(3),))
def name_error(x):
    return x + undefined_name


@case(lambda: (t(3), True), lambda: (t(3), False))
def unbound_local(x, flag):
    if flag:
        y = x + 1
    return y


@case(lambda: (t(3),))
def builtin_shadowed(x):
    len = lambda _: 42
    return x + len(x), sum([1, 2])


@case(lambda: (t(3),), drive=lambda f, x: (f(x), globals().update(abs=lambda v: v * 10), f(x), globals().pop("abs")))
def builtin_shadowed_by_global(x):
    return abs(x)


@maker(lambda: (t(3),))
def accumulator_list():
    total = [0]

    def f(x):
        total[0] += 1
        total.append(x + total[0])
        return total[-1] * 2

    return f


@maker(lambda: (t(3), 2), lambda: (t(3), 3))
def closure_over_functions():
    def double(x):
        return x * 2

    def apply(f, x, n):
        return f(x) if n == 1 else f(apply(f, x, n - 1))

    def f(x, n):
        return apply(double, x, n)

    return f


@maker(lambda: (t(3),))
def returns_stateful_closure():
    def f(x):
        n = 0

        def step(y):
            nonlocal n, x
            n += 1
            x = x + y
            return x * n

        step(1)
        return step

    return f


@maker(lambda: (t(3),), drive=lambda f, x: [g(2) for g in (f(x), f(x))])
def closure_used_after():
    def f(x):
        y = x * 2

        def g(n):
            return y + n

        return g

    return f


@case(lambda: (t(3), 2), lambda: (t(3), 3))
def class_body_scopes(x, n):
    class Scope:
        a = n
        b = a + 1

        def get(self):
            return x * n

    return Scope().get() + Scope.b


@case(lambda: (t(3), 2), lambda: (t(3), 3))
def class_body_statements(x, n):
    space = {}
    exec("from math import *\nroot = sqrt(16)", space)

    class Body:
        kept = n + 1
        gone = 2
        del gone
        for kept_too in range(3):
            pass
        print("in class body", kept)
        try:
            gone
        except NameError as error:
            message = str(error)

    return x * Body.kept + space["root"], Body.message, Body.kept_too, hasattr(Body, "gone")
