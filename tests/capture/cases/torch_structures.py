"""Containers in and out: pytrees, model outputs, named tuples, dataclasses."""

from __future__ import annotations

import collections
import dataclasses
import typing
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from tests.capture.case import case, maker, t


class ModelOutput(OrderedDict):
    """In the manner of transformers: a dataclass that is a dict of its fields that are not None."""

    def __init_subclass__(cls):
        pytree.register_pytree_node(
            cls,
            lambda out: (list(out.values()), list(out.keys())),
            lambda values, keys: cls(**dict(zip(keys, values, strict=True))),
        )

    def __post_init__(self):
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                self[each.name] = value

    def __delitem__(self, *args, **kwargs):
        raise TypeError(f"You cannot use ``__delitem__`` on a {self.__class__.__name__} instance.")

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@dataclass
class Output(ModelOutput):
    logits: torch.Tensor | None = None
    loss: torch.Tensor | None = None
    hidden: tuple[torch.Tensor, ...] | None = None


@case(lambda: (t(2, 3), True), lambda: (t(2, 3), False))
def model_output(x, with_loss):
    out = Output(logits=x * 2, loss=x.sum() if with_loss else None)
    out.hidden = (x, x + 1)
    return out, out[0], out["logits"], list(out), out.to_tuple(), out.loss is None, "loss" in out


@case(lambda: (Output(logits=t(3)),))
def model_output_as_argument(out):
    out["loss"] = out.logits.sum()
    out.logits = out.logits * 2
    return out, len(out), isinstance(out, dict)


class Named(NamedTuple):
    a: torch.Tensor
    b: int = 2

    @property
    def twice(self):
        return self.a * self.b


Pair = namedtuple("Pair", ["left", "right"], defaults=[None])


@case(lambda: (Named(t(3)), Pair(t(3), [1])), lambda: (Named(t(3), 5), Pair(t(2))))
def named_tuples(n, p):
    made = Named(n.a + 1, b=n.b * 2)
    left, right = p
    return (
        made,
        made.twice,
        n._replace(b=7),
        p._asdict(),
        Pair(*reversed(p)),
        Pair._make([left, right]),
        n[0],
        made == made,
    )


@dataclass
class Config:
    hidden: int = 3
    scale: float = 0.5
    names: list[str] = field(default_factory=lambda: ["a"])
    weight: torch.Tensor | None = None

    def __post_init__(self):
        self.half = self.hidden / 2

    @property
    def doubled(self):
        return self.hidden * 2


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Key:
    layer: int
    name: str = "w"


@case(lambda: (t(3), Config()), lambda: (t(3), Config(scale=2.0, names=[])))
def dataclasses_in_and_out(x, config):
    made = Config(hidden=config.doubled, weight=x * config.scale)
    copied = dataclasses.replace(config, names=[*config.names, "b"])
    config.names.append("seen")
    table = {Key(layer=i): x * i for i in range(2)}
    return (
        made,
        copied,
        dataclasses.astuple(Pair and Key(layer=1)),
        table[Key(layer=1)],
        Key(layer=1) < Key(layer=2),
        config,
    )


@case(lambda: (t(3),))
def dataclass_made_inside(x):
    @dataclass
    class Local:
        value: Any
        rest: list = field(default_factory=list)

        def add(self, other):
            self.rest.append(other)
            return self

    made = Local(x * 2).add(x).add(1)
    return made.value, made.rest, dataclasses.asdict(Config(weight=None)), [f.name for f in fields(made)]


@case(lambda: ({"b": t(3), "a": [t(2), (t(1), 3)]},), lambda: ({"a": t(1)},))
def pytrees(tree):
    leaves, spec = pytree.tree_flatten(tree)
    doubled = pytree.tree_map(lambda leaf: leaf * 2, tree)
    tensors = pytree.tree_map_only(torch.Tensor, lambda leaf: leaf.sum(), tree)
    back = pytree.tree_unflatten([leaf + 1 for leaf in leaves], spec)
    return doubled, tensors, back, len(leaves), pytree.tree_leaves(back), pytree.tree_all(lambda leaf: True, tree)


@case(lambda: (t(3),))
def containers_kept_apart(x):
    a = [x]
    b = a
    c = list(a)
    d = {"a": a, "b": b, "c": c}
    b.append(x * 2)
    return d, a is d["b"], c, (a, a)


@case(lambda: (t(3),))
def cyclic(x):
    a: list = [x * 2]
    a.append(a)
    node = {"x": x, "list": a}
    node["self"] = node
    return node


