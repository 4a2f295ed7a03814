"""Python floats that Dynamo passes as 0-d tensors (with ``dynamic=True``, or once their value has changed).

A graph reads such an input with ``.item()``, for example for ``layer_norm``'s eps. Here it becomes a float again: a
constant of the compiled variant, so another value compiles another variant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

__all__ = ["as_floats", "bind", "copy_of", "placeholders", "positions_of", "with_floats", "without"]


def placeholders(gm: GraphModule) -> list[Node]:
    """The nodes of a graph's arguments, in their order."""
    return [n for n in gm.graph.nodes if n.op == "placeholder"]


def positions_of(gm: GraphModule) -> list[int]:
    """The positions of arguments that are floats passed as tensors."""
    return [
        i
        for i, node in enumerate(placeholders(gm))
        if getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
        and all(user.op == "call_method" and user.target == "item" for user in node.users)
    ]


def as_floats(gm: GraphModule, positions: Sequence[int]) -> None:
    """Changes the graph so that it takes plain floats at these positions."""
    nodes = placeholders(gm)
    for i in positions:
        for item in list(nodes[i].users):
            item.replace_all_uses_with(nodes[i])
            gm.graph.erase_node(item)
        nodes[i].meta = {}
        nodes[i].type = float
    gm.recompile()


def bind(gm: GraphModule, values: dict[int, float]) -> None:
    """Replaces arguments of the graph by constants."""
    nodes = placeholders(gm)

    def value_or_node(value: float, bound: Node) -> Callable[[Node], Any]:
        return lambda n: value if n is bound else n

    for i, value in values.items():
        for user in list(nodes[i].users):
            user.args = map_arg(user.args, value_or_node(value, nodes[i]))
            user.kwargs = map_arg(user.kwargs, value_or_node(value, nodes[i]))
        gm.graph.erase_node(nodes[i])
    gm.recompile()


def copy_of(gm: GraphModule) -> GraphModule:
    """A copy of the graph that shares its weights. Dynamo still reads the inputs of the original."""
    graph = Graph()
    result = graph.graph_copy(gm.graph, {})
    graph.output(result)
    return GraphModule(gm, graph)


def with_floats(args: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    """The arguments with a float for the tensor at each of these positions."""
    out = list(args)
    for i in positions:
        if isinstance(out[i], torch.Tensor):
            out[i] = out[i].item()
    return out


def without(args: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    return [x for i, x in enumerate(args) if i not in positions]
