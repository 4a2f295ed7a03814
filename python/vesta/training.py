"""Programs whose gradients are recorded: a tape of the native capture, through PyTorch's AOTAutograd.

The tape holds the program's calls of torch's operators as they came: in place where they were, with gradient mode as it
was. It becomes a torch.fx graph, which AOTAutograd splits into a forward and a backward half; Vesta compiles both.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from vesta import _C
from vesta.backend import compile_training
from vesta.errors import Unsupported

__all__ = ["compile_graph_with_gradients", "graph_of_tape"]

ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": torch.sym_min,
    "max": torch.sym_max,
}

# A constant that the program made: each call has its own.
REPLACED = {"aten::lift_fresh": "aten::lift_fresh_copy"}


def compile_graph_with_gradients(
    tape: _C.Tape, example_inputs: Sequence[Any], options: _C.Options
) -> Callable[..., list[Any]]:
    """The program on ``tape`` as a callable with eager's gradients.

    ``example_inputs``, and the callable's arguments: the real tensors behind the tape's inputs in order (those given
    and those captured alike), then the ints the program was given, in order. One tensor object may come several times,
    where it did in the trace. The callable returns the program's outputs in a list: tensors, ints, None. Its tensors
    require gradients where eager's do, are inputs or views of inputs where eager's are, and inputs that eager writes
    are written. It may be called under another gradient mode, but is meant for the one of the trace.

    The caller checks what a traced graph asks for (types, sizes, guards, aliasing of inputs). The first call traces
    and compiles the halves. Raises Unsupported where AOTAutograd does not take the program; nothing was run then.
    """
    places = [i for i, t in enumerate(tape.inputs) if t not in tape.inputs[:i]]
    integers = len(example_inputs) - len(tape.inputs)
    places += range(len(tape.inputs), len(tape.inputs) + integers)
    gm = graph_of_tape(tape, integers)
    distinct = [example_inputs[i] for i in places]
    try:
        compiled = compile_training(gm, distinct, options)
    except Exception as error:
        raise Unsupported(f"with gradients: {type(error).__name__}: {str(error).splitlines()[0]}") from error
    if len(places) == len(example_inputs):
        return functools.partial(_as_list, compiled)

    def run(*args: Any) -> list[Any]:
        return list(compiled(*[args[i] for i in places]))

    return run


def _as_list(compiled: Callable[..., Any], *args: Any) -> list[Any]:
    return list(compiled(*args))


def graph_of_tape(tape: _C.Tape, integers: int) -> GraphModule:
    """The tape as a graph on its distinct input tensors and then ``integers`` ints."""
    graph = Graph()
    tensors: dict[int, Node] = {}
    for i, t in enumerate(tape.inputs):
        if t not in tensors:
            tensors[t] = graph.placeholder(f"input{i}")
    given = [graph.placeholder(f"integer{i}") for i in range(integers)]
    symbols = [_symbol(graph, tape, tensors, given, *source) for source in tape.symbols]

    def node_of(a: Any) -> Any:
        if isinstance(a, _C.TapeTensor):
            return tensors[a.index]
        if isinstance(a, _C.SymbolicInt):
            return _expression(graph, a.steps, symbols)
        if isinstance(a, list):
            return [node_of(x) for x in a]
        return a

    grad_mode = True
    for call in tape.calls:
        if call.grad_mode != grad_mode:
            grad_mode = call.grad_mode
            graph.call_function(torch._C._set_grad_enabled, (grad_mode,))
        op = _operator(REPLACED.get(call.op, call.op))
        args, kwargs = _arguments(op, [node_of(a) for a in call.args])
        result = graph.call_function(op, args, kwargs)
        _name_results(graph, result, call.results, tensors)
    if not grad_mode:
        graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output(tuple(node_of(a) for a in tape.outputs))
    return GraphModule(torch.nn.Module(), graph)


@functools.cache
def _operator(name: str) -> torch._ops.OpOverload:
    namespace, _, rest = name.partition("::")
    name, _, overload = rest.partition(".")
    found = getattr(getattr(torch.ops, namespace), name)
    op: torch._ops.OpOverload = getattr(found, overload or "default")
    return op


def _arguments(op: torch._ops.OpOverload, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    schema = op._schema.arguments
    args = tuple(v for v, a in zip(values, schema, strict=True) if not a.kwarg_only)
    kwargs = {a.name: v for v, a in zip(values, schema, strict=True) if a.kwarg_only and v is not None}
    return args, kwargs


def _name_results(graph: Graph, result: Node, results: list[Any], tensors: dict[int, Node]) -> None:
    if len(results) == 1:
        _name(graph, result, results[0], tensors)
        return
    for i, r in enumerate(results):
        if r is not None:
            _name(graph, graph.call_function(operator.getitem, (result, i)), r, tensors)


def _name(graph: Graph, node: Node, result: Any, tensors: dict[int, Node]) -> None:
    """A tensor that was there before keeps its node: the operator gave its argument back."""
    if isinstance(result, _C.TapeTensor):
        tensors.setdefault(result.index, node)
    elif isinstance(result, list):
        for i, r in enumerate(result):
            _name(graph, graph.call_function(operator.getitem, (node, i)), r, tensors)


def _symbol(
    graph: Graph, tape: _C.Tape, tensors: dict[int, Node], given: list[Node], tensor: int, dim: int, stride: bool
) -> Node:
    if tensor < 0:
        return given[dim]
    op = torch.ops.aten.sym_stride.int if stride else torch.ops.aten.sym_size.int
    return graph.call_function(op, (tensors[tape.inputs[tensor]], dim))


def _expression(graph: Graph, steps: list[tuple[str, int]], symbols: list[Node]) -> Any:
    stack: list[Any] = []
    for code, value in steps:
        if code == "constant":
            stack.append(value)
        elif code == "symbol":
            stack.append(symbols[value])
        else:
            right = stack.pop()
            left = stack.pop()
            stack.append(graph.call_function(ARITHMETIC[code], (left, right)))
    return stack.pop()
