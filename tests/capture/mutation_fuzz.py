"""Random changes of the state that a compiled function reads, between its calls.

    python -m tests.capture.mutation_fuzz --seeds 0:200          compiled against plain
    python -m tests.capture.mutation_fuzz --seeds 17:18 --trace  every change and result of one seed
    python -m tests.capture.mutation_fuzz --seeds 0:50 --plain   the fuzzer against itself

A seed makes a tree of objects, a function that reads some of it, and a list of changes. Two copies of it run side by
side, one compiled; after each change both are called twice. A difference is told with the shortest list of changes
that still shows it.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import random
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.capture.guard_rows import difference, frozen

STEPS = 24


class Mood(enum.Enum):
    CALM = 1
    WILD = 3


@dataclasses.dataclass
class World:
    """The objects that a program may reach, made twice from one seed; each copy has globals and classes of its own."""

    names: types.SimpleNamespace
    cls: type
    other_cls: type
    nodes: list[Any]
    function: Callable[..., Any]


class Layer(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))
        self.register_buffer("shift", torch.ones(3))
        self.scale = scale
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x * self.weight) * self.scale + self.shift * (2 if self.training else 1)


class Quiet(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x - self.shift) * self.weight.abs().mean() * self.scale


def make_world(seed: int) -> World:
    rng = random.Random(seed)

    class Node:
        rank = 1.5

        def __init__(self) -> None:
            self.scale = rng.choice([1.0, 2.0, 0.5])
            self.n = rng.randrange(4)
            self.flag = rng.random() < 0.5
            self.name = rng.choice(["sin", "cos", "relu"])
            self.values: Any = [rng.randrange(5) for _ in range(rng.randrange(4))]
            self.table: Any = {rng.choice("abcd"): rng.random() for _ in range(rng.randrange(4))}
            self.weight = torch.full((3,), rng.random())
            self.layer: Any = Layer(rng.random()) if rng.random() < 0.7 else None
            self.mood = rng.choice(list(Mood))
            self.children: list[Any] = []
            self.apply: Any = None

        @property
        def twice(self) -> float:
            return self.scale * 2

        def method(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.rank

    class Other(Node):
        rank = 0.25

        def method(self, x: torch.Tensor) -> torch.Tensor:
            return x - self.rank

    root = Node()
    nodes = [root]
    for _ in range(rng.randrange(5)):
        child = Node()
        rng.choice(nodes).children.append(child)
        nodes.append(child)
    names = types.SimpleNamespace(scale=1.5, table={"a": 1.0}, helper=lambda x: x + 1)
    read = rng.sample(sorted(READERS), rng.randrange(3, len(READERS) + 1))

    def visit(node: Any, x: torch.Tensor, depth: int) -> torch.Tensor:
        for name in read:
            x = READERS[name](node, x, names)
        for child in node.children:
            x = visit(child, x, depth + 1) / 2
        return x + depth

    def function(x: torch.Tensor) -> torch.Tensor:
        return visit(root, x, 0)

    return World(names, Node, Other, nodes, function)


def _listed(node: Any, x: torch.Tensor, names: Any) -> torch.Tensor:
    for at, value in enumerate(node.values):
        x = x + value * (at + 1)
    return x


def _tabled(node: Any, x: torch.Tensor, names: Any) -> torch.Tensor:
    for key, value in node.table.items():
        x = x * 1.5 + value * ord(key)
    return x + node.table.get("a", 3.0)


READERS: dict[str, Callable[[Any, torch.Tensor, Any], torch.Tensor]] = {
    "scale": lambda node, x, names: x * node.scale,
    "count": lambda node, x, names: x.repeat(2)[node.n : node.n + 3] if node.n < 4 else x + node.n,
    "flag": lambda node, x, names: x + 1 if node.flag else x - 1,
    "name": lambda node, x, names: getattr(torch, node.name)(x),
    "values": _listed,
    "table": _tabled,
    "weight": lambda node, x, names: x + node.weight.float().sum() if node.weight.dim() else x * node.weight,
    "layer": lambda node, x, names: x if node.layer is None else node.layer(x),
    "mood": lambda node, x, names: x * node.mood.value if node.mood is Mood.WILD else x,
    "property": lambda node, x, names: x + node.twice,
    "method": lambda node, x, names: node.method(x),
    "own function": lambda node, x, names: x if node.apply is None else node.apply(x),
    "class": lambda node, x, names: x + len(type(node).__name__),
    "globals": lambda node, x, names: names.helper(x) * names.scale + len(names.table),
    "missing": lambda node, x, names: x + getattr(node, "sometimes", 0.0),
    "grad mode": lambda node, x, names: x + 1 if torch.is_grad_enabled() else x,
}

Change = Callable[[World, Any, random.Random], Any]
CHANGES: dict[str, Change] = {}


def change(name: str) -> Callable[[Change], Change]:
    def add(function: Change) -> Change:
        CHANGES[name] = function
        return function

    return add


def _simple(name: str, function: Change) -> None:
    CHANGES[name] = function


_simple("scale", lambda w, o, r: setattr(o, "scale", r.choice([1.0, 2, -0.5, 3.25, True])))
_simple("n", lambda w, o, r: setattr(o, "n", r.randrange(6)))
_simple("flag", lambda w, o, r: setattr(o, "flag", r.choice([True, False, 0, 1, None, "", [1]])))
_simple("name", lambda w, o, r: setattr(o, "name", r.choice(["sin", "cos", "tanh", "relu"])))
_simple("value appended", lambda w, o, r: o.values.append(r.randrange(9)))
_simple("value popped", lambda w, o, r: o.values and o.values.pop(r.randrange(len(o.values))))
_simple("value set", lambda w, o, r: o.values and o.values.__setitem__(-1, r.choice([7, 8.5, torch.ones(3)])))
_simple("values reversed", lambda w, o, r: o.values.reverse())
_simple("values replaced", lambda w, o, r: setattr(o, "values", [r.randrange(3)] * r.randrange(4)))
_simple("values shared", lambda w, o, r: setattr(o, "values", r.choice(w.nodes).values))
_simple("key set", lambda w, o, r: o.table.__setitem__(r.choice("abcde"), r.random()))
_simple("key removed", lambda w, o, r: o.table.pop(r.choice("abcde"), None))
_simple("key moved", lambda w, o, r: o.table and o.table.__setitem__(*_first(o.table)))
_simple("table replaced", lambda w, o, r: setattr(o, "table", dict(reversed(o.table.items()))))
_simple("table ordered", lambda w, o, r: setattr(o, "table", OrderedDict(o.table)))
_simple("table cleared", lambda w, o, r: o.table.clear())
_simple("weight in place", lambda w, o, r: o.weight.add_(r.randrange(3)))
_simple("weight replaced", lambda w, o, r: setattr(o, "weight", torch.full((3,), float(r.randrange(4)))))
_simple("weight resized", lambda w, o, r: setattr(o, "weight", torch.ones(r.randrange(5)) * 2))
_simple("weight scalar", lambda w, o, r: setattr(o, "weight", torch.tensor(r.choice([2, 2.5]))))
_simple("weight data", lambda w, o, r: setattr(o.weight, "data", torch.full_like(o.weight, r.randrange(5))))
_simple("weight shared", lambda w, o, r: setattr(o, "weight", r.choice(w.nodes).weight))
_simple("mood", lambda w, o, r: setattr(o, "mood", r.choice(list(Mood))))
_simple("node removed", lambda w, o, r: o.children and o.children.pop())
_simple("node added", lambda w, o, r: o.children.append(_fresh(w, r)))
_simple("nodes swapped", lambda w, o, r: o.children.reverse())
_simple("class of a node", lambda w, o, r: setattr(o, "__class__", r.choice([w.cls, w.other_cls])))
_simple("dict of a node", lambda w, o, r: setattr(o, "__dict__", {**o.__dict__, "scale": r.random()}))
_simple("written in the dict", lambda w, o, r: vars(o).update(scale=r.random()))
_simple("attribute that may be missing", lambda w, o, r: setattr(o, "sometimes", r.random()))
_simple("attribute removed", lambda w, o, r: o.__dict__.pop("sometimes", None))
_simple("unread attribute", lambda w, o, r: setattr(o, "unread", r.random()))
_simple("rank of the class", lambda w, o, r: setattr(w.cls, "rank", r.random()))
_simple("rank of the other class", lambda w, o, r: setattr(w.other_cls, "rank", r.random()))
_simple("rank of the node", lambda w, o, r: setattr(o, "rank", r.random()))
_simple("name of the class", lambda w, o, r: setattr(w.cls, "__name__", r.choice(["Node", "Longer"])))
_simple("own function", lambda w, o, r: setattr(o, "apply", r.choice([None, torch.sin, lambda x: x * 2, o.method])))
_simple("global", lambda w, o, r: setattr(w.names, "scale", r.choice([1.0, 2.0, 3])))
_simple("global table", lambda w, o, r: w.names.table.update({r.choice("abc"): 1}))
_simple("global function", lambda w, o, r: setattr(w.names, "helper", r.choice([torch.cos, lambda x: x - 1])))
_simple("grad mode", lambda w, o, r: torch.set_grad_enabled(r.random() < 0.5))


def _first(table: dict[Any, Any]) -> tuple[Any, Any]:
    key = next(iter(table))
    return key, table.pop(key)


def _fresh(world: World, rng: random.Random) -> Any:
    node = world.cls()
    for name in ("scale", "n", "flag", "name", "mood"):
        setattr(node, name, getattr(world.nodes[0], name))
    node.values, node.table = [1], {"a": 1.0}
    node.weight, node.layer = torch.ones(3), None
    world.nodes.append(node)
    return node


@change("method replaced")
def _method(world: World, node: Any, rng: random.Random) -> None:
    by = rng.randrange(5)
    world.cls.method = lambda self, x, by=by: x * self.rank + by  # type: ignore[attr-defined]


@change("method of the node replaced")
def _own_method(world: World, node: Any, rng: random.Random) -> None:
    by = rng.randrange(5)
    if "method" in vars(node):
        del node.method
    else:
        node.method = lambda x: x + by


@change("property replaced")
def _property(world: World, node: Any, rng: random.Random) -> None:
    by = rng.randrange(5)
    world.cls.twice = property(lambda self: self.scale + by)  # type: ignore[attr-defined]


@change("code of a function replaced")
def _code(world: World, node: Any, rng: random.Random) -> None:
    by = rng.choice([lambda self, x: x + self.n, lambda self, x: x * 2 - self.n])
    world.cls.method.__code__ = by.__code__  # type: ignore[attr-defined]


def _of_layer(name: str, function: Callable[[Any, random.Random], Any]) -> None:
    CHANGES[f"layer: {name}"] = lambda world, node, rng: None if node.layer is None else function(node.layer, rng)


_of_layer("training", lambda m, r: m.train(r.random() < 0.5))
_of_layer("scale", lambda m, r: setattr(m, "scale", r.choice([1, 1.0, 2.5])))
_of_layer("weight in place", lambda m, r: m.weight.data.mul_(1.5))
_of_layer("weight replaced", lambda m, r: setattr(m, "weight", nn.Parameter(torch.full((3,), r.random()))))
_of_layer("weight frozen", lambda m, r: m.weight.requires_grad_(not m.weight.requires_grad))
_of_layer("buffer replaced", lambda m, r: setattr(m, "shift", torch.full((3,), r.random())))
_of_layer("buffer in place", lambda m, r: m.shift.add_(1))
_of_layer("submodule", lambda m, r: setattr(m, "act", r.choice([nn.Tanh(), nn.ReLU(), nn.Identity()])))
_of_layer("state", lambda m, r: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}))
_of_layer("forward", lambda m, r: m.__dict__.pop("forward", None) or setattr(m, "forward", lambda x: x * 3))
_of_layer(
    "hook",
    lambda m, r: (
        m.register_forward_hook(lambda module, args, out: out * 2) if r.random() < 0.5 else m._forward_hooks.clear()
    ),
)
_simple("layer replaced", lambda w, o, r: setattr(o, "layer", r.choice([None, Layer(2.0), Quiet(3.0)])))


def _called(world: World, function: Callable[..., Any]) -> Any:
    """Two results, and the gradients' flags."""
    out = []
    for _ in range(2):
        try:
            out.append(frozen(function(torch.tensor([0.5, -1.0, 2.0]))))
        except Exception as error:
            out.append(frozen(error))
    return out


