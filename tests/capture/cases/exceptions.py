"""try, except, else, finally; raised, caught, re-raised, chained, grouped; with the tracebacks users see."""

import sys
import traceback

import torch

from tests.capture.case import case, t


class AppError(Exception):
    def __init__(self, code, detail=None):
        super().__init__(f"code {code}")
        self.code, self.detail = code, detail


class SubError(AppError):
    pass


def _check(x, n):
    if n < 0:
        raise AppError(n, detail=x)
    return x + n


def _level2(x, n):
    return _check(x * 2, n)


@case(lambda: (t(3), 2), lambda: (t(3), -2), lambda: (t(3), 3))
def raised_in_callee(x, n):
    y = x + 1
    return _level2(y, n)


@case(lambda: (t(3), 2), lambda: (t(3), -2))
def caught(x, n):
    try:
        y = _level2(x, n)
    except AppError as error:
        y = x - error.code
    return y * 2


@case(lambda: (t(3), 2), lambda: (t(3), -2), lambda: (t(3), "s"))
def all_clauses(x, n):
    log = []
    try:
        log.append("try")
        y = _check(x, n)
    except (AppError, KeyError) as error:
        log.append(error.code)
        y = error.detail
    except TypeError:
        log.append("type")
        y = x * 5
    else:
        log.append("else")
        y = y + 1
    finally:
        log.append("finally")
    return y, log


@case(lambda: (t(3),))
def finally_returns(x):
    try:
        raise ValueError("lost")
    finally:
        return x + 1


@case(lambda: (t(3), 3), lambda: (t(3), 6))
def finally_in_loop(x, n):
    log = []
    for i in range(n):
        try:
            if i == 1:
                continue
            if i == 4:
                break
            x = x + i
        finally:
            log.append(i)
    return x, log


@case(lambda: (t(3),))
def reraised(x):
    try:
        _check(x, -1)
    except AppError:
        x = x + 1
        raise


@case(lambda: (t(3),))
def raise_from(x):
    try:
        _check(x, -1)
    except AppError as error:
        raise SubError(7) from error


@case(lambda: (t(3),))
def raise_from_none(x):
    try:
        _check(x, -1)
    except AppError:
        raise KeyError("hidden") from None


@case(lambda: (t(3),))
def implicit_context(x):
    try:
        _check(x, -1)
    except AppError:
        return x / undefined


@case(lambda: (t(3),))
def context_cleared_after(x):
    try:
        raise ValueError("inner")
    except ValueError:
        x = x + 1
    raise KeyError("outer")


@case(lambda: (t(3),))
def nested_handlers(x):
    log = []
    try:
        try:
            raise ValueError("a")
        except KeyError:
            log.append("wrong")
        finally:
            log.append("inner finally")
    except ValueError as error:
        try:
            raise TypeError("b") from error
        except TypeError as second:
            log.append((str(second), str(second.__cause__)))
        log.append(str(error))
    return x + len(log), log


@case(lambda: (t(3), [1, 0, 2, 0]), lambda: (t(3), [0, 0]))
def caught_in_loop(x, numbers):
    failures = 0
    for n in numbers:
        try:
            x = x + 12 // n
        except ZeroDivisionError as error:
            failures += 1
            last = str(error)
    return x, failures, last


@case(lambda: (t(3),))
def name_unbound_after_handler(x):
    try:
        raise ValueError("v")
    except ValueError as error:
        x = x + len(error.args)
    return x + error


@case(lambda: (t(2, 3), t(4, 5)))
def shape_mismatch(x, y):
    z = x + 1
    return z + y


@case(lambda: (t(2, 3), t(4, 5)), lambda: (t(2, 3), t(2, 3)))
def shape_mismatch_caught(x, y):
    try:
        z = x @ y
    except RuntimeError as error:
        return x + 1, str(error)
    return z


@case(lambda: (t(2, 3),))
def bad_dimension(x):
    return (x * 2).sum(dim=5)


@case(lambda: (t(2, 3),))
def bad_index(x):
    return (x + 1)[7]


@case(lambda: (t(2, 3),))
def bad_view(x):
    return (x + 1).view(4, 4)


@case(lambda: (t(2, 3),))
def bad_argument_of_operator(x):
    return torch.sum(x + 1, "nonsense", what=3)


@case(lambda: (t(2, 3), t(2, 3, dtype=torch.int64)))
def bad_dtype(x, i):
    return torch.mm(x, i.t())


@case(lambda: (t(3), {"a": 1}), lambda: (t(3), {"missing": 1}))
def key_error(x, d):
    return x + d["a"]


@case(lambda: (t(3), [1]), lambda: (t(3), [1, 2, 3]))
def index_error(x, items):
    return (x + 1) * items[2]


@case(lambda: (t(3),))
def attribute_error(x):
    y = x + 1
    return y.nope


@case(lambda: (t(3),))
def type_error(x):
    return x + "text"


@case(lambda: (t(3),))
def type_errors_of_builtins(x):
    found = []
    for act in (
        lambda: len(3),
        lambda: [1] + (2,),
        lambda: int("q"),
        lambda: {}[[]],
        lambda: None.x,
        lambda: x.shape[0](),
        lambda: iter(3),
    ):
        try:
            act()
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return x * len(found), found


@case(lambda: (t(3), 1), lambda: (t(3), 0))
def assertion(x, n):
    y = x * 2
    assert n > 0, f"n must be positive, is {n}"
    assert y.shape[0] == 3
    return y


