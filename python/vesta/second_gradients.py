"""Gradients of a compiled program's gradients: a backward pass that creates a graph runs the program again, eagerly.

AOTAutograd's backward half has no derivative. For a pass with ``create_graph=True`` (gradient penalties, forces and the
like), the program's own operators run eager and give the derivative, at eager's speed. Every other pass is compiled.
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from vesta.separate_losses import node_behind

__all__ = ["allow_double_backward", "can_run_again"]


def can_run_again(graph: GraphModule) -> bool:
    """Whether a second run has no effect and gives equal results: no random numbers, no writes to inputs."""
    given: set[Node] = set()
    for n in graph.graph.nodes:
        if n.op == "placeholder":
            given.add(n)
        if n.op != "call_function":
            continue
        schema = getattr(n.target, "_schema", None)
        if schema is None:
            if n.target is operator.getitem and n.args[0] in given:
                given.add(n)
            continue
        if torch.Tag.nondeterministic_seeded in n.target.tags or _updates_statistics(n, schema):
            return False
        for value, argument in zip(n.args, schema.arguments, strict=False):
            values = value if isinstance(value, list | tuple) else [value]
            if argument.alias_info is None or not any(isinstance(v, Node) and v in given for v in values):
                continue
            if argument.alias_info.is_write:
                return False
            given.add(n)
    return True


def _updates_statistics(n: Node, schema: Any) -> bool:
    """Whether the call writes running statistics, as in training. The schema does not show these writes."""
    for value, argument in zip(n.args, schema.arguments, strict=False):
        if argument.name in ("training", "train", "use_input_stats") and value is not False:
            return "norm" in schema.name
    return False


def _versions(tensors: Sequence[torch.Tensor]) -> list[int]:
    try:
        return [t._version for t in tensors]
    except RuntimeError:  # inference tensors have none
        return [-1 if t.is_inference() else t._version for t in tensors]


def allow_double_backward(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    graph: GraphModule,
    without_autocast: Callable[[], contextlib.AbstractContextManager[Any]],
) -> None:
    """Makes the autograd node of a call's ``outputs`` differentiable: ``graph`` runs eager on ``inputs``."""
    node, found = node_behind(outputs)
    if node is None or len(node.next_functions) != sum(isinstance(x, torch.Tensor) for x in inputs):
        return
    places = {place: i for i, place in found if outputs[i].grad_fn is node}
    node.register_prehook(_RunAgain(node, graph, inputs, places, without_autocast).before)


class _RunAgain:
    """The backward passes with ``create_graph=True`` through one autograd node."""

    def __init__(
        self,
        node: Any,
        graph: GraphModule,
        inputs: Sequence[Any],
        places: dict[int, int],
        without_autocast: Callable[[], contextlib.AbstractContextManager[Any]],
    ) -> None:
        self.graph = graph
        self.places = places
        self.without_autocast = without_autocast
        self.inputs = list(inputs)
        self.tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        self.versions = _versions(self.tensors)
        self.given: list[tuple[int, torch.Tensor]] = []
        self.node: weakref.ref[Any] | None = weakref.ref(node)  # until its hook is registered

    def before(self, gradients: Sequence[Any]) -> tuple[Any, ...] | None:
        self.given = []
        if not torch.is_grad_enabled():
            if not torch._C._autograd._get_current_graph_task_keep_graph():
                self.inputs.clear()  # autograd frees the node's saved tensors now, too
                self.tensors.clear()
            return None
        given = [(i, g) for i, g in enumerate(gradients) if g is not None]
        if not self.inputs or any(i not in self.places for i, _ in given) or self.versions != _versions(self.tensors):
            return None
        if self.node is not None and (node := self.node()) is not None:
            node.register_hook(self.after)
            self.node = None
        self.given = given
        # The compiled half's results for them are not used.
        return tuple(g if g is None else g.detach() for g in gradients)

    def after(self, gradients: Sequence[Any], _: Sequence[Any]) -> tuple[Any, ...] | None:
        if not self.given:
            return None
        with self.without_autocast():
            results = self.graph(*self.inputs)
        asked = [i for i, t in enumerate(self.tensors) if t.requires_grad]
        found = torch.autograd.grad(
            [results[self.places[i]] for i, _ in self.given],
            [self.tensors[i] for i in asked],
            [g for _, g in self.given],
            create_graph=True,
            allow_unused=True,
        )
        self.given = []
        out: list[Any] = [None] * len(self.tensors)
        for i, g in zip(asked, found, strict=True):
            out[i] = g
        return tuple(out)
