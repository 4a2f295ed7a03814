"""Comprehensions and generator expressions."""

import torch

from tests.capture.case import case, t


@case(lambda: (t(3), 3), lambda: (t(3), 5))
def list_of_tensors(x, n):
    return [x * i for i in range(n)]


@case(lambda: (t(3), 6), lambda: (t(3), 9))
def with_conditions(x, n):
    return [x + i for i in range(n) if i % 2 if i > 2], [i if i % 2 else -i for i in range(n)]


@case(lambda: (t(3), ["a", "bb"]), lambda: (t(3), ["ccc"]))
def dict_and_set(x, names):
    return {n: x * len(n) for n in names}, {len(n) for n in names}, {v: k for k, v in enumerate(names)}


@case(lambda: ([[t(2), t(2, seed=1)], [t(2, seed=2)]],), lambda: ([[t(1)]],))
def nested_loops(rows):
    return [x + i for i, row in enumerate(rows) for x in row], [[x * 2 for x in row] for row in rows]


@case(lambda: (t(3), 2))
def reads_enclosing(x, n):
    y = x + 1
    return [y * n + i for i in range(2)], [(lambda: y + i)() for i in range(2)]


@case(lambda: (t(3),))
def variable_does_not_leak(x):
    i = 77
    made = [i for i in range(3)]
    return x + i, made


@case(lambda: (t(3), [1, 5, 2]), lambda: (t(3), [9, 9]))
def walrus_leaks(x, numbers):
    big = [y for n in numbers if (y := n * 2) > 3]
    return x + y, big


@case(lambda: (t(3), 4), lambda: (t(3), 5))
def generator_expressions(x, n):
    return (
        sum(x * i for i in range(n)),
        max(i * -1 for i in range(n)),
        tuple(i for i in "ab"),
        dict((i, x) for i in "a"),
    )


@case(lambda: ([t(2), t(2, seed=1)],), lambda: ([t(2), t(2, seed=1), t(2, seed=2)],))
def stack_of_generator(parts):
    return torch.stack([p.relu() for p in parts]), torch.cat(tuple(p for p in parts))


@case(lambda: (t(3), [3, 0, 2]), lambda: (t(3), [1]))
def raises_inside(x, numbers):
    return [x / (12 // n) for n in numbers]


@case(lambda: (t(3),))
def lazily_evaluated(x):
    n = 1
    gen = (x * n + i for i in range(2))
    n = 5
    first = next(gen)
    n = 10
    return first, next(gen), next(gen, None)


@case(lambda: (t(4),), lambda: (t(2),))
def over_tensor(x):
    return [v * 2 for v in x], sum(v for v in x)


@case(lambda: (t(3), [1, 2, 3]), lambda: (t(3), [3, 4]))
def short_circuit(x, numbers):
    seen = []
    found = any(seen.append(n) or n == 2 for n in numbers)
    return x + len(seen), found, seen, all(n > 2 for n in numbers)


@case(lambda: (t(3), {"a": 1, "b": None}), lambda: (t(3), {"c": 3}))
def filters_dict(x, d):
    return {k: x + v for k, v in d.items() if v is not None}, [k for k in d if d[k] is None]


@case(lambda: (t(3),))
def functions_made(x):
    fs = [lambda y, k=k: y + k for k in range(3)]
    return [f(x) for f in fs], {k: (lambda: k)() for k in range(2)}


@case(lambda: (t(3),))
def comprehension_in_class_body(x):
    class Table:
        names = ["a", "b"]
        sizes = [n * 2 for n in names]
        pairs = {n: i for i, n in enumerate(names)}

    return x + Table.pairs["b"], Table.sizes


@case(lambda: (t(3), 3), lambda: (t(3), 4))
def nested_generators(x, n):
    return list(y + 1 for y in (x * i for i in range(n))), [[j for j in range(i)] for i in range(n)]


@case(lambda: (t(2), [1, 2]))
def prints_inside(x, numbers):
    return [print("at", n) or x * n for n in numbers]


@case(lambda: (t(2), [0.5, -1.0]), lambda: (t(2), [2.0]))
def item_inside(x, numbers):
    return [(x * n).sum().item() for n in numbers]


@case(lambda: (t(3), [[1, 2], [3]]), lambda: (t(3), [[4]]))
def starred_inside(x, rows):
    return [*(x + a for r in rows for a in r)], [first for first, *_ in rows], {**{str(i): i for i in range(2)}}
