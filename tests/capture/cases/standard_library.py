"""itertools, collections, operator, copy, heapq, bisect and others that programs use beside tensors."""

import bisect
import collections
import copy
import datetime
import decimal
import functools
import heapq
import itertools
import json
import math
import operator
import os
import pickle
import random
import re
import statistics
import types
import typing
import weakref

import torch

from tests.capture.case import case, t


@case(lambda: (t(3), [1, 2, 3]), lambda: (t(3), [4]))
def itertools_endings(x, ns):
    return (
        [x * n for n in itertools.chain(ns, [9])],
        list(itertools.chain.from_iterable([ns, ns])),
        list(itertools.accumulate(ns)),
        list(itertools.accumulate(ns, operator.mul, initial=2)),
        list(itertools.product(ns, "ab")),
        list(itertools.permutations(ns, 2)),
        list(itertools.combinations(ns, 2)),
        list(itertools.zip_longest(ns, "ab", fillvalue="-")),
        list(itertools.islice(itertools.cycle(ns), 5)),
        list(itertools.repeat(7, 2)),
        list(itertools.starmap(pow, [(2, n) for n in ns])),
        list(itertools.compress(ns, [1, 0, 1])),
        list(itertools.dropwhile(lambda n: n < 2, ns)),
        list(itertools.filterfalse(lambda n: n % 2, ns)),
        [(k, list(g)) for k, g in itertools.groupby(ns, key=lambda n: n > 1)],
        list(itertools.pairwise(ns)),
    )


@case(lambda: ([t(2), t(2, seed=1), t(2, seed=2)],))
def itertools_of_tensors(parts):
    a, b = itertools.tee(parts)
    next(b)
    return (
        [p * q for p, q in zip(a, b)],
        list(itertools.accumulate(parts)),
        [p - q for p, q in itertools.combinations(parts, 2)],
        list(itertools.islice(parts, 1, None)),
        functools.reduce(torch.maximum, parts),
    )


@case(lambda: (t(3),))
def counter_escapes(x):
    c = itertools.count(5, 2)
    y = x + next(c)
    return y + next(c), c


@case(lambda: (t(3), collections.deque([1, 2, 3], maxlen=3)))
def deque_argument(x, d):
    d.append(x + 1)
    d.appendleft(0)
    d.rotate(1)
    first = d.popleft()
    return d, first, len(d), d.maxlen, list(reversed(d)), x * 2


@case(lambda: (t(3),))
def deque_made(x):
    d = collections.deque([x])
    d.extend([x + 1, x + 2])
    d.extendleft([1, 2])
    while len(d) > 3:
        d.pop()
    return d, d[0], 1 in [1, 2]


@case(lambda: (t(3), ["a", "b", "a"]), lambda: (t(3), []))
def counters(x, words):
    c = collections.Counter(words)
    c.update("ab")
    c["zz"] += 2
    return x * c["a"], c, c.most_common(1), sum(c.values()), c["none"], +c, c - collections.Counter("a")


@case(lambda: (t(3),))
def default_dicts(x):
    d = collections.defaultdict(list)
    d["a"].append(x + 1)
    d["a"].append(x * 2)
    n = collections.defaultdict(int, k=3)
    n["k"] += 1
    n["new"] += 1
    deep = collections.defaultdict(lambda: collections.defaultdict(int))
    deep["p"]["q"] += 5
    return dict(d), n, d["missing"], "other" in d, deep["p"]


@case(lambda: (t(3), collections.defaultdict(list, a=[1])))
def default_dict_argument(x, d):
    d["b"].append(x * 2)
    d["a"] += [len(d)]
    return d["b"][0] + 1


@case(lambda: (collections.OrderedDict(a=t(2), b=t(2, seed=1)),), lambda: (collections.OrderedDict(b=t(3), a=t(3)),))
def ordered_dict(d):
    d.move_to_end("a")
    d["c"] = d["a"] - d["b"]
    last = d.popitem()
    first = d.popitem(last=False)
    return d, last, first, collections.OrderedDict(x=1) == {"x": 1}


