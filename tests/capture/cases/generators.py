"""Generators consumed inside a compiled function, and generators as results or as the function itself."""

import itertools

import torch

from tests.capture.case import case, t


def _steps(x, n):
    for i in range(n):
        yield x + i


def _finally(x, log):
    try:
        yield x
        yield x + 1
        log.append("end")
    except ValueError as error:
        log.append(str(error))
        yield x * 10
    finally:
        log.append("finally")


def _delegates(x, n):
    got = yield from _returns(x, n)
    yield got * 2


def _returns(x, n):
    yield x
    yield x + n
    return x * n


def _echo(x):
    total = x
    while True:
        sent = yield total
        if sent is None:
            return "done"
        total = total + sent


@case(lambda: (t(3), 3), lambda: (t(3), 5))
def for_over(x, n):
    total = x
    for y in _steps(x, n):
        total = total + y
    return total


@case(lambda: (t(3), 4))
def consumed_by_builtins(x, n):
    pairs = zip(_steps(x, n), _steps(x * 2, n))
    return (
        sum(_steps(x, n)),
        list(_steps(x, 2)),
        tuple(_steps(x, 1)),
        dict(enumerate(_steps(x, 2))),
        [a * b for a, b in pairs],
        next(_steps(x, 1)),
        list(map(torch.neg, _steps(x, 2))),
        torch.stack(list(_steps(x, 2))),
    )


@case(lambda: (t(3), 3), lambda: (t(3), 2))
def send(x, n):
    gen = _echo(x)
    first = next(gen)
    for i in range(1, n):
        last = gen.send(i)
    try:
        gen.send(None)
    except StopIteration as stop:
        return first, last, stop.value


@case(lambda: (t(3),))
def throw(x):
    log = []
    gen = _finally(x, log)
    next(gen)
    y = gen.throw(ValueError("thrown"))
    rest = list(gen)
    return y, rest, log


@case(lambda: (t(3),))
def throw_unhandled(x):
    log = []
    gen = _finally(x, log)
    next(gen)
    try:
        gen.throw(KeyError("k"))
    except KeyError as error:
        log.append(repr(error))
    return x + 1, log, list(gen)


@case(lambda: (t(3),))
def close(x):
    log = []
    gen = _finally(x, log)
    y = next(gen)
    gen.close()
    gen.close()
    return y + 1, log, next(gen, "closed")


@case(lambda: (t(3), 3), lambda: (t(3), 4))
def yield_from(x, n):
    return list(_delegates(x, n))


@case(lambda: (t(3),))
def yield_from_list_and_send(x):
    def outer():
        got = yield from [x, x + 1]
        result = yield from _echo(x)
        return got, result

    gen = outer()
    seen = [next(gen), next(gen), next(gen), gen.send(5)]
    try:
        gen.send(None)
    except StopIteration as stop:
        return seen, stop.value


@case(lambda: (t(3), 5), lambda: (t(3), 3))
def early_exit(x, n):
    log = []

    def numbers():
        try:
            for i in range(n):
                yield i
        finally:
            log.append("closed")

    for i in numbers():
        x = x + i
        if i == 1:
            break
    return x, log


@case(lambda: (t(3), 2))
def raises_after_yield(x, n):
    def bad():
        yield x
        raise ValueError("in generator")

    total = x * 0
    try:
        for y in bad():
            total = total + y
    except ValueError as error:
        return total, str(error)


@case(lambda: (t(3),))
def uncaught_from_generator(x):
    def bad():
        yield x + 1
        yield x / undefined

    return sum(bad())


@case(lambda: (t(3),))
def stop_iteration_inside(x):
    def bad():
        yield x
        raise StopIteration("wrong")

    return list(bad())


@case(lambda: (t(3), 3))
def generator_escapes(x, n):
    gen = _steps(x, n)
    next(gen)
    return gen


@case(lambda: (t(3), 3), drive=lambda f, x, n: [y * 2 for y in f(x, n)])
def generator_escapes_and_is_used(x, n):
    y = x * 3
    gen = _steps(y, n)
    first = next(gen)
    return itertools.chain([first], gen)


