"""Containers and iterators that hold themselves, count what is done to their keys, or look at where objects are."""

import collections
import copy
import functools
import re

from tests.capture.case import case, maker, t


class Counted:
    """A key that counts how often it is asked for its hash and for equality."""

    def __init__(self, n):
        self.n = n
        self.hashes = 0
        self.comparisons = 0

    def __hash__(self):
        self.hashes += 1
        return self.n

    def __eq__(self, other):
        self.comparisons += 1
        return isinstance(other, Counted) and self.n == other.n


class Numbered(enumerate):
    pass


class Node:
    pass


class Plain:
    pass


class Closing:
    """Empties a container when it is compared."""

    def __init__(self, container):
        self.container = container

    def __eq__(self, other):
        self.container.clear()
        return False


@case(lambda: (t(3),))
def keys_made_and_counted(x):
    keys = [Counted(i) for i in range(4)]
    table = dict.fromkeys(keys)
    print("break")
    members = set(keys)
    print("break")
    members |= {keys[0]}
    table[keys[1]] = x
    return x * 2, [(k.hashes, k.comparisons) for k in keys], len(table), len(members)


@case(lambda: (t(3), {Counted(1): 1}, Counted(1), Counted(2)))
def key_of_the_program_written(x, d, same, other):
    d[same] = 2
    d[other] = 3
    y = x * d[same]
    return y, len(d), [(k.hashes, k.comparisons) for k in (*d, same, other)]


@case(lambda: (t(3),))
def equal_by_a_global(x):
    global BAD

    class Bad:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            if BAD:
                raise ZeroDivisionError
            return self is other

    BAD = False
    a, b = {Bad()}, {Bad(): x}
    BAD = True
    try:
        return a == set(b)
    except ZeroDivisionError:
        return x + 1


@case(lambda: (t(3),))
def set_of_what_holds_it(x):
    node = Node()
    node.all = {node}
    print("break")
    return x * 2, next(iter(node.all)).all is node.all


@case(lambda: (t(3),))
def tuple_that_holds_itself(x):
    items = []
    whole = (items,)
    items.append(whole)
    print("break")
    clone = copy.deepcopy(whole)
    return x * 2, whole[0][0] is whole, clone[0][0] is clone


@case(lambda: (t(3),))
def deque_that_is_emptied(x):
    d = collections.deque([1, 2, 3])
    d[1] = Closing(d)
    print("break")
    try:
        return 9 in d
    except RuntimeError as e:
        return x * 2, str(e)


@case(lambda: (t(3), {"a": 1, "b": 2, "c": 3}), lambda: (t(3), {"c": 1, "b": 2}))
def dict_that_changes_under_its_iterator(x, d):
    pairs, keys = iter(d.items()), iter(d)
    first = next(pairs)
    print("break")
    try:
        rest = [next(pairs), next(keys)]
        d["new"] = 1
        return x, first, rest, next(pairs)
    except RuntimeError as e:
        return x * 2, first, rest, type(keys).__name__, str(e)


@case(lambda: (t(3),))
def iterators_of_new_containers(x):
    queue, order, members = collections.deque("abc"), collections.OrderedDict(a=1, b=2), {1, 2, 3}
    iterators = [iter(queue), iter(order), iter(members), iter({"a": x, "b": x})]
    for i in iterators:
        next(i)
    print("break")
    queue.pop()
    del order["b"]
    members.add(4)
    out = []
    for i in iterators:
        try:
            out.append(next(i))
        except RuntimeError as e:
            out.append(str(e))
    return out, [type(i).__name__ for i in iterators]


@case(lambda: (t(3),))
def subclass_of_a_c_iterator(x):
    numbered = Numbered("abc")
    print("break")
    first = list(numbered)
    print("break")
    return x * 2, first, list(numbered)


@case(lambda: (t(3), Numbered("abcde")))
def subclass_of_a_c_iterator_given(x, numbered):
    a, b = next(numbered)
    return x * a, b, list(zip("x", numbered))


@case(lambda: (t(3), "a1"), lambda: (t(3), "b2"))
def match_is_kept(x, text):
    found = re.match(r"(\w)(\d)", text)
    print("break")
    return x * int(found[2]), found[1]


@case(lambda: (t(3),))
def order_and_the_dict_below_it(x):
    order = collections.OrderedDict(a=1, b=2)
    dict.popitem(order)
    try:
        return x, repr(order)
    except KeyError as e:
        return x * 2, str(e)


