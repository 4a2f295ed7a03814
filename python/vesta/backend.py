"""The backend of ``torch.compile(model, backend="vesta")``.

torch finds it by the entry point ``torch_dynamo_backends``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from vesta import _C, float_inputs
from vesta.function import compile_flat
from vesta.graph_walk import walker
from vesta.kept_errors import errors_kept, partition
from vesta.options import make_options, options_of_mode

__all__ = ["vesta"]


def vesta(
    gm: GraphModule, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **kwargs: Any
) -> Any:
    """Compiles one graph that Dynamo captured.

    If gradients are recorded, PyTorch's AOTAutograd splits the graph and both halves are compiled. Otherwise the whole
    graph is compiled. :mod:`vesta.options` describes ``options`` and the settings that ``mode`` stands for.
    """
    parsed = make_options({**options_of_mode(kwargs.pop("mode", None)), **(options or {})})
    if kwargs:
        raise make_unknown(kwargs)
    training = needs_gradients(gm, example_inputs)
    floats = float_inputs.positions_of(gm)
    if floats:
        return compile_with_floats(gm, example_inputs, floats, parsed, training=training)
    if training:
        return compile_training(gm, example_inputs, parsed)
    return compile_graph(gm, example_inputs, parsed, weights_are_fixed=True)


def compile_with_floats(
    gm: GraphModule, example_inputs: Sequence[Any], floats: list[int], options: _C.Options, *, training: bool
) -> Callable[..., Any]:
    """Compiles a graph that takes Python floats.

    AOTAutograd cannot take floats, so the compiled training program has the first call's values as constants. Calls
    with other values run eager if they record gradients.
    """
    examples = float_inputs.with_floats(example_inputs, floats)
    on_floats = float_inputs.copy_of(gm)
    float_inputs.as_floats(on_floats, floats)
    general = compile_graph(on_floats, examples, options, weights_are_fixed=not training, name=name_of(gm))

    def run(*args: Any) -> Any:
        return general(*float_inputs.with_floats(args, floats))

    if not training:
        return run
    seen = [examples[i].hex() for i in floats]
    on_constants = float_inputs.copy_of(on_floats)
    float_inputs.bind(on_constants, {i: examples[i] for i in floats})
    bound = compile_training(on_constants, float_inputs.without(examples, floats), options)

    def run_bound(*args: Any) -> Any:
        plain = float_inputs.with_floats(args, floats)
        if [plain[i].hex() for i in floats] != seen:
            return general(*plain)  # a call that records gradients runs eager here and is counted
        return bound(*float_inputs.without(plain, floats))

    return run_bound


def make_unknown(kwargs: dict[str, Any]) -> Exception:
    from vesta.errors import UserError

    return UserError(
        f'backend "vesta" has no argument {", ".join(sorted(kwargs))}; pass options={{...}} to torch.compile instead'
    )


def needs_gradients(gm: GraphModule, example_inputs: Sequence[Any]) -> bool:
    if not torch.is_grad_enabled():
        return False
    tensors = [x for x in example_inputs if isinstance(x, torch.Tensor)]
    tensors += list(gm.parameters())
    return any(t.requires_grad for t in tensors)


def compile_training(gm: GraphModule, example_inputs: Sequence[Any], options: _C.Options) -> Any:
    from torch._dynamo.backends.common import aot_autograd

    with errors_kept():
        return aot_autograd(**halves(options))(gm, list(example_inputs))


def halves(options: _C.Options) -> dict[str, Any]:
    """The compilers and the partitioner that AOTAutograd is given."""
    from functorch.compile import make_boxed_func

    def compiler(graph: GraphModule, inputs: Sequence[Any], *, fixed: bool) -> Callable[..., Any]:
        compiled = compile_graph(graph, inputs, options, weights_are_fixed=fixed)
        boxed: Callable[..., Any] = make_boxed_func(outside_analysis(compiled))
        return boxed

    return {
        "fw_compiler": functools.partial(compiler, fixed=False),
        "bw_compiler": functools.partial(compiler, fixed=False),
        "inference_compiler": functools.partial(compiler, fixed=True),
        "partition_fn": partition,
    }


def outside_analysis(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Calls ``compiled`` outside dispatch modes that compilers must ignore: AOTAutograd's first call has one."""
    modes_active = torch._C._len_torch_dispatch_stack

    def run(*args: Any) -> Any:
        if modes_active() and all(m.ignore_compile_internals() for m in _get_current_dispatch_mode_stack()):
            with _disable_current_modes():
                return compiled(*args)
        return compiled(*args)

    return run


def compile_graph(
    gm: GraphModule, example_inputs: Sequence[Any], options: _C.Options, *, weights_are_fixed: bool, name: str = ""
) -> _C.CompiledFunction:
    """A callable with the graph's positional arguments. The first call traces and compiles it."""
    labels: dict[str, int] = {}
    tensors: list[_C.ArgumentInfo] = []
    integers: list[_C.ArgumentInfo] = []
    for node, example in zip(float_inputs.placeholders(gm), example_inputs, strict=True):
        known = node.meta.get("example_value", node.meta.get("val", example))
        if isinstance(known, torch.Tensor):
            sizes = list(known.shape)
            tensors.append(
                _C.ArgumentInfo(
                    name=node.name,
                    parameter=weights_are_fixed and is_weight(node, example),
                    dynamic=[isinstance(s, torch.SymInt) for s in sizes] or [False],
                    label=[label_of(s, labels) for s in sizes] or [-1],
                )
            )
        elif isinstance(known, int | torch.SymInt) and not isinstance(known, bool):
            integers.append(_C.ArgumentInfo(name=node.name, dynamic=[True], label=[label_of(known, labels)]))

    return compile_flat(gm, options, name=name or name_of(gm), tensors=tensors, integers=integers, traced=walker(gm))


def label_of(size: Any, labels: dict[str, int]) -> int:
    """A number that is equal for sizes that torch treats as one symbol. -1 for a constant size."""
    if not isinstance(size, torch.SymInt):
        return -1
    return labels.setdefault(str(size), len(labels))


def is_weight(node: Node, example: Any) -> bool:
    """Whether the argument is a parameter or a buffer of a module, so that each call passes the same tensor."""
    if isinstance(example, torch.nn.Parameter):
        return True
    described = node.meta.get("tensor_dict") or {}
    return "_dynamo_static_input_type" in described or "_buffers_" in node.name


def name_of(gm: GraphModule) -> str:
    compile_id = gm.meta.get("dynamo_compile_id") if hasattr(gm, "meta") else None
    kind = type(gm).__name__
    return f"{kind} {compile_id}" if compile_id is not None else kind