@case(lambda: (t(3), 3), lambda: (t(4), 2), drive=lambda f, x, n: list(f(x, n)))
def is_generator(x, n):
    for i in range(n):
        x = x * 2 + i
        yield x


@case(lambda: (t(3),), drive=lambda f, x: _drive_sending(f(x)))
def is_generator_with_send(x):
    while True:
        got = yield x
        if got is None:
            return x * 100
        x = x + got


def _drive_sending(gen):
    seen = [next(gen), gen.send(1), gen.send(2)]
    try:
        gen.send(None)
    except StopIteration as stop:
        seen.append(stop.value)
    return seen


@case(lambda: (t(3),), drive=lambda f, x: _drive_throwing(f(x)))
def is_generator_with_throw(x):
    try:
        yield x + 1
    except ValueError as error:
        yield x + 2
        raise KeyError("from generator") from error
    finally:
        print("finally")


def _drive_throwing(gen):
    seen = [next(gen), gen.throw(ValueError("v"))]
    try:
        next(gen)
    except KeyError as error:
        seen.append(repr(error.__cause__))
    return seen


@case(lambda: (t(3),), drive=lambda f, x: f(x))
def is_generator_left_suspended(x):
    y = x + 1
    yield y
    yield y * 2


@case(lambda: ([t(2), t(2, seed=1)],), drive=lambda f, parts: f(iter(parts)))
def iterator_argument(it):
    first = next(it)
    return [first + p for p in it], next(it, None)


@case(lambda: (t(3),), drive=lambda f, x: _shared_generator(f, x))
def generator_argument(x, gen):
    return x + next(gen), next(gen)


def _shared_generator(f, x):
    gen = _steps(x, 6)
    return f(x, gen), f(x, gen), next(gen)


@case(lambda: (t(3), 3), lambda: (t(3), 4))
def infinite_with_islice(x, n):
    def powers():
        y = x
        while True:
            yield y
            y = y * 2

    return list(itertools.islice(powers(), n)), list(itertools.takewhile(lambda i: i < n, itertools.count()))


@case(lambda: (t(3), [1, [2, [3]], 4]), lambda: (t(3), [[[[5]]]]))
def recursive_generator(x, tree):
    def leaves(node):
        if isinstance(node, list):
            for child in node:
                yield from leaves(child)
        else:
            yield node

    for leaf in leaves(tree):
        x = x + leaf
    return x, list(leaves(tree))


@case(lambda: (t(3),))
def generator_state(x):
    gen = _steps(x, 1)
    before = gen.gi_frame is not None, gen.gi_running
    list(gen)
    return x, before, gen.gi_frame, gen.__name__


@case(lambda: (t(3), 2), lambda: (t(3), 3))
def with_in_generator(x, n):
    class Log:
        def __init__(self):
            self.seen = []

        def __enter__(self):
            self.seen.append("in")
            return self

        def __exit__(self, *exc):
            self.seen.append(exc[0].__name__ if exc[0] else "out")

    log = Log()

    def gen():
        with log:
            for i in range(5):
                yield i

    for i in gen():
        x = x + i
        if i == n:
            break
    return x, log.seen


@case(lambda: (t(3),))
def already_executing(x):
    def selfish():
        yield next(gen)

    gen = selfish()
    try:
        next(gen)
    except ValueError as error:
        return x + 1, str(error)


@case(lambda: (t(3),))
def two_generators_interleaved(x):
    a, b = _steps(x, 3), _steps(x * 10, 3)
    return [next(a), next(b), next(a) + next(b)], list(a), list(b)


@case(lambda: (t(3),))
def print_in_generator(x):
    def gen():
        for i in range(3):
            print("yielding", i)
            yield x + i

    return sum(gen())


@case(lambda: (t(3),))
def item_in_generator(x):
    def gen():
        for i in range(3):
            yield (x + i).sum().item()

    return [x * v for v in gen()]
