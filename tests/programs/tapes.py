"""A function with gradients, traced to a tape and compiled from it, without a capture of its Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

import vesta
from vesta import _C
from vesta.training import compile_graph_with_gradients

__all__ = ["FromTape"]


class FromTape:
    """`function` must do with tensors only what is on the tape. Traced anew for each structure and sizes of arguments.

    `dynamic`: traced once, with a symbol for every size of the arguments that are no parameters.
    """

    def __init__(self, function: Callable[..., Any], *, dynamic: bool = False, **options: Any) -> None:
        self.function = function
        self.dynamic = dynamic
        self.options = vesta.make_options({"strict": True, **options})
        self.compiled: dict[Any, tuple[Callable[..., list[Any]], list[Any], Any]] = {}
        self.tapes: list[_C.Tape] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        given = [x for x in leaves if isinstance(x, torch.Tensor)]
        integers = [x for x in leaves if self.is_size(x)]
        key = (str(spec), *(self.key_of(x) for x in leaves), torch.is_grad_enabled())
        if key not in self.compiled:
            self.compiled[key] = self.compile(leaves, spec, given, integers)
        run, captured, out_spec = self.compiled[key]
        return pytree.tree_unflatten(run(*given, *captured, *integers), out_spec)

    def is_size(self, x: Any) -> bool:
        return self.dynamic and isinstance(x, int) and not isinstance(x, bool)

    def key_of(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return (x.dim() if self.dynamic else tuple(x.shape)), x.dtype, x.requires_grad
        return "an integer" if self.is_size(x) else x

    def compile(
        self, leaves: list[Any], spec: Any, given: list[Any], integers: list[int]
    ) -> tuple[Callable[..., list[Any]], list[Any], Any]:
        structure: list[Any] = []

        def program(*traced: Any) -> list[Any]:
            tensors, sizes = iter(traced[: len(given)]), iter(traced[len(given) :])
            full = [
                next(tensors) if isinstance(x, torch.Tensor) else next(sizes) if self.is_size(x) else x for x in leaves
            ]
            args, kwargs = pytree.tree_unflatten(full, spec)
            results, out_spec = pytree.tree_flatten(self.function(*args, **kwargs))
            structure.append(out_spec)
            return results

        symbolic = [[self.dynamic] * max(1, x.dim()) for x in given] + [[True] for _ in integers]
        with mock.patch.object(torch.compiler, "_is_compiling_flag", True):
            tape, inputs = _C.trace_tape(program, [*given, *integers], symbolic)
        self.tapes.append(tape)
        run = compile_graph_with_gradients(tape, [*inputs, *integers], self.options)
        return run, inputs[len(given) :], structure[-1]
