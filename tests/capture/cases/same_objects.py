"""Places that are written with the very object they held when the function was compiled, and hold another later."""

import torch

from tests.capture.case import case, maker, t

COUNT = {"n": 2}
TOTAL = 2


class Holder:
    __slots__ = ("slot", "__dict__")

    def __init__(self, value):
        self.slot = value
        self.value = value
        self.other = value


@case(lambda: (t(3), 2, [2]), lambda: (t(3), 5, [2]), lambda: (t(3), 7, [3]))
def local_assigned_after_a_break(x, n, items):
    print("a")
    for n in items:
        pass
    print("b")
    return x * n, n


@case(lambda: (t(3), t(3, seed=1)), lambda: (t(3), t(3, seed=2)))
def local_holds_the_same_tensor(x, y):
    items = [y]
    for p in (0, 1):
        print(p)
        y = items[0]
        items = [y + 1]
    return x + y


@case(lambda: (t(3), 1), lambda: (t(3), 0), lambda: (t(3), 1))
def variable_deleted_in_a_loop(x, n):
    a = x
    try:
        for _ in range(2 - n):
            print("go")
            del a
    except UnboundLocalError as e:
        return str(e)
    return a + 1


@case(lambda: (t(3), False), lambda: (t(3), True), lambda: (t(3), False))
def variable_unbound_at_first(x, bind):
    if bind:
        a = x * 2
    print("break")
    try:
        return a + 1
    except NameError:
        return x - 1


@case(lambda: (t(3), Holder(2)), lambda: (t(3), Holder(5)))
def attributes_get_what_they_have(x, o):
    o.value = 2
    o.slot = 2
    return x * 2, o


@case(lambda: (t(3), {"n": 2}), lambda: (t(3), {"n": 7}), lambda: (t(3), {"m": 1, "n": 4}), lambda: (t(3), {}))
def item_gets_what_it_has(x, d):
    d["n"] = 2
    return x * 2, list(d.items())


@case(lambda: (t(3), {}), lambda: (t(3), {"a": 1}), lambda: (t(3), {"a": 2, "b": 3}))
def empty_dict_cleared(x, d):
    d.clear()
    return x * 2


@case(lambda: (t(3), {"a": 1}), lambda: (t(3), {"a": 3}), lambda: (t(3), {}), lambda: (t(3), {"b": 2, "a": 1}))
def dict_methods_by_key(x, d):
    first = d.setdefault("a", 1)
    d.update(b=2)
    d.update({"c": 3, "a": first})
    return x * d.pop("c"), d.pop("missing", None), list(d.items())


@case(lambda: (t(3), {"a": 1}), lambda: (t(3), {"a": 2, "b": 2}), lambda: (t(3), {"b": 3, "a": 1}), lambda: (t(3), {}))
def key_taken_out_and_put_back(x, d):
    value = d.pop("a", 1)
    d["a"] = value
    return x * value, list(d.items())


@case(lambda: (t(3), {}), lambda: (t(3), {"t": 5}), lambda: (t(3), {"t": 6, "u": 1}))
def key_put_in_and_taken_out(x, d):
    d["t"] = 1
    del d["t"]
    return x * 2, list(d.items())


@case(lambda: (t(3), {"t": 1}), lambda: (t(3), {}), lambda: (t(3), {"t": 2}))
def key_deleted(x, d):
    try:
        del d["t"]
    except KeyError as e:
        return str(e)
    return x * 2


@case(lambda: (t(3), Holder(1)), lambda: (t(3), Holder(2)))
def attribute_deleted(x, o):
    del o.other
    o.other = 1
    return x * 2, list(o.__dict__.items())


@case(lambda: (t(3), 2), lambda: (t(3), 6), lambda: (t(3), 2))
def global_gets_what_it_has(x, n):
    global TOTAL
    old = n * 0
    TOTAL = 2
    COUNT["n"] = 2
    seen = (TOTAL, COUNT["n"])
    print("break")
    TOTAL = n
    COUNT["n"] = n
    return x * 2, seen, old


@maker(lambda: (t(3), 2), lambda: (t(3), 3), lambda: (t(3), 2))
def cell_gets_what_it_has():
    count = 2

    def f(x, n):
        nonlocal count
        count = 2
        y = x * count
        print("break")
        count = n
        return y

    def g(x, n):
        return f(x, n), count

    return g


@case(lambda: (t(3), [1, 2]), lambda: (t(3), [3, 2]), lambda: (t(3), [1, 2, 3]))
def list_gets_what_it_has(x, items):
    items[0] = 1
    items[1:] = [2]
    return torch.relu(x), items


@case(lambda: (t(3), {1, 2}), lambda: (t(3), {3}), lambda: (t(3), set()))
def set_gets_what_it_has(x, s):
    s.add(1)
    s.discard(2)
    s.add(2)
    return torch.relu(x), sorted(s)


@case(lambda: (t(3), 1))
def method_of_a_tensor_misused(x, n):
    return x.flip(0).abs(n)
