"""Compiles programs that record gradients: a tape of the native capture goes through PyTorch's AOTAutograd.

The tape has the program's calls of torch's operators in their order, including writes in place and changes of gradient
mode. It becomes a torch.fx graph, which AOTAutograd splits into a forward and a backward half. Vesta compiles both.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import logging
import operator
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from vesta import _C
from vesta.backend import halves
from vesta.errors import Unsupported
from vesta.kept_errors import errors_kept
from vesta.second_gradients import allow_double_backward, can_run_again
from vesta.separate_losses import allow_retain, free_by_part, independent_parts

__all__ = ["compile_graph_with_gradients", "graph_of_tape"]

ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": torch.sym_min,
    "max": torch.sym_max,
}

# AOTAutograd sets modes of the whole process while it traces, so only one thread at a time may trace.
_one_at_a_time = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_at_a_time._at_fork_reinit)  # type: ignore[attr-defined]

# Each call needs a constant of its own, because the program may write to it.
REPLACED = {"aten::lift_fresh": "aten::lift_fresh_copy"}

# AOTAutograd replaces these by operators that differ from their kernels, for targets that end early.
MISREAD = frozenset(("aten::multilabel_margin_loss", "aten::multilabel_margin_loss_forward"))

BEFORE_2_13 = torch.torch_version.TorchVersion(torch.__version__) < "2.13"
# AOTAutograd before 2.13 adds a dimension to the states of an LSTM that oneDNN does not compute.
STATES_GROW = BEFORE_2_13
# AOTAutograd before 2.13 does not check the classes of one_hot.
CLASSES_UNCHECKED = BEFORE_2_13


def compile_graph_with_gradients(
    tape: _C.Tape, example_inputs: Sequence[Any], options: _C.Options
) -> Callable[..., list[Any]]:
    """The program on ``tape`` as a callable with eager's gradients.

    ``example_inputs`` and the callable's arguments are the real tensors for the tape's inputs in order, whether they
    were arguments of the program or captured by it, and then the program's int arguments in order. A tensor object may
    occur several times if it did in the trace. The callable returns the program's outputs in a list of tensors, ints
    and None. Its tensors require gradients if eager's do and are inputs or views of inputs if eager's are, and it
    writes the inputs that eager writes. A call must have the gradient mode of the trace.

    The caller checks the conditions of the traced graph: types, sizes, guards, and which inputs are one tensor. The
    program is compiled for the examples' sizes at once, and later for sizes that AOTAutograd's guards exclude.
    Compiling and the first call raise Unsupported if AOTAutograd does not support the program; nothing has run then.
    """
    return _Program(tape, example_inputs, options)


class _Program:
    def __init__(self, tape: _C.Tape, example_inputs: Sequence[Any], options: _C.Options) -> None:
        self.options = options
        for name in MISREAD & {call.op for call in tape.calls}:
            raise Unsupported(f"with gradients: AOTAutograd computes {name} differently from eager")
        given = len(tape.inputs)
        self.places = [i for i, t in enumerate(tape.inputs) if t not in tape.inputs[:i]]
        self.symbolic = [[isinstance(s, _C.SymbolicInt) for s in tape.input_sizes[i]] for i in self.places]
        self.places += range(given, len(example_inputs))
        outputs, self.sources = _distinct_outputs(tape)
        with _no_sources():
            self.graph = graph_of_tape(tape, len(example_inputs) - given, outputs)
        self.split = independent_parts(self.graph, [example_inputs[i] for i in self.places])
        self.runs_again = can_run_again(self.graph)
        self.prepared: list[Callable[..., Any]] = []
        self.variants: list[tuple[_Guard | None, Callable[..., Any]]] = []
        self.halves: list[_C.CompiledFunction] = []
        self.compile([_plain(example_inputs[i]) for i in self.places])

    def __call__(self, *args: Any) -> list[Any]:
        inputs = [_plain(args[i]) for i in self.places]
        for guard, known in self.variants:
            if guard is None or guard.holds(inputs):
                compiled = known
                break
        else:
            compiled = self.compile(inputs)
        with _without_autocast():
            try:
                found = compiled(*inputs)
            except AssertionError as error:  # a check of AOTAutograd; nothing was written before it
                raise Unsupported(
                    f"with gradients, in AOTAutograd: {str(error).partition(chr(10))[0][:120]}"
                ) from error
        if compiled not in self.prepared:
            allow_retain(found)
            self.prepared.append(compiled)
        if self.split is not None:
            free_by_part(found, self.split)
        if self.runs_again:
            allow_double_backward(found, inputs, self.graph, _without_autocast)
        return [(args if from_input else found)[i] for from_input, i in self.sources]

    def wait(self, seconds: float) -> bool:
        """Waits for the compiles of both halves, of every variant. False: one is still running after these seconds."""
        end = time.monotonic() + seconds
        return all([half.wait(max(0.0, end - time.monotonic())) for half in self.halves])

    def compile(self, inputs: list[Any]) -> Callable[..., Any]:
        from torch._functorch.aot_autograd import aot_module_simplified

        if len(self.variants) >= self.options.variant_limit:
            raise Unsupported(f"with gradients: the limit of {self.options.variant_limit} variants is reached")
        guard = None
        examples = inputs
        symbols = any(map(any, self.symbolic)) or len(inputs) > len(self.symbolic)
        try:
            if symbols:
                guard = _Guard(inputs, self.symbolic)
                examples = guard.examples
            with _one_at_a_time, _without_autocast(), _no_sources(), _unlogged(), _unwarned(), errors_kept():
                compiled: Callable[..., Any] = aot_module_simplified(
                    self.graph, examples, **halves(self.options, self.halves)
                )
        except Exception as error:
            raise Unsupported(
                f"with gradients, in AOTAutograd: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            ) from error
        self.variants.append((guard, compiled))
        return compiled


def _plain(x: Any) -> Any:
    """A tensor of a subclass as a plain tensor: the tape already has what the subclass does."""
    if type(x) is torch.Tensor or not isinstance(x, torch.Tensor):
        return x
    own = type(x).__torch_function__ is not torch._C._disabled_torch_function_impl  # a Parameter has no code of its own
    return torch.Tensor.as_subclass(x, torch.Tensor) if own else x


def _without_autocast() -> contextlib.AbstractContextManager[Any]:
    """Turns autocast off: its conversions are already on the tape."""
    if torch._C._is_any_autocast_enabled():
        disabled: contextlib.AbstractContextManager[Any] = torch._C._DisableAutocast()
        return disabled
    return contextlib.nullcontext()


@contextlib.contextmanager
def _no_sources() -> Iterator[None]:
    """torch.fx keeps the source of every graph for tracebacks. This drops the source of the graphs made here."""
    texts: dict[str, str] = getattr(getattr(torch.fx.graph_module, "_loader", None), "eval_cache", {})
    before = len(texts)
    try:
        yield
    finally:
        for name in [*texts][before:]:
            texts.pop(name, None)
            linecache.cache.pop(name, None)


@contextlib.contextmanager
def _unwarned() -> Iterator[None]:
    """Suppresses the warnings of operators, which were given when the program was traced. The filter is inserted by
    hand because catch_warnings would make Python forget which warnings were shown."""
    filters: Any = warnings.filters
    ignored = ("ignore", None, Warning, None, 0)
    filters.insert(0, ignored)
    try:
        yield
    finally:
        filters.remove(ignored)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Suppresses torch's log of failures: a program that fails here runs eager, and eager reports its error."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


class _Guard:
    """Examples with symbolic sizes, and the guards on these sizes that AOTAutograd adds."""

    def __init__(self, inputs: list[Any], symbolic: list[list[bool]]) -> None:
        from torch._dynamo.source import ConstantSource
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

        self.shapes = ShapeEnv()
        # Some caches of ShapeEnv's methods have no limit, and their keys keep the ShapeEnv alive.
        weakref.finalize(self, _clear_caches, ShapeEnv).atexit = False
        mode = FakeTensorMode(shape_env=self.shapes)
        self.examples: list[Any] = []
        self.known: set[tuple[int, ...]] = set()
        for i, x in enumerate(inputs):
            source = ConstantSource(f"input{i}")
            if isinstance(x, torch.Tensor):
                dims = [DimDynamic.DUCK if s else DimDynamic.STATIC for s in symbolic[i]]
                context: Any = StatelessSymbolicContext(dynamic_sizes=dims)
                self.examples.append(mode.from_tensor(x, symbolic_context=context, source=source))
            else:
                symbol = self.shapes.create_symbol(x, source=source, dynamic_dim=DimDynamic.DYNAMIC)
                self.examples.append(self.shapes.create_symintnode(symbol, hint=x, source=source))

    def holds(self, inputs: list[Any]) -> bool:
        sizes = tuple(n for x in inputs for n in ((*x.shape, *x.stride()) if isinstance(x, torch.Tensor) else (x,)))
        if sizes in self.known:
            return True
        if not self.shapes.evaluate_guards_for_args(self.examples, inputs):
            return False
        self.known.add(sizes)
        return True


def _clear_caches(cls: type) -> None:
    for member in vars(cls).values():
        if callable(clear := getattr(member, "cache_clear", None)):
            clear()


def _distinct_outputs(tape: _C.Tape) -> tuple[list[Any], list[tuple[bool, int]]]:
    """The values that the graph must return, and for each output (is an input, index of the input or of the value)."""
    outputs: list[Any] = []
    sources = []
    seen: dict[int, int] = {}
    for output in tape.outputs:
        if isinstance(output, _C.TapeTensor):
            if output.index in tape.inputs:
                sources.append((True, tape.inputs.index(output.index)))
                continue
            if output.index in seen:
                sources.append((False, seen[output.index]))
                continue
            seen[output.index] = len(outputs)
        sources.append((False, len(outputs)))
        outputs.append(output)
    return outputs, sources


def graph_of_tape(tape: _C.Tape, integers: int, outputs: Sequence[Any]) -> GraphModule:
    """The tape as a graph that takes its distinct input tensors and ``integers`` ints and returns ``outputs``."""
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
        if call.op == "aten::one_hot" and CLASSES_UNCHECKED:
            _check_classes(graph, *(node_of(a) for a in call.args))
        if call.op == "aten::dropout" and call.args[1] == 1 and call.args[2]:
            # To drop everything, eager draws no random numbers, but AOTAutograd would.
            result = graph.call_function(torch.ops.aten.mul.Scalar, (node_of(call.args[0]), 0.0))
        else:
            op = _operator(REPLACED.get(call.op, call.op))
            args, kwargs = _arguments(op, [node_of(a) for a in call.args])
            result = graph.call_function(op, args, kwargs)
        _name_results(graph, result, call.results, tensors)
        if call.op == "aten::lstm.input" and STATES_GROW:
            for state, given_state in zip(call.results[1:], call.args[1], strict=True):
                tensors[state.index] = graph.call_function(
                    torch.ops.aten.reshape_as.default, (tensors[state.index], node_of(given_state))
                )
    if not grad_mode:
        graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output(tuple(node_of(a) for a in outputs))
    return GraphModule(torch.nn.Module(), graph)


def _check_classes(graph: Graph, indices: Node, classes: Any) -> None:
    """Adds the checks of ATen's one_hot kernel to the graph, with its messages."""
    aten = torch.ops.aten
    for compare, bound, message in (
        (aten.ge.Scalar, 0, "Class values must be non-negative."),
        (aten.lt.Scalar, classes, "Class values must be smaller than num_classes."),
    ):
        holds = graph.call_function(aten.all.default, (graph.call_function(compare, (indices, bound)),))
        graph.call_function(aten._assert_async.msg, (holds, message))


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
    """Names a node's results. A tensor that already has a node keeps it: the operator returned its argument."""
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
