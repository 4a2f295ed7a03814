"""Results of one program that go backward on their own, as in eager.

AOTAutograd makes one autograd node of a whole program. Autograd lets go of a node's saved tensors with its first
backward pass: one pass too early where results share nothing that eager would save. Here they are kept until each such
part has gone backward, or the node itself goes. And inputs that a result does not depend on get no gradient instead of
zeros.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

__all__ = ["Apart", "let_go_apart", "let_retain", "outputs_apart"]

# Their backward formulas read sizes and numbers alone (derivatives.yaml of PyTorch).
_SAVES_NOTHING = """
add sub rsub neg sum mean clone contiguous to _to_copy view reshape expand expand_as permute transpose t unsqueeze
squeeze select slice narrow split split_with_sizes chunk unbind cat stack concat flatten unflatten view_as alias
lift_fresh_copy getitem
"""
SAVES_NOTHING = frozenset(_SAVES_NOTHING.split())
STOPS = frozenset(("detach", "detach_"))


class Apart(NamedTuple):
    """Of each output, and last of the inputs that are written, together: their part, -1 where they have no gradient,
    and the inputs they depend on, as bits."""

    parts: list[int]
    inputs: list[int]
    tensors: list[int]  # the places of tensors among the inputs: those that the autograd node has edges to


def outputs_apart(graph: GraphModule, examples: Sequence[Any]) -> Apart | None:
    """What to keep apart of a program's outputs; None where each depends on all inputs and all share what is saved.

    ``examples``: of the graph's placeholders.
    """
    first = len(examples)
    known = _Behind(first)
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
        inputs[-1] = (1 << first) - 1  # nothing is written: of a result that is not known nothing is dropped
    if len(groups) < 2 and len({inputs[i] for _, outputs in groups for i in outputs}) < 2:
        return None
    parts = [-1] * len(found)
    for number, (_, outputs) in enumerate(groups):
        for i in outputs:
            parts[i] = number
    return Apart(parts, inputs, [i for i, x in enumerate(examples) if isinstance(x, torch.Tensor)])


class _Behind:
    """What is behind a tensor that has gradients, as bits: inputs and calls that save something. A view is its base."""

    def __init__(self, first: int) -> None:
        self.bits: dict[Node, int] = {}
        self.shown: dict[Node, Node] = {}
        self.written: set[Node] = set()
        self.next = first

    def owner(self, n: Node) -> Node:
        while n in self.shown:
            n = self.shown[n]
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
        shown = n.args[0] if schema is None else None
        for value, argument in zip(n.args, schema.arguments if schema else (), strict=False):
            if argument.alias_info is None or not isinstance(value, Node):
                continue
            shown = value
            if argument.alias_info.is_write:
                self.bits[self.owner(value)] = bits
                self.written.add(self.owner(value))
        if isinstance(shown, Node):
            self.shown[n] = shown
            self.bits[self.owner(shown)] = bits | self.bits.get(self.owner(shown), 0)
        else:
            self.bits[n] = bits


def node_of(output: Any) -> tuple[Any, int]:
    """AOTAutograd's node behind an output, and which of the node's results it is; None where there is none."""
    if not isinstance(output, torch.Tensor) or output.grad_fn is None:
        return None, 0
    function: Any = output.grad_fn
    place = output.output_nr
    while function is not None and not hasattr(type(function), "saved_tensors"):  # a view, made anew above the node
        function, place = function.next_functions[0] if function.next_functions else (None, 0)
    return function, place


def node_behind(outputs: Sequence[Any]) -> tuple[Any, list[tuple[int, int]]]:
    """The one node behind a call's outputs, and which output (views too) is which of its results."""
    node: Any = None
    found = []
    for i, output in enumerate(outputs):
        function, place = node_of(output)
        if function is None or (node is not None and function is not node):
            continue
        node = function
        found.append((i, place))
    return node, found


def let_retain(outputs: Sequence[Any]) -> None:
    """No buffer is donated to the backward half: any pass may retain the graph. Once for what AOTAutograd compiled."""
    for output in outputs:
        metadata = getattr(getattr(node_of(output)[0], "_forward_cls", None), "metadata", None)
        if metadata is not None:
            metadata.bw_donated_idxs = []
            return


def let_go_apart(outputs: Sequence[Any], apart: Apart) -> None:
    """Has the autograd node of a call's ``outputs`` do for each part what eager's nodes do."""
    node, found = node_behind([o if part >= 0 else None for o, part in zip(outputs, apart.parts[:-1], strict=True)])
    if node is None:
        return
    places = {place: i for i, place in found}
    calls = _Calls(apart, places)
    node.register_prehook(calls.begin)
    if len(node.next_functions) == len(apart.tensors):
        node.register_hook(calls.end)
    if len(set(apart.parts) - {-1}) < 2:
        return
    cls = type(node)
    if not isinstance(vars(cls).get("saved_tensors"), property):
        cls.saved_tensors = property(functools.partial(_saved, cls.saved_tensors))
    # Those that are results of the node would hold it for ever.
    calls.saved = tuple(t if t is None or t.grad_fn is None else t.detach() for t in node.saved_tensors)
    node._vesta_calls = calls


class _Calls:
    """The backward passes through one node."""

    def __init__(self, apart: Apart, places: dict[int, int]) -> None:
        self.apart = apart
        self.places = places
        self.open = {apart.parts[i] for i in (*places.values(), -1)} - {-1}
        self.now: list[int] = []
        self.again = False
        self.saved: Any = None

    def begin(self, gradients: Sequence[Any]) -> None:
        self.now = [self.places.get(i, -1) for i, g in enumerate(gradients) if g is not None]
        parts = {self.apart.parts[i] for i in self.now}
        self.again = not parts <= self.open
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            self.open -= parts

    def end(self, gradients: Sequence[Any], _: Sequence[Any]) -> tuple[Any, ...]:
        reached = functools.reduce(operator.or_, (self.apart.inputs[i] for i in self.now), 0)
        return tuple(g if reached >> i & 1 else None for g, i in zip(gradients, self.apart.tensors, strict=True))


def _saved(own: Any, node: Any) -> Any:
    calls: _Calls | None = getattr(node, "_vesta_calls", None)
    if calls is None or calls.saved is None or calls.again:
        return own.__get__(node)
    saved = calls.saved
    if not calls.open:
        calls.saved = None
    return saved