@case(lambda: (t(3), 1), lambda: (t(3), 0))
def bare_assertion(x, n):
    assert n
    return x + n


@case(lambda: (t(3),))
def assertion_on_tensor(x):
    y = x + 100
    assert (y > 0).all()
    assert (y < 0).any(), "never"
    return y


@case(lambda: (t(3), 3))
def raise_class_and_instance(x, n):
    found = []
    for error in (ValueError, ValueError("i"), AppError(2)):
        try:
            raise error
        except Exception as caught:
            found.append((type(caught).__name__, caught.args, caught is error))
    return x + n, found


@case(lambda: (t(3),))
def raise_nonsense(x):
    raise x + 1


@case(lambda: (t(3),))
def bare_raise_without_error(x):
    y = x + 1
    raise


@case(lambda: (t(3),))
def exception_group(x):
    log = []
    try:
        raise ExceptionGroup("several", [ValueError(1), KeyError("k"), ExceptionGroup("deep", [ValueError(2)])])
    except* ValueError as group:
        log.append(len(group.exceptions))
        x = x + 1
    except* KeyError as group:
        log.append(repr(group.exceptions))
    return x, log


@case(lambda: (t(3),))
def exception_group_rest(x):
    try:
        raise ExceptionGroup("several", [ValueError(1), OSError("left")])
    except* ValueError:
        x = x * 2


@case(lambda: (t(3),))
def exception_group_of_naked(x):
    try:
        _check(x, -4)
    except* AppError as group:
        code = group.exceptions[0].code
    return x * code


@case(lambda: (t(3),))
def notes_and_attributes(x):
    error = ValueError("with notes")
    error.add_note("first")
    error.extra = x + 1
    raise error


@case(lambda: (t(3),))
def with_traceback(x):
    try:
        _level2(x, -1)
    except AppError as error:
        raise error.with_traceback(None)


@case(lambda: (t(3),))
def format_exc(x):
    y = x + 1
    try:
        _level2(y, -1)
    except AppError:
        text = traceback.format_exc()
    return y * 2, text.splitlines()[0], [line.strip() for line in text.splitlines() if "line" in line or "code" in line]


@case(lambda: (t(3),))
def print_exc(x):
    try:
        _level2(x, -1)
    except AppError:
        traceback.print_exc()
        print(sys.exc_info()[0].__name__)
    print(sys.exc_info()[0])
    return x + 1


@case(lambda: (t(3),))
def traceback_inspected(x):
    try:
        _level2(x, -1)
    except AppError as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = error.__traceback__
        while last.tb_next:
            last = last.tb_next
        return x + 1, [(f.name, f.lineno, f.line) for f in frames], last.tb_frame.f_locals["n"]


@case(lambda: (t(3),))
def exception_kept(x):
    try:
        _level2(x, -3)
    except AppError as error:
        kept = error
    return kept, x + 1


@case(lambda: (t(3), 3))
def stop_iteration(x, n):
    it = iter([x])
    next(it)
    next(it)


@case(lambda: (t(3),))
def system_exit(x):
    y = x + 1
    sys.exit(3 if y is not None else 4)


@case(lambda: (t(3),))
def keyboard_interrupt(x):
    try:
        raise KeyboardInterrupt
    except Exception:
        return x
    finally:
        print("cleaned")


def _runs_away(x, n):
    return _runs_away(x + 1, n + 1)


@case(lambda: (t(1),))
def recursion_error(x):
    try:
        _runs_away(x, 0)
    except RecursionError as error:
        return x + 1, str(error)[:32]


@case(lambda: (t(3),))
def error_in_handler_with_finally(x):
    log = []
    try:
        try:
            raise ValueError("one")
        except ValueError:
            raise KeyError("two")
        finally:
            log.append("finally")
    except KeyError as error:
        return x + 1, log, repr(error.__context__)


@case(lambda: (t(3), 1), lambda: (t(3), 2), lambda: (t(3), 3), lambda: (t(3), 4))
def many_ways_out(x, n):
    try:
        if n == 1:
            return x + 1
        if n == 2:
            raise ValueError(n)
        y = x * n
    except ValueError:
        if n == 2:
            return x + 2
        raise
    else:
        if n == 3:
            return y + 3
    finally:
        print("out", n)
    return y


@case(lambda: (t(3),))
def handler_matches_by_expression(x):
    kinds = [KeyError, ValueError]
    try:
        raise ValueError("v")
    except tuple(kinds):
        return x + 1


@case(lambda: (t(3),))
def handler_of_wrong_type(x):
    try:
        raise ValueError("v")
    except "not a class":
        return x


@case(lambda: (t(3), 0))
def mutation_before_error(x, n):
    items = [x]
    x.add_(1)
    items.append(x * 2)
    return items[0] / (1 // n)


@case(lambda: (t(3), []))
def side_effects_before_error(x, log):
    log.append(x * 2)
    log.append("before")
    raise AppError(log[-1])


@case(lambda: (t(3), []), drive=lambda f, x, log: _in_handler(f, x, log))
def called_in_handler(x, log):
    log.append(sys.exc_info()[0].__name__)
    try:
        raise KeyError("inside")
    except KeyError as error:
        log.append(type(error.__context__).__name__)
    return x + 1


def _in_handler(f, x, log):
    try:
        raise ValueError("outer")
    except ValueError:
        y = f(x, log)
        log.append(sys.exc_info()[0].__name__)
        return y