@case(lambda: ({"x": t(3), "n": 2},), lambda: ({"x": t(3), "n": 3, "more": t(1)},))
def dict_ways(d):
    d = dict(d)
    d.update(y=d["x"] * d["n"])
    d.setdefault("z", []).append(1)
    popped = d.pop("n")
    merged = {**d, "k": 1} | {"z": 0}
    return (
        d,
        popped,
        merged,
        sorted(d),
        list(d.values()),
        {k: v for k, v in d.items() if k > "x"},
        d.get("q", "none"),
        len(d),
    )


@case(lambda: (t(3),))
def other_containers(x):
    q = deque([x], maxlen=2)
    q.append(x * 2)
    q.appendleft(x * 3)
    d = defaultdict(list)
    d["a"].append(x)
    d["b"] += [x + 1]
    o = OrderedDict(a=x, b=1)
    o.move_to_end("a")
    return q, d, o, o.popitem(last=False), q.pop(), frozenset([1, 2]), {1, 2} | {3}


class Tree(typing.NamedTuple):
    value: torch.Tensor
    children: list[Tree] = []  # noqa: RUF012


@case(lambda: (Tree(t(2), [Tree(t(2)), Tree(t(2), [Tree(t(2))])]),), lambda: (Tree(t(3)),))
def recursive(tree):
    def total(node, depth=0):
        return node.value * (depth + 1) + sum(total(child, depth + 1) for child in node.children)

    return total(tree)


@case(lambda: (t(3), None, [None, t(3)]), lambda: (t(3), t(3), []))
def optional(x, y, zs):
    if y is not None:
        x = x + y
    for z in zs:
        x = x if z is None else x * z
    return x, y, zs or None


class Batch:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __getitem__(self, key):
        return Batch(**{name: value[key] for name, value in self.__dict__.items()})

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __len__(self):
        return len(next(iter(self.__dict__.values())))

    def __add__(self, other):
        return Batch(**{k: torch.cat([v, other.__dict__[k]]) for k, v in self.__dict__.items()})

    def to(self, *args):
        return Batch(**{k: v.to(*args) for k, v in self.__dict__.items()})

    def __eq__(self, other):
        return all(torch.equal(v, other.__dict__[k]) for k, v in self.__dict__.items())

    __hash__ = None


@case(lambda: (Batch(a=t(2, 3), b=t(2)),), lambda: (Batch(c=t(3), a=t(3, 3)),))
def own_batch(batch):
    both = batch + batch[:1]
    batch.extra = both.a[-1:]
    return both, [len(one.__dict__) for one in batch[:1]], batch.to(torch.float64), batch == batch, len(both)


@maker(lambda: (t(2, 3), {"scale": 2.0}), lambda: (t(2, 3), {"scale": 3.0, "return_dict": False}))
def keywords_through_modules():
    class Inner(nn.Module):
        def forward(self, x, scale=1.0, **rest):
            return x * scale, rest

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x, options, return_dict=None):
            return_dict = options.pop("return_dict", True) if return_dict is None else return_dict
            y, rest = self.inner(x, **options, unused=1)
            return Output(logits=y) if return_dict else (y, rest)

    return Outer()


@case(
    lambda: (t(2, 3), [("a", 1), ("b", 2)]),
)
def generators_of_tensors(x, pairs):
    def scaled():
        for name, n in pairs:
            yield name, x * n

    made = dict(scaled())
    lazy = (v.sum() for v in made.values())
    return made, next(lazy), list(lazy), {name: v for name, v in scaled() if v.sum() is not None}


@case(lambda: (t(3),))
def sorted_and_grouped(x):
    items = [("b", x * 2), ("a", x), ("c", x + 1)]
    items.sort(key=lambda item: item[0])
    return (
        [name for name, _ in items],
        max(items, key=lambda item: item[0])[1],
        sorted(items, key=lambda i: i[0], reverse=True),
    )


class _State:
    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.state = collections.defaultdict(dict)

    def step(self):
        for p in self.parameters:
            state = self.state[p]
            state["n"] = state.get("n", 0) + 1
        return [self.state[p]["n"] for p in self.parameters]


@case(lambda: (t(3), t(4)), lambda: (t(4), t(2)))
def items_by_tensors(x, y):
    held = _State([x, y * 2])
    print("made")
    return held.step(), held.step(), len(held.state), x in held.state, y in held.state
