"""``vesta.compare``: a program's results compiled, eager and in float64, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from vesta import _C
from vesta.compare_runs import Run, Written, compare_runs, identical
from vesta.comparison import Comparison
from vesta.compile import arguments_like, compile
from vesta.eager import innermost
from vesta.errors import UserError
from vesta.explain import explain
from vesta.waiting import wait

__all__ = ["compare"]


def compare(
    function: Callable[..., Any],
    *args: Any,
    options: Mapping[str, Any] | None = None,
    kernels: bool = False,
    **kwargs: Any,
) -> Comparison:
    """Calls ``function`` eager, compiled and in float64, and compares the results.

    Each call gets copies of the arguments, starts with the same random numbers, and finds a module's parameters and
    buffers as they were. Other objects that the function writes to are written by every call.

    Args:
        function: What :func:`vesta.compile` takes, or a result of it, which is compiled anew.
        options: Options for the compile, as for :func:`vesta.compile`; by default those of ``function``.
        kernels: Also run each kernel by itself, on random numbers, and compare it with the same operators called one
            by one.

    Returns:
        A :class:`Comparison`: for each result the largest error of the compiled and of the eager call against
        float64, and whether the rule of docs/numerics.md holds.
    """
    program = innermost(function)
    if not callable(program):
        raise UserError(f"vesta.compare takes a function or a module, not {type(function).__name__}")
    arguments = arguments_like(function)
    waits = {"deadline_ms": -1, "background": False}
    arguments["options"] = {**arguments.get("options", {}), **(options or {}), **waits}
    compiled = compile(program, **arguments)
    keeper = _C.CaseKeeper("", [])
    try:
        with _restored(program):
            given, named = _copied((args, kwargs))
            compiled(*given, **named)  # compiles
            wait(compiled)
    finally:
        keeper.stop()

    def run(call: Callable[..., Any]) -> Run:
        def once() -> Any:
            given, named = _copied((args, kwargs))
            changed = [Written(name, t) for name, t in (*_arguments(given, named), *_state(program))]
            return lambda: call(*given, **named), changed

        return once

    tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    tensors += [t for _, t in _state(program)]
    results, why = compare_runs(run(program), run(compiled), tensors, lambda: _restored(program))
    captured = explain(compiled).explanation.captures
    graphs = sum(g.compiled is not None and g.compiled.ops_traced > 0 for c in captured for g in c.graphs)
    by_kernel: dict[str, Comparison] = {}
    if kernels:
        from vesta.replay import compare_kernels

        for text in keeper.cases():
            (case,) = _C.parse_cases(_C.join_cases([], [text]))[1]
            for name, found in compare_kernels(case):
                by_kernel[_unused(name, by_kernel)] = found
    return Comparison(tuple(results), why, graphs, by_kernel)


def _copied(tree: Any) -> Any:
    """Copies of the tensors. Those that share memory still do."""
    storages: dict[int, torch.Tensor] = {}

    def copied(t: torch.Tensor) -> torch.Tensor:
        if t.layout != torch.strided or type(t) is not torch.Tensor:
            return t.detach().clone().requires_grad_(t.requires_grad) if t.is_leaf else t.clone()
        memory = t.untyped_storage()
        if memory.data_ptr() not in storages:
            storages[memory.data_ptr()] = torch.empty(0, dtype=torch.uint8, device=t.device).set_(memory.clone())
        made = torch.empty(0, dtype=t.dtype, device=t.device)
        made.set_(storages[memory.data_ptr()].untyped_storage(), t.storage_offset(), t.size(), t.stride())
        if t.is_conj():
            made = made.conj()
        if t.is_neg():
            made = torch._neg_view(made)
        return made.requires_grad_(t.requires_grad)

    same: dict[int, torch.Tensor] = {}

    def once(t: torch.Tensor) -> torch.Tensor:
        if id(t) not in same:
            same[id(t)] = copied(t)
        return same[id(t)]

    return pytree.tree_map_only(torch.Tensor, once, tree)


def _arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in [*((f"argument {i}", a) for i, a in enumerate(args)), *kwargs.items()]:
        for path, leaf in pytree.tree_leaves_with_path(value):
            if isinstance(leaf, torch.Tensor):
                yield f"{name}{pytree.keystr(path)}", leaf


def _state(program: Any) -> list[tuple[str, torch.Tensor]]:
    owner = getattr(program, "__self__", program)
    if not isinstance(owner, torch.nn.Module):
        return []
    return [*owner.named_parameters(), *owner.named_buffers()]


@contextmanager
def _restored(program: Any) -> Iterator[None]:
    """Afterwards a module's tensors and the random numbers are as they were."""
    state = [(t, t.detach().clone()) for _, t in _state(program)]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):
        try:
            yield
        finally:
            with torch.no_grad():
                for t, old in state:
                    if not identical(t, old):
                        t.copy_(old)


def _unused(name: str, names: Mapping[str, Any]) -> str:
    if name not in names:
        return name
    return next(new for i in range(2, len(names) + 3) if (new := f"{name} ({i})") not in names)
