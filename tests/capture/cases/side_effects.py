"""Changes to objects that existed before the call, and in which order they happen."""

import collections

import torch

from tests.capture.case import case, maker, t

SETTINGS = {"scale": 2, "history": []}
STACK = [1]


class Holder:
    shared = []
    count = 0

    def __init__(self, value=None):
        self.value = value
        self.items = []

    def push(self, x):
        self.items.append(x)
        self.value = x
        return self

    def __eq__(self, other):
        return self is other

    __hash__ = None


@case(lambda: (t(3), []), lambda: (t(3), [1, 2]))
def list_append(x, out):
    out.append(x + 1)
    out.append(len(out))
    return x * 2


@case(lambda: (t(3), [5, 6, 7]))
def list_changes(x, items):
    items.insert(0, x + 1)
    items.extend([1, 2])
    popped = items.pop()
    items[1] = x * 2
    del items[2]
    items.reverse()
    items += ["end"]
    items *= 2
    items[1:3] = []
    return popped, len(items)


@case(lambda: (t(3), [3, 1, 2]))
def list_sort_and_clear(x, items):
    items.sort()
    first = items[0]
    copy = items.copy()
    items.clear()
    items.append(first)
    return x * first, copy


@case(lambda: (t(3), {"a": 1, "b": 2}), lambda: (t(3), {"b": 2, "c": 3}))
def dict_changes(x, d):
    d["new"] = x + 1
    d.update({"b": x * 2}, z=5)
    d.setdefault("a", 100)
    removed = d.pop("b")
    d |= {"q": 1}
    del d["z"]
    d["a"], d["new"] = d["new"], d["a"]
    return removed, list(d)


@case(lambda: (t(3), {"a": 1, "b": 2}))
def dict_clear_and_refill(x, d):
    items = list(d.items())
    d.clear()
    for k, v in reversed(items):
        d[k] = x * v
    last = d.popitem()
    return last


@case(lambda: (t(3), {1, 2, 3}))
def set_changes(x, s):
    s.add(10)
    s.discard(1)
    s.remove(2)
    s |= {7, 8}
    s -= {7}
    s.update([20])
    s &= {3, 8, 10, 20}
    s ^= {3, 99}
    return x + len(s)


@case(lambda: (t(3), Holder()))
def attribute_changes(x, h):
    h.value = x + 1
    h.other = h.value * 2
    del h.items
    h.count += 1
    return h.other - 1


@case(lambda: (t(3), Holder()))
def method_changes(x, h):
    return h.push(x).push(x + 1).value * 2, h.items[0] is x


@case(lambda: (t(3),))
def class_attribute_changes(x):
    Holder.shared.append(x.shape[0])
    Holder.count += 1
    Holder.fresh = x * 2
    return x + Holder.count


@case(lambda: (t(3),))
def global_containers(x):
    SETTINGS["scale"] *= 2
    SETTINGS["history"].append(x * SETTINGS["scale"])
    STACK.append(len(STACK))
    return SETTINGS["history"][-1] + STACK[-1]


@case(lambda: (t(3), {"a": {"b": [{"c": 1}]}}))
def deep_change(x, d):
    d["a"]["b"][0]["c"] += 1
    d["a"]["b"].append(d["a"])
    return x * d["a"]["b"][0]["c"]


@case(lambda: (t(3), []))
def same_tensor_twice(x, out):
    y = x + 1
    out.append(y)
    out.append(y)
    out.append([y])
    return y


@case(lambda: (t(3), [], {}))
def one_new_object_in_two_places(x, out, table):
    fresh = {"value": x * 2}
    out.append(fresh)
    table["k"] = fresh
    fresh["late"] = x + 1
    return fresh["value"] + 1


@case(lambda: (t(3), []))
def new_object_in_cycle_escapes(x, out):
    h = Holder(x + 1)
    h.items.append(h)
    h.owner = out
    out.append(h)
    return h.value


@case(lambda: (t(3), [], []), drive=lambda f, x, a, b: (f(x, a, a), f(x, a, b)))
def arguments_may_be_the_same(x, a, b):
    a.append(1)
    b.append(2)
    return x + len(a)


