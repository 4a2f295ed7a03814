"""with: classes, contextlib, exceptions through and swallowed, ExitStack."""

import contextlib
import functools
import io

import torch

from tests.capture.case import case, maker, t


class Managed:
    def __init__(self, log, swallow=False, name="m"):
        self.log, self.swallow, self.name = log, swallow, name

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, value, tb):
        self.log.append(f"exit {self.name} {kind.__name__ if kind else None} {value} {tb is not None}")
        return self.swallow


@contextlib.contextmanager
def logged(log, name="g"):
    log.append(f"enter {name}")
    try:
        yield name
    except ValueError as error:
        log.append(f"swallowed {error}")
    finally:
        log.append(f"exit {name}")


@case(lambda: (t(3),))
def class_manager(x):
    log = []
    with Managed(log) as m:
        x = x + 1
        m.log.append("body")
    return x * 2, log


@case(lambda: (t(3), []))
def manager_on_argument(x, log):
    with Managed(log):
        y = x + len(log)
    return y


@case(lambda: (t(3),))
def nested_and_several(x):
    log = []
    with Managed(log, name="a"), Managed(log, name="b") as b:
        with logged(log, "c") as c:
            x = x + len(b.name + c)
    return x, log


@case(lambda: (t(3), True), lambda: (t(3), False))
def exception_through(x, swallow):
    log = []
    try:
        with Managed(log, swallow):
            x = x + 1
            raise ValueError("inside")
        log.append("after")
    except ValueError as error:
        log.append(f"caught {error}")
    return x, log


@case(lambda: (t(3), []))
def uncaught_through(x, log):
    y = x + 1
    with Managed(log):
        y.unknown_attribute
    return y


@case(lambda: (t(3),))
def generator_manager_swallows(x):
    log = []
    with logged(log):
        raise ValueError("v")
    with logged(log, "second") as name:
        x = x + len(name)
    return x, log


@case(lambda: (t(3), []))
def generator_manager_passes_on(x, log):
    with logged(log):
        raise KeyError("k")


@case(lambda: (t(3), 1), lambda: (t(3), 2))
def return_from_inside(x, n):
    log = []
    with Managed(log):
        if n == 1:
            return x + 1, log
        x = x * 2
    return x, log


@case(lambda: (t(3), 4), lambda: (t(3), 2))
def break_and_continue(x, n):
    log = []
    for i in range(n):
        with Managed(log, name=str(i)):
            if i == 0:
                continue
            if i == 2:
                break
            x = x + i
    return x, log


@case(lambda: (t(3),))
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(Managed(log, name="a"))
        stack.callback(log.append, "callback")
        stack.enter_context(logged(log, "b"))
        stack.push(lambda *exc: log.append("push") or True)
        x = x + len(a.name)
        raise OSError("swallowed by push")
    return x, log


@case(lambda: (t(3),))
def contextlib_helpers(x):
    with contextlib.suppress(KeyError, ValueError):
        x = x + 1
        {}["missing"]
    with contextlib.nullcontext(5) as n:
        x = x * n
    with contextlib.redirect_stdout(io.StringIO()) as out:
        print("captured")
    with contextlib.closing(io.StringIO("text")) as f:
        text = f.read()
    return x, out.getvalue(), text, f.closed


@logged([], "decorated")
def _decorated(x):
    return x * 3


@case(lambda: (t(3),))
def manager_as_decorator(x):
    return _decorated(x), _decorated(x + 1)


class Decorating(contextlib.ContextDecorator):
    entered = 0

    def __enter__(self):
        Decorating.entered += 1

    def __exit__(self, *exc):
        return False


@case(lambda: (t(3),))
@Decorating()
def compiled_with_context_decorator(x):
    return x + Decorating.entered


class RaisesOnEnter:
    def __enter__(self):
        raise RuntimeError("enter")

    def __exit__(self, *exc):
        print("never")


class RaisesOnExit:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        raise RuntimeError("exit")


