"""Tuples, lists, dicts, sets, slices and unpacking made and read inside."""

import torch

from tests.capture.case import case, t


@case(lambda: (t(3),), lambda: (t(5),))
def list_of_tensors(x):
    parts = [x, x + 1, x * 2]
    parts.append(parts[0] - parts[-1])
    return torch.stack(parts), len(parts), parts[1:3]


@case(lambda: (t(3), t(3, seed=1)))
def tuple_swap(x, y):
    x, y = y, x
    (a, b), c = (x + 1, y + 2), x * y
    return a, b, c, x, y


@case(lambda: ([t(2), t(2, seed=1), t(2, seed=2), t(2, seed=3)],), lambda: ([t(2), t(2, seed=1), t(3)],))
def starred_unpacking(parts):
    first, *middle, last = parts
    *head, tail = middle or [first]
    return first + 1, middle, last, head, tail * 2, [*middle, first], (*head, last)


@case(lambda: ({"a": t(3), "b": t(3, seed=1)},), lambda: ({"b": t(3), "c": t(3, seed=1)},))
def dict_argument(d):
    total = 0
    for key, value in d.items():
        total = total + value * len(key)
    return {**d, "sum": total}, list(d), list(d.values())[0] is d[next(iter(d))], "a" in d, d.get("zz", 5)


@case(lambda: (t(3),))
def dict_built(x):
    d = {"x": x, 1: x + 1, (1, 2): x + 2}
    d["y"] = d["x"] * 2
    d |= {"z": d.pop(1)}
    d.setdefault("w", x - 1)
    d.update(v=x, w=None)
    return d, d.keys() & {"x", "q"}, len(d), list(d.items())[0][0]


@case(lambda: (t(3), [3, 1, 2]), lambda: (t(3), [9]))
def sets(x, numbers):
    s = {1, 2, 3} | set(numbers)
    s -= {2}
    s.add(10)
    s.discard(77)
    return x + len(s), s, s & {1, 10}, s ^ {1}, frozenset(s), s >= {1}, 3 in s, sorted(s), s.isdisjoint({77})


@case(lambda: (t(6), slice(1, 4)), lambda: (t(6), slice(None, None, 2)), lambda: (t(6), slice(-2, None)))
def slice_argument(x, s):
    return x[s] + 1, s.indices(6), s.start, [0, 1, 2, 3, 4, 5][s]


@case(lambda: (t(4, 6), 1), lambda: (t(5, 7), 2))
def tensor_indexing(x, i):
    return x[i], x[:, i], x[..., -1], x[None], x[i:, :-i], x[[0, i]], x[i][i], x[torch.tensor([i, 0])], x[::2, 1::2]


@case(lambda: (t(4, 3),))
def tensor_unpacking(x):
    a, b, *rest = x
    c, d, e = a
    return a + b, c * d + e, len(rest), len(x)


@case(lambda: (t(3), [1, [2, [3, {"k": (4, 5)}]]]), lambda: (t(3), [0, [1, [2, {"k": (3, 4)}]]]))
def nested_constants(x, nested):
    a, (b, (c, d)) = nested
    return x * a + b - c, d["k"][1]


@case(lambda: ([t(2), [t(2, seed=1), {"k": t(2, seed=2)}]],), lambda: ([t(3), [t(3, seed=1), {"k": t(3, seed=2)}]],))
def nested_tensors(tree):
    def add(node):
        if isinstance(node, torch.Tensor):
            return node + 1
        if isinstance(node, dict):
            return {k: add(v) for k, v in node.items()}
        return type(node)(add(v) for v in node)

    return add(tree)


@case(lambda: (t(3),))
def list_methods(x):
    items = [x, 3, "s"]
    items.insert(1, x + 1)
    items.extend([1, 2])
    items += [7]
    items.remove(3)
    popped = items.pop(0)
    items.reverse()
    return items, popped is x, items.index("s"), items.count(7), items[::2], items * 2, items.copy() == items


@case(lambda: (t(3), [5, 3, 9, 1]), lambda: (t(3), [2, 2]))
def list_sorting(x, numbers):
    ours = list(numbers)
    ours.sort(reverse=True)
    del ours[0]
    ours[1:1] = [100, 200]
    return x * ours[0], ours, sorted(numbers, key=lambda n: -n), numbers == sorted(numbers), [1, 2] < [1, 3]


@case(lambda: (t(3),))
def del_items(x):
    items = [x, x + 1, x + 2, x + 3]
    table = {"a": 1, "b": items}
    del items[1], table["a"]
    del items[:1]
    y = x
    del x
    return items, table, y


@case(lambda: (t(2, 2), (1, 2)), lambda: (t(2, 2), (0, 5)))
def tuple_methods(x, pair):
    joined = pair + (3,)
    return (
        x + joined[2],
        joined,
        joined.index(3),
        joined.count(1),
        pair * 2,
        pair < (1, 3),
        hash(pair) == hash(tuple(pair)),
    )


@case(lambda: (t(3), 4), lambda: (t(3), 2))
def range_objects(x, n):
    r = range(n, n * 5, 2)
    return x + r[1], len(r), list(r), r[-1], n in r, r[1:], list(reversed(r)), r == range(n, n * 5, 2)


@case(lambda: (t(3), t(3, seed=1)))
def aliasing_inside_results(x, y):
    z = x + y
    shared = [z]
    return {"a": shared, "b": shared, "c": [z], "d": (shared, z)}


@case(lambda: (t(3),))
def cyclic_result(x):
    node = {"value": x + 1}
    node["self"] = node
    items = [node]
    items.append(items)
    return items


@case(lambda: ([t(2), t(2, seed=1)],))
def argument_returned_inside(parts):
    return parts, (parts, parts[0]), {"first": parts[0]}, parts[1] + 1


@case(lambda: (t(3),))
def constants_identity(x):
    a = (1, 2, "three")
    b = a
    empty = ()
    return a, b, a is b, empty, x + 1, [] is [], None, ...


@case(lambda: ((t(3), None, 3),), lambda: ((t(3), t(3), 4),))
def optional_in_tuple(parts):
    x, mask, n = parts
    if mask is not None:
        x = x * mask
    return x + n


@case(lambda: ([],), lambda: ([t(2)],), lambda: ([t(2), t(2)],))
def length_changes(parts):
    if not parts:
        return torch.zeros(2)
    return sum(parts) + len(parts)


@case(lambda: ({},), lambda: ({"bias": t(3)},), lambda: ({"bias": None},))
def keys_change(options):
    x = torch.ones(3)
    bias = options.get("bias")
    return x + 1 if bias is None else x + bias, "bias" in options


@case(lambda: ({1: t(2), 2: t(2, seed=1)},), lambda: ({2: t(2), 1: t(2, seed=1)},))
def order_of_keys(d):
    first, second = d.values()
    return first - second * 2, next(iter(d)), list(reversed(d))


@case(lambda: (t(3),))
def multiple_targets(x):
    a = b = [x]
    b.append(x + 1)
    a[0], a[1] = a[1], a[0]
    i = 0
    i, a[i] = 1, x * 3
    return a, a is b


@case(lambda: (t(3), [[1, 2], [3, 4]]), lambda: (t(3), [[5, 6, 7]]))
def for_targets(x, rows):
    for a, *b in rows:
        x = x + a - len(b)
    for rows[0][0] in (8, 9):
        x = x * 1
    return x, rows
