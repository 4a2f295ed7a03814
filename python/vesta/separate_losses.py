"""Separate backward passes for the results of one program, as in eager.

AOTAutograd makes one autograd node of a whole program, and autograd frees the node's saved tensors in its first
backward pass. That is too early if two results share no tensor that eager would save: in eager each of them has a
backward pass of its own. Here the results are split into parts that share nothing, and saved tensors are kept until
every part has had its backward pass or the node itself is freed. Inputs that a result does not depend on get no
gradient instead of zeros.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

__all__ = ["Split", "allow_retain", "free_by_part", "independent_parts"]

# The backward formulas of these operators read only sizes and numbers (derivatives.yaml of PyTorch).
_SAVES_NOTHING = """
add sub rsub neg sum mean clone contiguous to _to_copy view reshape expand expand_as permute transpose t unsqueeze
squeeze select slice narrow split split_with_sizes chunk unbind cat stack concat flatten unflatten view_as alias
lift_fresh_copy getitem
"""
SAVES_NOTHING = frozenset(_SAVES_NOTHING.split())
STOPS = frozenset(("detach", "detach_"))


class Split(NamedTuple):
    """The parts of a program's results. The lists have an entry per output, and a last one for all written inputs."""

    parts: list[int]  # the part that the result belongs to; -1: it has no gradient
    inputs: list[int]  # the inputs that it depends on, as bits
    tensors: list[int]  # which inputs are tensors: the autograd node has an edge to each


def independent_parts(graph: GraphModule, examples: Sequence[Any]) -> Split | None:
    """Splits a program's outputs into parts; None if there is one part and each output depends on all inputs.

    ``examples``: a value for each placeholder of the graph.
    """
    first = len(examples)
    known = _Dependencies(first)
    given = iter(enumerate(examples))
    enabled = True
    results: Any = ()
    for n in graph.graph.nodes:
        if n.op == "placeholder":
            i, example = next(given)
            if isinstance(example, torch.Tensor) and example.requires_grad:
                known.bits[n] = 1 << i
        elif n.op == "output":
            results = n.args[0]
        elif n.target is torch._C._set_grad_enabled:
            enabled = bool(n.args[0])
        elif n.op == "call_function" and enabled:
            known.follow(n)
    found = [known.of(r) if isinstance(r, Node) else None for r in results]
    found.append(known.of_written())
    groups: list[tuple[int, list[int]]] = []
    for i, bits in enumerate(found):
        if bits is None:
            continue
        together = [g for g in groups if g[0] & bits >> first]
        groups = [g for g in groups if not g[0] & bits >> first]
        saved = functools.reduce(operator.or_, (g[0] for g in together), bits >> first)
        groups.append((saved, [i, *(k for g in together for k in g[1])]))
    inputs = [bits & (1 << first) - 1 if bits else 0 for bits in found]
    if found[-1] is None:
        inputs[-1] = (1 << first) - 1  # no input is written, so no result without a known part loses a gradient
    if len(groups) < 2 and len({inputs[i] for _, outputs in groups for i in outputs}) < 2:
        return None
    parts = [-1] * len(found)
    for number, (_, outputs) in enumerate(groups):
        for i in outputs:
            parts[i] = number
    return Split(parts, inputs, [i for i, x in enumerate(examples) if isinstance(x, torch.Tensor)])


class _Dependencies:
    """The inputs and saving calls that each tensor with gradients depends on, as bits. A view counts as its base."""

    def __init__(self, first: int) -> None:
        self.bits: dict[Node, int] = {}
        self.base_of: dict[Node, Node] = {}
        self.written: set[Node] = set()
        self.next = first

    def owner(self, n: Node) -> Node:
        while n in self.base_of:
            n = self.base_of[n]
        return n

    def of(self, n: Node) -> int | None:
        return self.bits.get(self.owner(n))

    def of_written(self) -> int | None:
        found = [self.bits[n] for n in self.written if n.op == "placeholder"]
        return functools.reduce(operator.or_, found) if found else None

    def follow(self, n: Node) -> None:
        schema = getattr(n.target, "_schema", None)
        name = schema.name.partition("::")[2] if schema else getattr(n.target, "__name__", "")
        found = [bits for a in n.all_input_nodes if (bits := self.of(a)) is not None]
        if not found or name in STOPS:
            return
        bits = functools.reduce(operator.or_, found)
        if name.rstrip("_") not in SAVES_NOTHING:
            bits |= 1 << self.next
            self.next += 1
        base = n.args[0] if schema is None else None
        for value, argument in zip(n.args, schema.arguments if schema else (), strict=False):
            if argument.alias_info is None or not isinstance(value, Node):
                continue
            base = value
            if argument.alias_info.is_write:
                self.bits[self.owner(value)] = bits
                self.written.add(self.owner(value))
        if isinstance(base, Node):
            self.base_of[n] = base
            self.bits[self.owner(base)] = bits | self.bits.get(self.owner(base), 0)
        else:
            self.bits[n] = bits


