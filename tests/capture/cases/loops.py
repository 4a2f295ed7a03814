"""for and while, break, continue, else; over Python objects and over tensors."""

import torch

from tests.capture.case import case, t


@case(lambda: (t(3), 4), lambda: (t(3), 7), lambda: (t(3), 0))
def for_range(x, n):
    for i in range(n):
        x = x + i
    return x


@case(lambda: (t(3), 4), lambda: (t(3), 2))
def for_else(x, n):
    for i in range(n):
        if i == 3:
            x = x * 2
            break
        x = x + 1
    else:
        x = x - 100
    return x, i


@case(lambda: (t(3), 5), lambda: (t(3), 1))
def while_else(x, n):
    while n > 0:
        n -= 2
        if n == 1:
            continue
        x = x + n
        if n == -7:
            break
    else:
        x = x * 3
    return x, n


@case(lambda: (t(3), 3, 2), lambda: (t(3), 2, 4))
def nested(x, n, m):
    for i in range(n):
        for j in range(m):
            if j > i:
                break
            x = x + i * j
        else:
            x = x - 1
            continue
        x = x * 2
    return x


@case(lambda: (t(4, 3),), lambda: (t(2, 3),))
def over_tensor_rows(x):
    total = torch.zeros(3)
    for i, row in enumerate(x):
        total = total + row * i
    return total


@case(lambda: ([t(2), t(2, seed=1), t(2, seed=2)],), lambda: ([t(3)],), lambda: ([],))
def over_list_of_tensors(parts):
    total = torch.zeros(1)
    for part in parts:
        total = total + part.sum()
    return total


@case(lambda: (t(3), [1, 2, 3], "abc"), lambda: (t(3), [4], "ab"))
def zip_enumerate(x, numbers, letters):
    seen = []
    for i, (n, c) in enumerate(zip(numbers, letters), start=2):
        x = x + n * i
        seen.append(c)
    return x, seen


@case(lambda: (t(3), [1, 2, 3, 4]), lambda: (t(3), [5, 6]))
def map_filter_reversed(x, numbers):
    for n in map(lambda n: n * n, filter(lambda n: n % 2 == 0, reversed(numbers))):
        x = x + n
    return x


@case(lambda: (t(3), [("b", 2), ("a", 2), ("c", 1)]), lambda: (t(3), [("z", 0)]))
def sorted_with_key(x, pairs):
    for _, n in sorted(pairs, key=lambda p: (p[1], p[0]), reverse=True):
        x = x * 2 + n
    return x, min(pairs, key=lambda p: p[1]), max(pairs, key=lambda p: p[0])


@case(lambda: (t(3), {"a": 1, "b": 2}), lambda: (t(3), {"c": 3}))
def over_dict(x, d):
    for k in d:
        x = x + d[k]
    for v in d.values():
        x = x * v
    for k, v in sorted(d.items(), reverse=True):
        x = x - v
    return x


@case(lambda: (t(3),))
def list_grows_while_looping(x):
    items = [1]
    for i in items:
        if len(items) < 5:
            items.append(i + 1)
        x = x + i
    return x, items


@case(lambda: (t(3), {"a": 1}))
def dict_changes_while_looping(x, d):
    for k in d:
        d[k + "b"] = 1
    return x + 1


@case(lambda: (t(3), 3), lambda: (t(3), 6))
def while_true(x, n):
    i = 0
    while True:
        i += 1
        if i % 2:
            continue
        x = x + i
        if i > n:
            break
    return x, i


@case(lambda: (t(3),), lambda: (t(3, seed=4),))
def while_on_tensor(x):
    steps = 0
    while x.abs().sum() > 1:
        x = x / 2
        steps += 1
    return x, steps


@case(lambda: (t(4),), lambda: (t(4, seed=3),))
def break_on_tensor(x):
    for i in range(5):
        x = x + 1
        if x.sum() > 4:
            break
    else:
        return x, "never"
    return x, i


@case(lambda: (t(3), [1, 2, 3]), lambda: (t(3), []))
def loop_variable_after(x, numbers):
    n = None
    for n in numbers:
        x = x + n
    return x, n


@case(lambda: (t(3), []))
def unbound_after_loop(x, numbers):
    for n in numbers:
        x = x + n
    return x + n


@case(lambda: (t(3), [3, 1, 2]), lambda: (t(3), [1]))
def manual_iterator(x, numbers):
    it = iter(numbers)
    first = next(it)
    for n in it:
        x = x + n * first
    return x, next(it, "end"), iter(it) is it


@case(lambda: (t(3), [1, 2, 0, 5]), lambda: (t(3), [0]))
def iter_with_sentinel(x, numbers):
    it = iter(numbers)
    for n in iter(lambda: next(it), 0):
        x = x + n
    return x, list(it)


@case(lambda: (t(3),))
def partly_consumed_iterator_escapes(x):
    it = iter([x, x + 1, x + 2, x + 3])
    first = next(it)
    rest = enumerate(it, 5)
    second = next(rest)
    return first, second, rest


@case(lambda: (t(3), [[1, 2], [3], []]), lambda: (t(3), [[]]))
def any_all(x, rows):
    if any(len(r) == 1 for r in rows):
        x = x + 1
    if all(rows):
        x = x * 2
    return x, any([]), all([]), any(rows)


@case(lambda: (t(2), t(2, seed=1), 3), lambda: (t(2), t(2, seed=1), 5))
def recurrent(x, h, n):
    outputs = []
    for i in range(n):
        h = torch.tanh(x + h)
        if i % 2 == 0:
            outputs.append(h)
    return torch.stack(outputs), h


@case(lambda: (t(3), 3), lambda: (t(3), 5))
def zip_strict(x, n):
    for a, b in zip(range(n), range(3), strict=True):
        x = x + a * b
    return x


@case(lambda: (t(3), 200), lambda: (t(3), 150))
def many_iterations_without_tensors(x, n):
    total = 0
    for i in range(n):
        if i % 7 == 3:
            continue
        total += i
    return x + total % 8, total


@case(lambda: (t(2, 2), 3), lambda: (t(2, 2), 4))
def loop_with_print(x, n):
    for i in range(n):
        x = x + i
        print("step", i)
    return x * 2


@case(lambda: (t(3), 3))
def closures_of_loop_variable(x, n):
    late = [lambda: i for i in range(n)]
    early = [lambda i=i: i for i in range(n)]
    return x + late[0](), [f() for f in late], [f() for f in early]
