"""Functions that inspect themselves and their frame."""

import gc
import inspect
import sys
import traceback

import torch

from tests.capture.case import case, maker, t


@case(lambda: (t(3), 2))
def own_frame(x, n):
    frame = sys._getframe()
    y = x + n
    return y, frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals), frame.f_locals["n"]


def _caller_name(x):
    frame = sys._getframe(1)
    return x + 1, frame.f_code.co_name, frame.f_lineno


@case(lambda: (t(3),))
def caller_frame(x):
    y = x * 2
    return _caller_name(y)


def _caller_locals():
    return dict(sys._getframe(1).f_locals)


@case(lambda: (t(3), 5))
def locals_read_by_callee(x, n):
    y = x * n
    seen = _caller_locals()
    return seen["y"] + 1, sorted(seen), seen["n"]


@case(lambda: (t(3), 5))
def locals_builtin(x, n):
    y = x + n
    seen = dict(locals())
    z = y * 2
    return z, sorted(seen), seen["y"] is y


@case(lambda: (t(3), 2))
def locals_for_formatting(x, n):
    k = n + 1
    return x * k, "%(n)d-%(k)d" % locals(), "{n}/{k}".format(**locals())


@case(lambda: (t(3),))
def stack_of_names(x):
    def inner():
        return [f.f_code.co_name for f in _frames(sys._getframe())][:3]

    return x + 1, inner()


def _frames(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


@case(lambda: (t(3),))
def inspect_stack(x):
    y = x + 1
    return y, [f.function for f in inspect.stack()[:1]], inspect.currentframe().f_lineno


@case(lambda: (t(3),))
def extract_stack(x):
    y = x * 2
    last = traceback.extract_stack()[-1]
    return y, last.name, last.lineno, last.line


@case(lambda: (t(3),))
def signature(x):
    parameters = inspect.signature(_with_signature).parameters
    return x * len(parameters), list(parameters), str(inspect.signature(_with_signature))


def _with_signature(a, /, b: int = 2, *rest, c="q", **more) -> None: ...


@case(lambda: (t(3),))
def code_attributes(x):
    code = _with_signature.__code__
    return x * code.co_argcount, code.co_varnames, code.co_kwonlyargcount, code.co_name, code.co_flags & 4


@case(lambda: (t(3),))
def own_code(x):
    return x + own_code.__code__.co_argcount, own_code.__name__, own_code.__module__, __name__


@case(lambda: (t(3),))
def inspect_predicates(x):
    return (
        x + 1,
        inspect.isfunction(_caller_name),
        inspect.isclass(torch.Tensor),
        inspect.isgeneratorfunction(_frames),
        inspect.ismethod(x.add),
        inspect.getdoc(signature),
        inspect.unwrap(_caller_name) is _caller_name,
    )


@case(lambda: (t(3),))
def source_text(x):
    return x + 1, inspect.getsource(_caller_name).splitlines()[0], inspect.getsourcelines(_caller_name)[1]


@case(lambda: (t(3),))
def eval_and_exec(x):
    space = {"x": x, "n": 3}
    exec("y = x * n\ndef g(z):\n    return z + n", space)
    return space["y"], space["g"](x), eval("x + 2"), eval("n * 2", {"n": 4}), eval(compile("1 + 2", "<s>", "eval"))


@case(lambda: (t(3),))
def frame_outlives_call(x):
    y = x * 2
    return sys._getframe(), y


@case(lambda: (t(3),), drive=lambda f, x: _walks_locals(f(x)))
def frame_locals_after_call(x):
    y = x * 2
    n = 3
    return sys._getframe()


def _walks_locals(frame):
    return sorted(frame.f_locals), frame.f_locals["n"], frame.f_locals["y"]


@case(lambda: (t(3),))
def import_inside(x):
    import collections as c
    from math import sqrt as root

    import torch.nn.functional as F

    return F.relu(x) + root(16), c.OrderedDict.__name__


@case(lambda: (t(3),))
def failing_import(x):
    try:
        import no_such_module_anywhere
    except ImportError as error:
        return x + 1, str(error), error.name
    try:
        from math import nothing_there
    except ImportError:
        return None


@case(lambda: (t(3),), drive=lambda f, x: _traced(f, x))
def under_settrace(x):
    y = x + 1
    z = y * 2
    return z


def _traced(f, x):
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "under_settrace":
            lines.append((event, frame.f_lineno))
            return tracer
        return None

    first = f(x)
    sys.settrace(tracer)
    try:
        second = f(x)
    finally:
        sys.settrace(None)
    return first, second, lines, f(x)


@case(lambda: (t(3),), drive=lambda f, x: _profiled(f, x))
def under_setprofile(x):
    y = _caller_name(x)[0]
    return y * 2


def _profiled(f, x):
    events = []

    def profiler(frame, event, arg):
        if frame.f_code.co_name in ("under_setprofile", "_caller_name") and event in ("call", "return"):
            events.append((event, frame.f_code.co_name))

    sys.setprofile(profiler)
    try:
        y = f(x)
    finally:
        sys.setprofile(None)
    return y, events


@case(lambda: (t(3),), drive=lambda f, x: _line_changes(f, x))
def default_argument_replaced(x, k=2):
    return x * k


def _line_changes(f, x):
    first = f(x)
    default_argument_replaced.__defaults__ = (5,)
    second = f(x)
    default_argument_replaced.__defaults__ = (2,)
    return first, second, f(x)


def _old(x):
    return x + 1


def _new(x):
    return x * 100


@case(lambda: (t(3),), drive=lambda f, x: _replaces_code(f, x))
def callee_code_replaced(x):
    return _old(x) * 2


def _replaces_code(f, x):
    first = f(x)
    before = _old.__code__
    _old.__code__ = _new.__code__
    try:
        return first, f(x)
    finally:
        _old.__code__ = before


@case(lambda: (t(3),))
def garbage_collection_inside(x):
    cycle = []
    cycle.append(cycle)
    del cycle
    gc.collect()
    return x + 1, gc.isenabled()


@case(lambda: (t(3), []))
def reference_counts(x, log):
    value = object()
    before = sys.getrefcount(value)
    log.append(value)
    return x + (sys.getrefcount(value) - before)


@maker(lambda: (t(3),))
def closure_inspected():
    k = 3

    def f(x):
        return x * k, f.__closure__ is not None, f.__code__.co_freevars

    return f


@case(lambda: (t(3), 0), lambda: (t(3), 1))
def recursion_limit_lowered(x, n):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 10)
    try:
        return x + n, sys.getrecursionlimit() - limit
    finally:
        sys.setrecursionlimit(limit)


@case(lambda: (t(3),))
def relative_imports(x):
    from ...capture import case as again
    from . import loops
    from .loops import for_else

    return x + 1, loops.for_else is for_else, again.case is case, loops.__name__