@case(lambda: (t(3), []), lambda: (t(3), [0]))
def order_with_print(x, log):
    log.append("first")
    print("log", log)
    log.append("second")
    y = x * len(log)
    print("log", log)
    return y


@case(lambda: (t(3), []))
def effects_around_a_break(x, log):
    log.append(x + 1)
    n = int((x + 1).sum().item())
    log.append(n)
    log[0] = log[0] * 2
    return log[0] + n


@case(lambda: (t(3), collections.deque([1, 2])))
def deque_changes(x, d):
    d.append(x)
    d.appendleft(x + 1)
    d.pop()
    d.extend("ab")
    d.rotate(-1)
    d[0] = "zero"
    d.remove("a")
    return x * len(d)


@case(lambda: (t(3), collections.OrderedDict(a=1, b=2)))
def ordered_dict_changes(x, d):
    d.move_to_end("a")
    d["c"] = x * 2
    d.popitem(last=False)
    return list(d)


@case(lambda: (t(3), collections.Counter("aab")))
def counter_changes(x, c):
    c["a"] += 1
    c.subtract("b")
    c.update(z=4)
    return x * c["a"]


@maker(lambda: (t(3),))
def closure_containers():
    cache = {}
    calls = []

    def f(x):
        key = tuple(x.shape)
        calls.append(key)
        if key not in cache:
            cache[key] = torch.arange(x.shape[0]).float()
        return x + cache[key] * len(calls)

    return f


@case(lambda: (t(3), Holder()))
def conditional_change(x, h):
    if h.value is None:
        h.value = 0
    h.value += 1
    return x * h.value


@case(lambda: (t(3), [1, 2, 3]))
def change_and_restore(x, items):
    items.append(4)
    y = x * sum(items)
    items.pop()
    return y


@case(lambda: (t(3), {"a": 1}))
def replaced_by_equal(x, d):
    d["a"] = 1
    d["b"] = [1]
    return x + d["a"]


@case(lambda: (t(3), [t(3, seed=1), t(3, seed=2)]))
def element_replaced(x, parts):
    parts[0], parts[1] = parts[1], parts[0] + x
    return parts[0] * 2


@case(lambda: (t(3), [t(3, seed=1)]))
def element_changed_in_place(x, parts):
    parts[0].add_(x)
    parts[0] *= 2
    return parts[0] - 1


@case(lambda: (t(3), [1, 2]))
def slice_assignment_from_tensors(x, items):
    items[:] = [x + 1, x + 2, x + 3]
    return items[1] * 2


@case(lambda: (t(3), [3, 2, 1]))
def sort_with_effects_in_key(x, items):
    seen = []
    items.sort(key=lambda n: seen.append(n) or n)
    return x + seen[0], seen


@case(lambda: (t(3), {}), lambda: (t(3), {"x": 1}))
def attribute_dictionary(x, d):
    h = Holder()
    h.__dict__ = d
    h.y = x + 1
    return h.y * 2


@case(lambda: (t(3),))
def tensor_attributes(x):
    x.tag = "seen"
    y = x + 1
    y.tag = x.tag + "!"
    y.owner = x
    return y


@case(lambda: (t(3), Holder()))
def effects_in_callees_in_order(x, h):
    def note(word):
        h.items.append(word)
        return len(h.items)

    return [x * note("a"), x * note("b"), x + note("c") * note("d")]


@case(lambda: (t(3), bytearray(b"abc")))
def bytearray_changes(x, b):
    b[0] = 122
    b.extend(b"!")
    return x + len(b)


@case(lambda: (t(3), []), drive=lambda f, x, log: [f(x, log), log.clear(), f(x, log), log.append("between"), f(x, log)])
def changed_between_calls(x, log):
    log.append(len(log))
    return x + len(log)


@case(lambda: (t(3), [1, 2, 3]))
def iterating_and_removing(x, items):
    for n in items[:]:
        if n % 2:
            items.remove(n)
            x = x + n
    return x


class Recorder:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append((name, len(self.log)))
        object.__setattr__(self, name, value)


@case(lambda: (t(3), Recorder()))
def setattr_hook_runs_once(x, r):
    r.a = x + 1
    r.b = r.a * 2
    r.a = 3
    return r.b, r.log