@case(lambda: (t(3), Plain()), lambda: (t(3), Plain()), lambda: (t(3), Plain()))
def text_of_where_it_is(x, o):
    new = Plain()
    text = f"{o}"
    print("break")
    return x * 2, text == repr(o), str([new]) == f"[{object.__repr__(new)}]", hash(o) == hash(o), text[:8]


@case(lambda: (t(3),))
def hash_of_where_it_is(x):
    new = Plain()
    before = hash((new, 1))
    print("break")
    return x * 2, before == hash((new, 1))


@case(lambda: (t(3),))
def constant_tuples_by_turns(x):
    def shown(way, values):
        print("break")
        return way, values

    out = []
    for way, values in ((1, (3, 5)), (2, (3, 5)), (1, (3, 3))):
        print("break")
        out.append((shown(way, values), values))
    return x * 2, out


@case(lambda: (t(3), "a"), *[lambda text=text: (t(3), text) for text in "bcdefbz"])
def text_that_changes_in_a_tuple(x, text):
    print("break", text)
    return x * 2, text in ("a", "c", "z"), ["b", "d"].count(text), (1, text) == (1, "z")


@case(lambda: (t(3),))
def subclasses_that_hold_themselves(x):
    class Items(list):
        pass

    class Table(dict):
        pass

    items, table = Items(), Table()
    items.append(items)
    table["me"] = table
    print("break")
    return x * 2, items[0] is items, table["me"] is table, type(table["me"]) is Table


@case(lambda: (t(3),))
def order_with_an_attribute(x):
    order = collections.OrderedDict(a=1)
    order.note = "kept"
    print("break")
    return x * order["a"], order.note, order


@case(lambda: (t(3), {}), lambda: (t(3), {"a": 1}))
def dict_gets_a_key_of_the_program(x, d):
    d["n"] = 1
    key = Counted(3)
    d.update({key: 2})
    y = x * d["n"]
    return y, len(d), key.hashes


class Described:
    kind = property(lambda self: 1)
    shared = Plain()


@case(lambda: (t(3),))
def objects_of_a_class_dict(x):
    by_item = Described.__dict__["kind"]
    by_items = {name: value for name, value in vars(Described).items() if name == "shared"}
    print("break")
    return x * 2, by_item is Described.__dict__["kind"], by_items["shared"] is Described.shared


@case(lambda: (t(3), [(i * 7 % 31, i) for i in range(60)]))
def sifted_by_hand(x, data):
    heap = list(data)
    for end in range(len(heap) - 1, 0, -1):
        for i in range(end):
            if heap[i] > heap[i + 1]:
                heap[i], heap[i + 1] = heap[i + 1], heap[i]
    data[0] = heap[0]
    return x * heap[1][1], heap, data


@maker(lambda: (t(3), 4), lambda: (t(3), 5))
def kept_results_in_python():
    kept = {}

    def f(x, n):
        def number(*, n):
            key = functools._make_key((), {"n": n}, False)
            if key not in kept:
                kept[key] = n if n < 2 else number(n=n - 1) + number(n=n - 2)
            return kept[key]

        found = [number(n=i) for i in range(n)]
        print("break")
        return x * found[-1], len(kept), [hash(k) == hash(tuple(k)) for k in kept]

    return f


class Settings(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


@case(lambda: (t(3), Settings(a=1, b=2)), lambda: (t(3), Settings(a=4, b=2, q=5)))
def attributes_that_are_items(x, c):
    c.z = x * c.a
    del c.b
    c.n = c.get("n", 0) + 1
    made = Settings(k=x)
    made.m = x + c.n
    return c.z + 1, c.q, c, made, made.nothing


class Appending(list):
    __lshift__ = list.append


@case(lambda: (t(3), Appending([1])))
def operator_that_is_append(x, items):
    items << x * 2
    return len(items), items[-1] + 1


@case(
    lambda: (t(3), collections.defaultdict(list, a=[1])),
    lambda: (t(3), collections.defaultdict(list, z=[1])),
    lambda: (t(3), collections.defaultdict(lambda: [5, 6])),
    lambda: (t(3), collections.defaultdict(None, a=[1])),
)
def items_made_by_a_factory(x, d):
    try:
        d["z"].append(x * 2)
    except KeyError as e:
        return x, str(e), d
    d["a"].append(2)
    return x + len(d), d, d["z"][-1] + 1


@case(lambda: (t(3), collections.defaultdict(int)), lambda: (t(4), collections.defaultdict(int, n=5)))
def counted_in_a_defaultdict(x, d):
    d["n"] += 1
    d[x.shape[0]] += 2
    return x * d["n"], d, list(d)