@case(lambda: (t(3), RaisesOnEnter()), lambda: (t(3), RaisesOnExit()))
def errors_of_the_manager(x, manager):
    with manager:
        x = x + 1
        {}[1]
    return x


class NoManager:
    pass


@case(lambda: (t(3), NoManager()), lambda: (t(3), None))
def not_a_manager(x, thing):
    with thing:
        return x


class SwallowsAndChanges:
    def __init__(self, holder):
        self.holder = holder

    def __enter__(self):
        self.holder["depth"] = self.holder.get("depth", 0) + 1

    def __exit__(self, kind, value, tb):
        self.holder["depth"] -= 1
        self.holder["last"] = value
        return isinstance(value, ZeroDivisionError)


@case(lambda: (t(3), {}), lambda: (t(3), {"depth": 4}))
def state_in_manager(x, holder):
    with SwallowsAndChanges(holder):
        with SwallowsAndChanges(holder):
            x = x * holder["depth"]
            1 // 0
        x = x + holder["depth"]
    return x, str(holder["last"])


@case(lambda: (t(3),))
def break_inside_with(x):
    log = []
    with Managed(log):
        y = x + 1
        print("inside")
        z = y * 2
    return z, log


@case(lambda: (t(3),))
def branch_on_tensor_inside_with(x):
    log = []
    with Managed(log) as m, logged(log) as g:
        if x.sum() > -100:
            x = x + len(m.name + g)
        else:
            x = x - 1
        x = x * 2
    return x, log


@case(lambda: (t(3),))
def item_inside_with_then_error(x):
    log = []
    try:
        with Managed(log):
            n = x.sum().item()
            y = x * n
            raise ValueError("after item")
    except ValueError:
        return y + 1, log


@maker(lambda: (t(3),))
def manager_in_closure():
    log = []
    manager = Managed(log)

    def f(x):
        with manager:
            return x + len(log)

    return f


@case(lambda: (t(3),))
def error_replaced_in_exit(x):
    class Replaces:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, tb):
            raise KeyError("replaced") from value

    try:
        with Replaces():
            raise ValueError("first")
    except KeyError as error:
        return x + 1, type(error.__cause__).__name__, type(error.__context__).__name__


@case(lambda: (t(3),))
def target_unpacked(x):
    @contextlib.contextmanager
    def pair():
        yield x + 1, {"k": x}

    table = {}
    with pair() as (a, table["d"]):
        return a, table


@case(lambda: (t(3, grad=True),))
def no_grad_and_own_manager(x):
    log = []
    with torch.no_grad(), Managed(log):
        y = x * 2
    return y, y.requires_grad, (x * 2).requires_grad, log


async def _unused():
    pass


class Stacked:
    """A stack of settings, as libraries keep."""

    stack = [1]

    @classmethod
    @contextlib.contextmanager
    def scaled(cls, k):
        cls.stack.append(cls.stack[-1] * k)
        try:
            yield cls.stack[-1]
        finally:
            cls.stack.pop()


@case(lambda: (t(3), 2), lambda: (t(3), 3))
def settings_stack(x, k):
    with Stacked.scaled(k) as a:
        with Stacked.scaled(k):
            x = x * Stacked.stack[-1]
        x = x + a
    return x, Stacked.stack


@case(lambda: (t(3), [1, 2, 3]))
def exit_on_return_in_loop(x, numbers):
    log = []

    def find():
        for n in numbers:
            with Managed(log, name=str(n)):
                if n == 2:
                    return n
        return None

    return x * find(), log


@contextlib.contextmanager
def _entered(log):
    log.append("in")
    try:
        yield len(log)
    finally:
        log.append("out")


def _prints(x):
    y = x + 1
    print("between")
    return y * 2


def _wrapped(method, policy):
    @functools.wraps(method)
    def wrapper(*args):
        log = []
        with policy(log) as n:
            result = method(*args)
        return result, n, log

    return wrapper


_closure = _wrapped(_prints, lambda log: _entered(log))


@case(lambda: (t(3),), lambda: (t(4),))
def a_break_in_what_a_closure_wraps(x):
    return _closure(x)
