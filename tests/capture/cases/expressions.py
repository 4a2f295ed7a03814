"""Walrus, stars, del, chained calls, evaluation order and other corners of expressions."""

import torch

from tests.capture.case import case, t


@case(lambda: (t(3), [1, 5, 9]), lambda: (t(3), [9, 1]))
def walrus(x, ns):
    if (n := len(ns)) > 2:
        x = x + n
    while (last := ns.pop()) > 4:
        x = x * last
        if not ns:
            break
    return x, n, last, (y := x + 1) * y


@case(lambda: (t(3), [1, 2], {"a": 1}))
def displays_with_stars(x, ns, d):
    return [*ns, *ns, x], (*ns, 3), {*ns, 7}, {**d, "b": 2, **{"a": 9}}, [*d], [*range(2), *"ab"], dict(**d, z=x)


def _note(log, value):
    log.append(value)
    return value


@case(lambda: (t(3),))
def evaluation_order(x):
    log = []
    table = {}
    table[_note(log, "key")] = _note(log, "value")
    _note(log, 1) + _note(log, 2) * _note(log, 3)
    {_note(log, "k1"): _note(log, "v1"), _note(log, "k2"): _note(log, "v2")}
    _note(log, [0, 0])[_note(log, 1)] += _note(log, 4)
    dict(a=_note(log, "kw1"), b=_note(log, "kw2"))
    1 if _note(log, 0) else _note(log, "else")
    _note(log, 1) < _note(log, 2) < _note(log, 0) < _note(log, "never")
    return x + len(log), log, table


@case(lambda: (t(3),))
def deletions(x):
    a = [1, 2, 3]
    b = {"k": 1}
    y = x + 1
    del a[0], b["k"]
    del y
    try:
        return y
    except UnboundLocalError as error:
        return x + len(a), str(error)


@case(lambda: (t(3), 2))
def chained_methods(x, n):
    return x.add(1).mul(n).relu().sum(dim=0, keepdim=True).expand(3).contiguous().neg()


@case(lambda: (t(3), 1), lambda: (t(3), 0))
def short_circuits(x, n):
    log = []
    a = n and _note(log, "and")
    b = n or _note(log, "or")
    c = n if n else None
    d = not n or n and 5
    return x + (a or 0) if isinstance(a, int) else x, a, b, c, d, log


@case(lambda: (t(2, 3, 4),))
def ellipsis_and_slices(x):
    return (
        x[..., 0],
        x[0, ..., 1:],
        x[:, None, ::2],
        x[-1, -1, -1],
        x[...],
        x[(0, 1)],
        x[[0, 1], [1, 2]],
        x[:, :, torch.tensor([0, 3])],
    )


@case(lambda: (t(4),))
def augmented_items(x):
    items = [1, 2]
    table = {"a": [0]}
    items[0] += 5
    items[-1] *= 3
    table["a"] += [1]
    table["a"][0] -= 2
    x = x + 0
    x[1] += 10
    x[2:] *= 2
    x[x > 5] = 0
    return x, items, table


@case(lambda: (t(3), 3), lambda: (t(3), 10))
def lambda_conditions(x, n):
    pick = (lambda: x + 1) if n < 5 else (lambda: x - 1)
    return pick(), (lambda *a, **k: (a, k))(1, b=2), (lambda: (yield))().__class__.__name__


@case(lambda: (t(3), (1, 2, 3)))
def swaps_and_rotations(x, p):
    a, b, c = p
    a, b = b, a
    a, b, c = c, a, b
    a, b, c, d = c, a, b, 0
    (a, (b, [c, d])) = d, (c, (b, a))
    return x * a + b, c, d


@case(lambda: (t(3),))
def deep_nesting(x):
    return ((((((((x + 1) * 2) - 3) / 4) + 5) * 6) - 7) / 8), [[[[[x]]]]], (lambda: (lambda: (lambda: x)())())()


@case(lambda: (t(1), list(range(12))))
def many_locals(x, ns):
    a, b, c, d, e, f, g, h, i, j, k, l = ns
    m, n, o, p, q, r, s, u, v, w, y, z = reversed(ns)
    return x + (a + b + c + d + e + f + g + h + i + j + k + l) * (m - n + o - p + q - r + s - u + v - w + y - z)


@case(lambda: (t(2),))
def large_display(x):
    return x + sum(
        [
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            9,
            10,
            11,
            12,
            13,
            14,
            15,
            16,
            17,
            18,
            19,
            20,
            21,
            22,
            23,
            24,
            25,
            26,
            27,
            28,
            29,
            30,
            31,
            32,
        ]
    )


@case(lambda: (t(2),))
def constants(x):
    return x, 1_000_000, 0xFF, 1e-3, 1j, b"b", "st", (1, 2), ..., NotImplemented, None, True, 10**30, -0.0, __debug__


@case(lambda: (t(2), 3))
def type_annotations_inside(x, n):
    y: int = n + 1
    z: "torch.Tensor" = x * y
    w: list[int]
    return z


@case(lambda: (t(2), 2), lambda: (t(2), 5))
def dead_code(x, n):
    if False:
        x = undefined_thing
    if 0:
        return None
    while False:
        pass
    return x * n
    x = x + 1


@case(lambda: (t(2),))
def comparisons_of_containers(x):
    return (
        x + 1,
        [1, 2] == [1, 2],
        (1, 2) < (1, 3),
        {1} < {1, 2},
        {"a": 1} != {"a": 2},
        [1] is [1],
        "a" in {"a": 1},
        None in [None],
    )


@case(lambda: (t(3), 5))
def conditional_chain(x, n):
    return x + (1 if n < 2 else 2 if n < 4 else 3 if n < 6 else 4)


@case(lambda: (t(2),))
def pass_and_expression_statements(x):
    pass
    ...
    "a string"
    x + 1
    (lambda: None)()
    return x * 2


@case(lambda: (t(3),))
def call_of_call_of_call(x):
    def a(n):
        def b(m):
            def c(k):
                return x * n + m - k

            return c

        return b

    return a(1)(2)(3), (a)(2)(3)(k=4)


@case(lambda: (t(3), [3, 1]), lambda: (t(3), []))
def unpacking_errors(x, ns):
    try:
        a, b, c = ns
    except ValueError as error:
        x = x + 1
        first = str(error)
    try:
        (d,) = [1, 2]
    except ValueError as error:
        second = str(error)
    e, *f = [1]
    return x, first, second, f


@case(lambda: (t(3), 3))
def unpacking_non_iterable(x, n):
    y = x + 1
    a, b = n
    return y
