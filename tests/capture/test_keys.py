"""Keys that a program looks up or compares by hash and equality: another key of the same kind is another key."""

from __future__ import annotations

import collections
import datetime
import enum
import fractions
import functools
import operator
import pathlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

import vesta

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")


class Plain:
    def method(self) -> None: ...


class Member(enum.Enum):
    A = 1
    B = 2
    C = 3


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Frozen:
    n: int


def closure(n: int) -> Callable[[], int]:
    return lambda: n


A, B, C = Plain(), Plain(), Plain()
F, G, H = closure(1), closure(2), closure(3)

# Three of a kind; the third is in no table.
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "strings": ("a", "b", "c"),
    "floats": (1.5, 2.5, 9.5),
    "bytes": (b"a", b"b", b"c"),
    "objects": (A, B, C),
    "functions": (F, G, H),
    "methods": (A.method, B.method, C.method),
    "classes": (int, str, list),
    "modules": (re, enum, torch),
    "members": (Member.A, Member.B, Member.C),
    "dataclasses": (Frozen(1), Frozen(2), Frozen(3)),
    "dates": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2022, 1, 1)),
    "fractions": (fractions.Fraction(1, 2), fractions.Fraction(1, 3), fractions.Fraction(1, 9)),
    "paths": (pathlib.PurePath("a"), pathlib.PurePath("b"), pathlib.PurePath("c")),
    "ranges": (range(3), range(4), range(9)),
    "dtypes": (torch.float32, torch.int64, torch.float64),
    "devices": (torch.device("cpu"), torch.device("meta"), torch.device("cuda")),
    "sizes": (torch.Size([1, 2]), torch.Size([3, 4]), torch.Size([7])),
    "frozen sets": (frozenset({1, 2}), frozenset({3}), frozenset({9})),
    "tuples": (("he", 1), ("sy", 1), ("zz", 1)),
    "no items": ((), (1,), (2,)),
    "nested tuples": (((1, "a"), 2), ((1, "b"), 2), ((5,), 5)),
    "named tuples": (Pair(1, "x"), Pair(2, "y"), Pair(5, 5)),
    "tuples of objects": ((A, 1), (B, 1), (C, 1)),
    "tuples of classes": ((int, 1), (str, 1), (list, 1)),
    "tuples of functions": ((F,), (G,), (H,)),
    "tuples of dtypes": (("k", torch.float32), ("k", torch.int64), ("z", torch.int8)),
}


def anew(key: Any) -> Any:
    """An equal key, where that may be another object."""
    if type(key) is Pair:
        return Pair(*key)
    if type(key) is Frozen:
        return Frozen(key.n)
    return type(key)([*key]) if type(key) in (tuple, frozenset, torch.Size) else key


def operations(first: Any, second: Any) -> dict[str, Callable[[Any], Any]]:
    table = {first: 0, second: 1}
    members, frozen, listed, tupled = set(table), frozenset(table), [*table], (*table,)
    ordered, counter = collections.OrderedDict(table), collections.Counter(table)
    made = collections.defaultdict(int)

    @functools.lru_cache
    def cached(key):
        return [key == known for known in listed]

    def stored(key):
        new = {}
        new[key] = 1
        new[first] = 2
        return len(new)

    def deleted(key):
        new = dict(table)
        del new[key]
        return len(new)

    def added(key):
        new = set()
        new.add(key)
        new.add(first)
        return len(new)

    def updated(key):
        new = {first: 1}
        new.update({key: 2})
        return len(new)

    def starred(key):
        keys = [key, first]
        return len({*keys})

    return {
        "get": lambda key: table.get(key),
        "get or": lambda key: table.get(key, 7),
        "item": lambda key: table[key],
        "in dict": lambda key: key in table,
        "in set": lambda key: key in members,
        "in frozenset": lambda key: key in frozen,
        "in list": lambda key: key in listed,
        "in tuple": lambda key: key in tupled,
        "ordered": lambda key: ordered[key],
        "ordered get": lambda key: ordered.get(key),
        "counter": lambda key: counter[key],
        "made": lambda key: made[key],
        "made here": lambda key: {first: 1, second: 2}.get(key),
        "nested": lambda key: {(first, 0): 1}.get((key, 0)),
        "a set": lambda key: len({key, first}),
        "a dict": lambda key: {key: 1} == {first: 1},
        "sets": lambda key: len({k for k in (key, first)}),
        "dicts": lambda key: len({k: 1 for k in (key, first)}),
        "set of": lambda key: len(set([key, first])),
        "dict of": lambda key: len(dict([(key, 1), (first, 2)])),
        "from keys": lambda key: len(dict.fromkeys([key, first])),
        "starred": starred,
        "union": lambda key: len(members | {key}),
        "difference": lambda key: len(members - {key}),
        "equal": lambda key: key == first,
        "unequal": lambda key: key != second,
        "equal in tuples": lambda key: (key, 1) == (first, 1),
        "index": lambda key: listed.index(key),
        "count": lambda key: tupled.count(key),
        "pop": lambda key: dict(table).pop(key, None),
        "set default": lambda key: dict(table).setdefault(key, 9),
        "item getter": lambda key: operator.itemgetter(key)(table),
        "contains": lambda key: operator.contains(table, key),
        "cached": cached,
        "stored": stored,
        "deleted": deleted,
        "added": added,
        "updated": updated,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_another_key(kind: str) -> None:
    first, second, third = KINDS[kind]
    place = Plain()
    wrong = []
    for name, operation in operations(first, second).items():
        for from_place in (False, True):

            def function(x, key, operation=operation, from_place=from_place):
                return operation(place.key if from_place else key), x + 1

            def results(call: Callable[..., Any]) -> list[Any]:
                found = []
                for key in (first, second, first, third, second):
                    place.key = anew(key)
                    try:
                        found.append(call(torch.ones(2), anew(key))[0])
                    except (KeyError, ValueError) as error:
                        found.append(type(error))
                return found

            plain, compiled = results(function), results(vesta.compile(function))
            if plain != compiled:
                wrong.append((name, from_place, plain, compiled))
    assert not wrong