@case(lambda: (t(3), {"a": 1}))
def chain_map(x, base):
    layers = collections.ChainMap({"b": 2}, base)
    layers["a"] = 10
    child = layers.new_child({"c": 3})
    return x * layers["a"] + child["b"], layers, dict(child), base["a"], len(child)


class Listy(collections.UserList):
    pass


class Dicty(collections.abc.MutableMapping):
    def __init__(self):
        self.d = {}

    def __getitem__(self, k):
        return self.d[k]

    def __setitem__(self, k, v):
        self.d[k] = v

    def __delitem__(self, k):
        del self.d[k]

    def __iter__(self):
        return iter(self.d)

    def __len__(self):
        return len(self.d)


@case(lambda: (t(3), Dicty()))
def abc_mapping(x, d):
    d["a"] = x + 1
    d.update(b=2, c=3)
    return d, d.get("zz", 5), d.pop("b"), "c" in d, list(d.items()), Listy([1, 2]) + [3], dict(**d)


@case(lambda: (t(2, 3), [5, 1, 4]), lambda: (t(2, 3), [2]))
def operator_module(x, ns):
    return (
        operator.add(x, 1),
        operator.mul(x, x),
        operator.getitem(x, (0, slice(0, 2))),
        operator.neg(x),
        operator.lt(3, 4),
        sorted(ns, key=operator.neg),
        operator.itemgetter(0)(ns),
        operator.attrgetter("shape", "dtype")(x),
        operator.methodcaller("sum", dim=1)(x),
        operator.contains(ns, 1),
        operator.matmul(x, x.t()),
        operator.index(True),
        operator.concat([1], [2]),
        operator.is_(x, x),
        operator.truth([]),
    )


@case(lambda: (t(3), [4, 2, 8]), lambda: (t(3), [1]))
def heap_and_bisect(x, ns):
    heap = list(ns)
    heapq.heapify(heap)
    heapq.heappush(heap, 3)
    smallest = heapq.heappop(heap)
    ordered = sorted(ns)
    bisect.insort(ordered, 5)
    return x * smallest, heap, bisect.bisect_left(ordered, 5), heapq.nlargest(2, ns), heapq.merge(ns, [1]) is not None


class Shared:
    def __init__(self, x):
        self.x = x
        self.items = [x, [1]]
        self.me = self


@case(lambda: (t(3), [1, [2, {"k": 3}]]), lambda: (t(3), [[]]))
def copies_of_containers(x, nested):
    shallow, deep = copy.copy(nested), copy.deepcopy(nested)
    shallow.append(x + 1)
    deep.append(nested)
    return shallow, deep, shallow[-2] is nested[-1], deep[0] is nested[0]


@case(lambda: (t(3),))
def deepcopy_of_object(x):
    s = Shared(x * 2)
    c = copy.deepcopy(s)
    c.items[1].append(5)
    return s, c, c.x is c.items[0], c.me is c, c.x + 1


@case(lambda: (t(3), Shared(t(3))))
def copies_of_argument(x, s):
    c = copy.copy(s)
    c.extra = x + s.x
    return c, c.items is s.items, c.me is s


@case(lambda: (t(3), [3, 1, 2]), lambda: (t(3), [10, 20, 30]))
def math_and_statistics(x, ns):
    return (
        x * math.fsum(ns),
        statistics.mean(ns),
        statistics.median(ns),
        math.dist([0, 0], [3, 4]),
        math.exp(0),
        math.tau,
    )


@case(lambda: (t(3), "layer.12.weight"), lambda: (t(3), "none"))
def regular_expressions(x, name):
    m = re.match(r"layer\.(\d+)\.(?P<rest>\w+)", name)
    if m is None:
        return x, re.sub("n", "m", name)
    return x * int(m[1]), m.group("rest"), re.findall(r"\d", name), re.split(r"\.", name), m.span()


