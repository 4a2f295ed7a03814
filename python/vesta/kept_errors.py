"""Keeps operators that may raise in the graphs that AOTAutograd makes, even if nothing reads their results.

AOTAutograd drops operators on which no result depends: after it has traced a program, when it splits the program, and
in each half. Eager runs these operators, so their exceptions, and the random numbers that they draw, are visible.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx import node as fx_node

from vesta import _C

__all__ = ["errors_kept", "partition"]

_calls = threading.local()  # whether errors_kept() is active in this thread
_lock = threading.Lock()
_holders = 0
_own: set[Any] = set()


class _Kept(set[Any]):
    """The functions that torch.fx never removes, plus, within errors_kept(), operators that may raise or draw."""

    def __contains__(self, target: object) -> bool:
        return super().__contains__(target) or (getattr(_calls, "keeps", False) and _is_kept(target))


@contextlib.contextmanager
def errors_kept() -> Iterator[None]:
    """While active, torch.fx removes no operator in this thread that may raise or that draws random numbers."""
    global _holders, _own
    with _lock:
        _holders += 1
        if _holders == 1:
            _own = fx_node._side_effectful_functions
            fx_node._side_effectful_functions = _Kept(_own)
    try:
        with _keeping(True):
            yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _own.update(fx_node._side_effectful_functions)
                fx_node._side_effectful_functions = _own


@contextlib.contextmanager
def _keeping(keeps: bool) -> Iterator[None]:
    before, _calls.keeps = getattr(_calls, "keeps", False), keeps
    try:
        yield
    finally:
        _calls.keeps = before


_known: dict[Any, bool] = {}


def _is_kept(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload) or target.namespace in ("prim", "prims"):
        return False
    if target not in _known:
        schema = target._schema
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        computes = not schema.is_mutable and all("Tensor" in str(r.type) for r in schema.returns)
        _known[target] = computes and (_C.may_raise(name) or torch.Tag.nondeterministic_seeded in target.tags)
    return _known[target]


def partition(joint: GraphModule, inputs: Any, *, num_fwd_outputs: int, **more: Any) -> tuple[GraphModule, GraphModule]:
    """PyTorch's partitioner, except that operators of the forward pass that may raise or draw random numbers stay in
    the forward graph, and only there: the backward graph would not use their results."""
    from torch._functorch.partitioners import default_partition

    with _keeping(False):
        unread = _unread(joint, num_fwd_outputs)
        checks, results = _checks_and_results(joint, unread)
        _insert_outputs(joint, num_fwd_outputs, results)
        joint.recompile()
        count = num_fwd_outputs + len(results)
        forward, backward = default_partition(joint, inputs, num_fwd_outputs=count, **more)
        kept = _remove_outputs(forward, num_fwd_outputs, len(results))
        in_forward = dict(zip(results, kept, strict=True))
        end = next(n for n in reversed(forward.graph.nodes) if n.op == "output")
        with forward.graph.inserting_before(end):
            for target, args, kwargs in checks:
                forward.graph.call_function(
                    target,
                    torch.fx.map_arg(args, in_forward.__getitem__),
                    torch.fx.map_arg(kwargs, in_forward.__getitem__),
                )
        forward.recompile()
        backward.graph.eliminate_dead_code(lambda node: node.is_impure(impure_random=False))
        backward.recompile()
    return forward, backward


def _unread(joint: GraphModule, num_fwd_outputs: int) -> list[Node]:
    """The calls of the forward pass that must be kept although none of its results depends on them."""
    end = next(n for n in reversed(joint.graph.nodes) if n.op == "output")
    read: set[Node] = set()
    open_ends = [n for n in end.args[0][:num_fwd_outputs] if isinstance(n, Node)]
    while open_ends:
        n = open_ends.pop()
        if n not in read:
            read.add(n)
            open_ends += n.all_input_nodes
    backward: set[Node] = set()
    found = []
    for n in joint.graph.nodes:
        is_tangent = n.op == "placeholder" and "tangents" in str(n.target)
        is_backward = n.meta.get("partitioner_tag") == "is_backward"
        if is_tangent or is_backward or any(a in backward for a in n.all_input_nodes):
            backward.add(n)
        elif n not in read and n.op == "call_function" and _is_kept(n.target):
            found.append(n)
    return found


def _checks_and_results(joint: GraphModule, unread: list[Node]) -> tuple[list[Any], list[Node]]:
    """Removes calls without results from the graph. Returns these calls, and the nodes that the forward graph must
    compute for them: their arguments, and one result of each other call."""
    checks: list[Any] = []
    results: dict[Node, None] = {}
    for n in unread:
        value = n.meta.get("val")
        if not n.target._schema.returns:  # type: ignore[union-attr]
            if not all(isinstance(a.meta.get("val"), torch.Tensor) for a in n.all_input_nodes):
                continue
            checks.append((n.target, n.args, n.kwargs))
            results |= dict.fromkeys(n.all_input_nodes)
            joint.graph.erase_node(n)
        elif isinstance(value, torch.Tensor):
            results[n] = None
        elif isinstance(value, list | tuple) and value and isinstance(value[0], torch.Tensor):
            first = next((u for u in n.users if u.target is operator.getitem), None)
            if first is None:
                with joint.graph.inserting_after(n):
                    first = joint.graph.call_function(operator.getitem, (n, 0))
                first.meta = {**n.meta, "val": value[0]}
                first.meta.pop("tensor_meta", None)
            results[first] = None
    return checks, [*results]


def _insert_outputs(joint: GraphModule, at: int, nodes: list[Node]) -> None:
    end = next(n for n in reversed(joint.graph.nodes) if n.op == "output")
    outputs: Any = end.args[0]
    end.args = ((*outputs[:at], *nodes, *outputs[at:]),)
    if "desc" in end.meta:
        end.meta["desc"] = [*end.meta["desc"][:at], *(None for _ in nodes), *end.meta["desc"][at:]]


def _remove_outputs(forward: GraphModule, at: int, count: int) -> list[Node]:
    end = next(n for n in reversed(forward.graph.nodes) if n.op == "output")
    outputs: Any = end.args[0]
    end.args = ((*outputs[:at], *outputs[at + count :]),)
    for key in ("desc", "output_stack_traces"):
        if key in end.meta:
            end.meta[key] = [*end.meta[key][:at], *end.meta[key][at + count :]]
    return list(outputs[at : at + count])