def node_of(output: Any) -> tuple[Any, int]:
    """AOTAutograd's node of an output and the output's number among its results; (None, 0) if there is no node."""
    if not isinstance(output, torch.Tensor) or output.grad_fn is None:
        return None, 0
    function: Any = output.grad_fn
    place = output.output_nr
    while function is not None and not hasattr(type(function), "saved_tensors"):  # a view of a result
        function, place = function.next_functions[0] if function.next_functions else (None, 0)
    return function, place


def node_behind(outputs: Sequence[Any]) -> tuple[Any, list[tuple[int, int]]]:
    """The one node behind a call's outputs, and pairs (output, number among the node's results), views included."""
    node: Any = None
    found = []
    for i, output in enumerate(outputs):
        function, place = node_of(output)
        if function is None or (node is not None and function is not node):
            continue
        node = function
        found.append((i, place))
    return node, found


def allow_retain(outputs: Sequence[Any]) -> None:
    """Lets any pass retain the graph: no buffer is donated to the backward half. Once per compiled program."""
    for output in outputs:
        metadata = getattr(getattr(node_of(output)[0], "_forward_cls", None), "metadata", None)
        if metadata is not None:
            metadata.bw_donated_idxs = []
            return


def free_by_part(outputs: Sequence[Any], split: Split) -> None:
    """Makes the autograd node of a call's ``outputs`` treat each part as eager treats separate nodes."""
    node, found = node_behind([o if part >= 0 else None for o, part in zip(outputs, split.parts[:-1], strict=True)])
    if node is None:
        return
    places = {place: i for i, place in found}
    calls = _Calls(split, places)
    node.register_prehook(calls.begin)
    if len(node.next_functions) == len(split.tensors):
        node.register_hook(calls.end)
    if len(set(split.parts) - {-1}) < 2:
        return
    cls = type(node)
    if not isinstance(vars(cls).get("saved_tensors"), property):
        cls.saved_tensors = property(functools.partial(_saved, cls.saved_tensors))
    # Saved tensors that are results of the node would keep it alive forever.
    calls.saved = tuple(t if t is None or t.grad_fn is None else t.detach() for t in node.saved_tensors)
    node._vesta_calls = calls


class _Calls:
    """The backward passes through one node."""

    def __init__(self, split: Split, places: dict[int, int]) -> None:
        self.split = split
        self.places = places
        self.open = {split.parts[i] for i in (*places.values(), -1)} - {-1}
        self.now: list[int] = []
        self.again = False
        self.saved: Any = None

    def begin(self, gradients: Sequence[Any]) -> None:
        self.now = [self.places.get(i, -1) for i, g in enumerate(gradients) if g is not None]
        parts = {self.split.parts[i] for i in self.now}
        self.again = not parts <= self.open
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            self.open -= parts

    def end(self, gradients: Sequence[Any], _: Sequence[Any]) -> tuple[Any, ...]:
        reached = functools.reduce(operator.or_, (self.split.inputs[i] for i in self.now), 0)
        return tuple(g if reached >> i & 1 else None for g, i in zip(gradients, self.split.tensors, strict=True))


def _saved(own: Any, node: Any) -> Any:
    calls: _Calls | None = getattr(node, "_vesta_calls", None)
    if calls is None or calls.saved is None or calls.again:
        return own.__get__(node)
    saved = calls.saved
    if not calls.open:
        calls.saved = None
    return saved