@case(lambda: (t(3), {"a": [1, 2.5, None, True], "b": "é"}))
def json_round_trip(x, data):
    text = json.dumps(data, sort_keys=True)
    back = json.loads(text)
    return x * back["a"][0], text, back == data, json.dumps([1], indent=1)


@case(lambda: (t(3), {"a": [1, (2, 3)]}))
def pickle_round_trip(x, data):
    back = pickle.loads(pickle.dumps((data, x)))
    return back[0], back[1] + 1, back[1] is x


@case(lambda: (t(3),))
def random_numbers(x):
    n = random.randint(1, 9)
    items = [1, 2, 3, 4]
    random.shuffle(items)
    r = random.Random(3)
    return x * n + random.random(), items, r.choice("abc"), random.sample(range(10), 2)


@case(lambda: (t(3), "1.10"), lambda: (t(3), "2.5"))
def decimals_and_dates(x, text):
    d = decimal.Decimal(text) + 1
    day = datetime.date(2024, 2, 28) + datetime.timedelta(days=int(d))
    return x * float(d), d, day.isoformat(), day.weekday()


class Node:
    def __init__(self, value):
        self.value = value


@case(lambda: (t(3), Node(2)))
def weak_references(x, node):
    alive = weakref.ref(node)
    inner = Node(x)
    dead = weakref.ref(inner)
    del inner
    cache = weakref.WeakValueDictionary(n=node)
    return x * alive().value, dead() is None, alive, cache["n"] is node


@case(lambda: (t(3),))
def weakref_callback(x):
    log = []
    node = Node(x + 1)
    ref = weakref.ref(node, lambda r: log.append("gone"))
    y = node.value * 2
    del node
    return y, log, ref() is None


@case(lambda: (t(3), types.MappingProxyType({"a": 2})))
def types_module(x, proxy):
    try:
        proxy["b"] = 1
    except TypeError as error:
        message = str(error)
    bound = types.MethodType(lambda self, y: y * self["a"], proxy)
    return bound(x), message, dict(proxy), types.SimpleNamespace(q=1)


@case(lambda: (t(3), 3), lambda: (t(3), None))
def typing_module(x, n):
    kind = typing.Optional[int]
    assert typing.get_args(kind) == (int, type(None))
    return x * typing.cast(int, n or 1), typing.get_origin(list[int]) is list, isinstance(n, typing.get_args(kind))


@case(lambda: (t(3),))
def environment(x):
    os.environ["VESTA_CASE"] = "3"
    y = x * int(os.environ["VESTA_CASE"])
    del os.environ["VESTA_CASE"]
    return y, os.environ.get("VESTA_CASE"), os.path.join("a", "b"), os.path.splitext("f.txt")


class Cached:
    def __init__(self):
        self.made = 0

    @functools.cached_property
    def table(self):
        self.made += 1
        return torch.arange(3).float()

    @functools.lru_cache(maxsize=None)
    def power(self, n):
        self.made += 10
        return 2**n

    @functools.partialmethod
    def unused(self):
        return None

    def scaled(self, x, k):
        return x * k

    doubled = functools.partialmethod(scaled, k=2)


@case(lambda: (t(3), Cached()))
def functools_in_classes(x, c):
    return x * c.table + c.power(3) + c.power(3), c.made, c.table is c.table, c.doubled(x), "table" in vars(c)


@functools.total_ordering
class Version:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts


@case(lambda: (t(3), Version(1, 2)), lambda: (t(3), Version(3)))
def total_ordering(x, v):
    return (
        (x + 1 if v >= Version(2, 0) else x - 1),
        v <= Version(1, 2),
        v > Version(1),
        functools.cmp_to_key(lambda a, b: b - a)(3) is not None,
    )


@case(lambda: (t(3), [3, 1, 2]))
def cmp_to_key(x, ns):
    return x * sorted(ns, key=functools.cmp_to_key(lambda a, b: b - a))[0]