def run(seed: int, compile_function: Callable[..., Any] | None, steps: list[int], trace: bool = False) -> list[Any]:
    """The results after each of the `steps` of the seed's list of changes."""
    world = make_world(seed)
    function = compile_function(world.function) if compile_function else world.function
    grad = torch.is_grad_enabled()
    try:
        results = [_called(world, function)]
        for step in steps:
            rng = random.Random(f"{seed} {step}")
            name = rng.choice(sorted(CHANGES))
            node = world.nodes[rng.randrange(len(world.nodes))]
            CHANGES[name](world, node, rng)
            results.append(_called(world, function))
            if trace:
                print(f"{step:3} {name} (node {world.nodes.index(node)}): {results[-1][-1]}")
        return results
    finally:
        torch.set_grad_enabled(grad)


def name_of(seed: int, step: int) -> str:
    return random.Random(f"{seed} {step}").choice(sorted(CHANGES))


def failure(seed: int, compile_function: Callable[..., Any] | None, steps: list[int]) -> str | None:
    plain, compiled = run(seed, None, steps), run(seed, compile_function, steps)
    for number, (left, right) in enumerate(zip(plain, compiled, strict=True)):
        found = difference(left, right)
        if found is not None:
            return f"after {number} changes: {found}"
    return None


def check(seed: int, compile_function: Callable[..., Any] | None, steps: int = STEPS) -> str | None:
    """The difference, with the fewest changes that show it; None if there is none."""
    left = list(range(steps))
    found = failure(seed, compile_function, left)
    if found is None:
        return None
    for step in reversed(range(steps)):
        fewer = [each for each in left if each != step]
        shorter = failure(seed, compile_function, fewer)
        if shorter is not None:
            left, found = fewer, shorter
    changes = ", ".join(f"{step}: {name_of(seed, step)}" for step in left)
    return f"seed {seed}, changes [{changes}]: {found}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.capture.mutation_fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", default="0:100", metavar="A:B", help="seeds to run (%(default)s)")
    parser.add_argument("--steps", type=int, default=STEPS, help="changes in each (%(default)s)")
    parser.add_argument("--plain", action="store_true", help="compiles nothing")
    parser.add_argument("--trace", action="store_true", help="prints every change and its result, compiled")
    options = parser.parse_args(argv)
    import vesta

    compile_function = None if options.plain else vesta.compile
    begin, end = map(int, options.seeds.split(":"))
    failed = 0
    for seed in range(begin, end):
        if options.trace:
            run(seed, compile_function, list(range(options.steps)), trace=True)
        found = check(seed, compile_function, options.steps)
        if found is not None:
            failed += 1
            print(found, flush=True)
    print(f"{end - begin} seeds, {failed} different")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
