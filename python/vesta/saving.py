"""``vesta.save`` and ``vesta.load``: a compiled program in a file, run in another process without a compile.

A saved program has every variant that was compiled (for shapes, dtypes and structures of arguments), its code and,
unless ``weights=False``, the weights. Weights on the CPU are mapped into memory. Weights on a GPU are copied back to
it, and kernels for a GPU run without NVRTC, also on later GPUs. C++ programs load the same files
(``include/vesta/load.h``). The format is not pickle: a file can only run its kernels and ATen's operators.
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from vesta import _C
from vesta.compiled_function import Compiled
from vesta.compiled_module import is_wrapper
from vesta.eager import innermost
from vesta.errors import UserError

__all__ = ["Loaded", "Saved", "load", "save"]


@dataclass(frozen=True)
class Saved:
    """A summary of the file that :func:`save` wrote."""

    path: str
    bytes: int
    variants: int
    dropped: tuple[str, ...]
    """Guards on the module, globals and flags. The loaded program assumes their values at the time of saving."""
    skipped: tuple[str, ...]
    """The reasons why other compiled variants are not in the file."""

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.variants} variants, {self.bytes:,} bytes"]
        lines += [f"left out: {reason}" for reason in self.skipped]
        if self.dropped:
            lines.append(
                f"{len(self.dropped)} guards on the program itself are not checked after loading (.dropped lists them)"
            )
        return "\n".join(lines)


def save(compiled: Callable[..., Any], path: str | os.PathLike[str], *, weights: bool = True) -> Saved:
    """Writes a compiled function or module to a file that :func:`load` and C++ programs run.

    Before saving, call the compiled program under ``torch.no_grad()`` with each kind of arguments that later calls will
    have. The variants compiled for these calls are saved if a call could run them now: a variant for ``train()`` is not
    saved after ``eval()``. The program must be one graph without breaks and may write to nothing but tensors.

    Args:
        compiled: A result of :func:`vesta.compile`.
        path: The file. An existing file is replaced atomically.
        weights: Whether to write parameters and buffers to the file. Otherwise pass them to ``load(..., weights=...)``.

    Raises:
        vesta.errors.UserError: No variant can be saved. The message has the reason and the line for each variant.
    """
    captured = getattr(compiled, "_vesta_call", None)
    if not (isinstance(compiled, Compiled) or is_wrapper(compiled)) or not isinstance(captured, _C.CapturedFunction):
        raise UserError(f"vesta.save takes a result of vesta.compile, not {type(compiled).__name__}")
    if captured.report().only:
        raise UserError(
            f"{type(innermost(compiled)).__name__} cannot be saved: only=... compiles parts of it, and Python the rest"
        )
    captured.wait()  # a variant that is still being compiled is saved as well
    original = innermost(compiled)
    names: dict[str, torch.Tensor] = {}
    if isinstance(original, torch.nn.Module):
        for named in (original.named_parameters, original.named_buffers):
            names.update(named(remove_duplicate=False))
    function, bound, passes_on = frame_of(original)
    parameters = [
        (p.name, int(p.kind)) if p.default is p.empty else (p.name, int(p.kind), p.default)
        for p in signature_of(original, function, bound, passes_on)
    ]
    told = _C.save_program(captured, os.fspath(path), parameters, passes_on, function, bound, names, weights)
    return Saved(os.fspath(path), told["bytes"], told["variants"], tuple(told["dropped"]), tuple(told["skipped"]))


def frame_of(original: Any) -> tuple[types.FunctionType, Any, bool]:
    """The Python function that a call of ``original`` runs, the object that is bound as its first argument, and whether
    it is ``torch.nn.Module.__call__``, which passes its arguments on to ``forward``."""
    if isinstance(original, types.FunctionType):
        return original, None, False
    if isinstance(original, types.MethodType) and isinstance(original.__func__, types.FunctionType):
        return original.__func__, original.__self__, False
    call = next((vars(base)["__call__"] for base in type(original).__mro__ if "__call__" in vars(base)), None)
    if not isinstance(call, types.FunctionType):
        raise UserError(
            f"an object of class {type(original).__name__} cannot be saved; save the function that it calls"
        )
    return call, original, call is torch.nn.Module.__call__


def signature_of(original: Any, function: Any, bound: Any, passes_on: bool) -> list[inspect.Parameter]:
    if passes_on:
        return list(inspect.signature(original.forward).parameters.values())
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    return parameters if bound is None else parameters[1:]


class Loaded:
    """A loaded program. Calls take the arguments of the saved program, by position or by name."""

    def __init__(self, program: _C.LoadedProgram, path: str) -> None:
        self._program = program
        self._path = path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program(*args, **kwargs)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The weights, by name. Writing to one in place changes the program."""
        return dict(self._program.weights())

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor], strict: bool = True) -> None:
        """Replaces weights by other tensors, which are used without a copy. Nothing is compiled.

        With ``strict``, the names must be exactly those of the weights.
        """
        own = {name for name, _ in self._program.weights()}
        if strict and own != set(state_dict):
            missing, unknown = sorted(own - set(state_dict)), sorted(set(state_dict) - own)
            raise UserError(f"weights of {self._path}: missing {missing}, unknown {unknown}; or pass strict=False")
        self._program.bind({name: tensor for name, tensor in state_dict.items() if name in own})

    def __repr__(self) -> str:
        return f"<vesta.load({self._path!r})>\n{self._program.describe()}"


def load(
    path: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    check_weights: bool = False,
) -> Loaded:
    """Loads a file that :func:`save` wrote.

    Nothing is traced. Nothing is compiled either, unless the file was made on another kind of CPU, for a later GPU or
    for another torch: then its graphs are compiled again. Weights are loaded to the devices that they were on.

    A loaded program has no eager program to fall back to. Arguments that fit no variant or require gradients are an
    error that names the difference.

    Args:
        path: The file.
        weights: Tensors by name, or a safetensors file, that replace or complete the weights in the file. Tensors must
            be on the weight's device and are used without a copy; weights of a file are copied to that device.
        check_weights: Read all weights and compare their digests with those in the file.

    Raises:
        vesta.errors.UserError: The file is missing, damaged or of another version, or cannot run on this machine, for
            example because its GPU is missing.
    """
    tensors = {n: t.detach() for n, t in weights.items()} if isinstance(weights, Mapping) else {}
    file = "" if weights is None or isinstance(weights, Mapping) else os.fspath(weights)
    return Loaded(_C.LoadedProgram(os.fspath(path), file, tensors, check_weights), os.fspath(path))
