"""Runs a torch.fx graph node by node.

A GraphModule runs Python source that torch.fx writes and compiles at the first call. That pays for a graph that runs
often. A trace runs the graph once, and making the source takes longer than the rest of the trace.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule, Node
from torch.fx.graph import CodeGen

__all__ = ["walker"]


def walker(gm: GraphModule) -> Callable[..., Any]:
    """A callable that computes what ``gm`` does; ``gm`` itself if its calling convention is special."""
    if type(gm.graph._codegen) is not CodeGen:
        return gm
    return functools.partial(_walk, gm)


def _walk(gm: GraphModule, *args: Any) -> Any:
    values: dict[Node, Any] = {}

    def of(a: Any) -> Any:
        """The argument with values instead of nodes, in the containers that generated source would make."""
        if isinstance(a, Node):
            return values[a]
        if isinstance(a, list):
            return [of(x) for x in a]
        if isinstance(a, tuple):
            elements = [of(x) for x in a]
            return type(a)(*elements) if hasattr(a, "_fields") else tuple(elements)
        if isinstance(a, dict):
            return {k: of(x) for k, x in a.items()}
        if isinstance(a, slice):
            return slice(of(a.start), of(a.stop), of(a.step))
        return a

    inputs = iter(args)
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(inputs) if not node.args else next(inputs, node.args[0])
            continue
        if node.op == "output":
            return of(node.args[0])
        if node.op == "get_attr":
            values[node] = operator.attrgetter(node.target)(gm)
            continue
        positional = [of(a) for a in node.args]
        keywords = {k: of(a) for k, a in node.kwargs.items()}
        if node.op == "call_method":
            target = getattr(positional.pop(0), node.target)
        else:
            target = node.target if node.op == "call_function" else gm.get_submodule(node.target)
        values[node] = target(*positional, **keywords)
    return None
