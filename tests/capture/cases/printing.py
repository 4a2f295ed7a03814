"""print, logging and warnings in the middle."""

import logging
import sys
import warnings

import torch

from tests.capture.case import case, t

LOGGER = logging.getLogger("cases.printing")
LOGGER.propagate = False


class ToStdout(logging.Handler):
    def emit(self, record):
        print(f"{record.levelname} {record.funcName}:{record.lineno} {record.getMessage()}")


LOGGER.handlers[:] = [ToStdout()]
LOGGER.setLevel(logging.INFO)


@case(lambda: (t(3), 3), lambda: (t(4), 4))
def print_between(x, n):
    y = x + n
    print("n is", n, y.shape)
    return y * 2


@case(lambda: (t(2),))
def print_tensor(x):
    y = x + 1
    print(y)
    print(f"{y} {y.sum()}")
    return y * 2


@case(lambda: (t(2),))
def print_first_and_last(x):
    print("first")
    y = x * 2
    print("last", end="!\n", sep="-")
    return y


@case(lambda: (t(2), 3))
def print_in_loop(x, n):
    for i in range(n):
        print(i, end=" ")
        x = x + i
        print((x * 4).sum().item())
    return x


def _tells(x, depth):
    print("depth", depth)
    return x + 1 if depth == 0 else _tells(x * 2, depth - 1) + depth


@case(lambda: (t(2), 2), lambda: (t(2), 1))
def print_in_callee(x, n):
    return _tells(x + 1, n) * 3


@case(lambda: (t(2),))
def print_to_stderr(x):
    print("error", file=sys.stderr)
    sys.stdout.write("written\n")
    sys.stdout.flush()
    return x + 1


@case(lambda: (t(2), 3))
def log_in_the_middle(x, n):
    LOGGER.info("before %d", n)
    y = x * n
    LOGGER.debug("never %s", y)
    LOGGER.warning("after %s", tuple(y.shape))
    return y + 1


def _warns(x, level):
    warnings.warn("take care", UserWarning, stacklevel=level)
    return x + 1


@case(lambda: (t(2),))
def warn_here(x):
    y = x + 1
    warnings.warn("here")
    return y * 2


@case(lambda: (t(2), 1), lambda: (t(2), 2))
def warn_stacklevel(x, level):
    y = _warns(x, level)
    return y * 2


@case(lambda: (t(2),))
def warn_in_loop_and_comprehension(x):
    for i in range(2):
        x = _warns(x, 2)
    return [_warns(x, 2) for _ in range(2)]


@case(lambda: (t(2),))
def warning_as_error(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            _warns(x, 1)
        except UserWarning as error:
            return x * 2, str(error)


@case(lambda: (t(2),))
def warnings_recorded(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = _warns(x, 2)
    return y, [str(w.message) for w in seen], seen[0].lineno


class Category(DeprecationWarning):
    pass


@case(lambda: (t(2),))
def own_category(x):
    warnings.warn(Category("old"), stacklevel=1)
    return x + 1


@case(lambda: (t(2), "0"), lambda: (t(2), "1"))
def debug_flag(x, flag):
    if flag == "1":
        print("debugging", x.shape)
    return x * 2


@case(lambda: (t(2),))
def print_is_replaced(x):
    seen = []
    print = seen.append
    print("not printed")
    return x + len(seen), seen


@case(lambda: (t(2),))
def print_then_error(x):
    y = x + 1
    print("before")
    raise ValueError(f"after {tuple(y.shape)}")


@case(lambda: (t(2),))
def logging_an_exception(x):
    try:
        (x + 1).view(7)
    except RuntimeError:
        LOGGER.exception("failed")
    return x * 2


@case(lambda: (t(0),), lambda: (t(2),))
def torch_warns(x):
    return torch.std(x) if x.numel() else torch.tensor(float("nan"))
