"""Many: calls, variants, breaks, arguments, depth; what must not make a call fail or go wrong."""

import torch

from tests.capture.case import case, maker, t


@case(lambda: (t(3),), drive=lambda f, x: sum(f(x, i) for i in range(40)))
def forty_variants(x, n):
    return x + (n if n % 2 else -n)


@case(lambda: (t(3),), drive=lambda f, x: [f(torch.ones(n)) for n in range(20)])
def twenty_sizes(x):
    return x * x.shape[0] + 1


@case(lambda: (t(3),), drive=lambda f, x: [f(x) for _ in range(200)][-1])
def two_hundred_calls(x):
    return x * 2 + 1


@case(lambda: (t(2),))
def hundred_breaks(x):
    for i in range(100):
        x = x + i % 3
        print(i, end=" ")
    return x


@case(lambda: (t(2),))
def thousand_operators(x):
    for i in range(1000):
        x = x + i % 5 - 2
    return x


@case(lambda: tuple(t(2, seed=i) for i in range(60)))
def sixty_arguments(*parts):
    return sum(parts)


@case(lambda: ([t(2, seed=i) for i in range(300)],))
def three_hundred_elements(parts):
    return torch.stack(parts).sum(0), len(parts)


@case(lambda: ({f"k{i}": t(2, seed=i) for i in range(100)},), lambda: ({f"q{i}": t(2, seed=i) for i in range(100)},))
def hundred_keys(d):
    return sum(v * len(k) for k, v in d.items())


def _nest(x, n):
    return [x] if n == 0 else [_nest(x + 1, n - 1)]


@case(lambda: (t(2), 40))
def deeply_nested_result(x, n):
    return _nest(x, n)


def _deep(x, n):
    if n == 0:
        return x * 2
    return _deep(x, n - 1) + 1


@case(lambda: (t(2), 300))
def three_hundred_frames(x, n):
    return _deep(x, n)


@case(lambda: (t(2), 200))
def break_three_hundred_frames_down(x, n):
    def down(k):
        if k == 0:
            print("bottom")
            return x * 2
        return down(k - 1) + 1

    return down(n)


@case(lambda: (t(2), 5000))
def long_loop_of_python(x, n):
    total = 0
    for i in range(n):
        total = (total * 31 + i) % 1009
    return x + total % 4, total


@case(lambda: (t(2), 30))
def fibonacci_recursive(x, n):
    calls = 0

    def fib(k):
        nonlocal calls
        calls += 1
        return k if k < 2 else fib(k - 1) + fib(k - 2)

    return x + fib(n // 2) % 8, calls


@maker(lambda: (t(2),), drive=lambda f, x: [f(x) for _ in range(30)])
def state_changes_every_call():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count

    return f


@case(lambda: (t(2), 2), drive=lambda f, x, n: [f(x, float(i) / 4) for i in range(20)])
def twenty_floats(x, a):
    return x * a + a


@case(lambda: (t(2),), drive=lambda f, x: [f(x, make()) for make in [lambda i=i: lambda y: y + i for i in range(12)]])
def new_function_every_call(x, f):
    return f(x) * 2


class Fresh:
    def __init__(self, n):
        self.n = n


@case(lambda: (t(2),), drive=lambda f, x: [f(x, Fresh(i % 3)) for i in range(12)])
def new_object_every_call(x, o):
    return x * o.n


@case(lambda: (t(2),), drive=lambda f, x: [f(x, type("K", (), {"n": i})()) for i in range(10)])
def new_class_every_call(x, o):
    return x * o.n, type(o).__name__


@case(lambda: (t(2),), drive=lambda f, x: [_tries(f, x, n) for n in (1, 0, 1, 0, 0, 2)])
def errors_and_results_in_turn(x, n):
    y = x * 2
    if n == 0:
        raise ValueError("zero")
    return y / n


def _tries(f, x, n):
    try:
        return f(x, n)
    except ValueError as error:
        return str(error)


@case(lambda: (t(1),))
def text_of_large_constant(x):
    table = {i: str(i) * 3 for i in range(500)}
    return x + len(table), table[77], sum(table)
