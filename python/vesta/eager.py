"""Keeping code out of compiled programs, and finding out whether code is being compiled."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

import torch

from vesta.compiled_function import Compiled
from vesta.compiled_module import is_wrapper, make_wrapper, original_of
from vesta.errors import UserError

__all__ = ["disable", "innermost", "is_compiling"]

F = TypeVar("F", bound=Callable[..., Any])


@overload
def disable(function: F, recursive: bool = True, *, reason: str | None = None) -> F: ...
@overload
def disable(function: None = None, recursive: bool = True, *, reason: str | None = None) -> Callable[[F], F]: ...
def disable(function: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keeps a function, module or class out of compiled code. A call of it is a graph break and runs uncompiled.

    ``disable`` is also a decorator, with and without arguments. The functions that ``function`` calls are not compiled
    either, except those that :func:`vesta.compile` returned; with ``recursive=False`` they are compiled.
    :func:`vesta.explain` shows ``reason``. ``torch.compiler.disable`` has the same effect on Vesta, and
    ``vesta.disable`` on ``torch.compile``.
    """
    if function is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    original = innermost(function)
    if isinstance(original, type):
        for name in ("__init__", "__call__"):
            method: Any = getattr(original, name, None)
            if isinstance(method, types.FunctionType | Compiled):
                setattr(original, name, disable(method, recursive, reason=reason))
        return original
    if not callable(original):
        raise UserError(f"vesta.disable takes a function, module or class, not {type(original).__name__}")

    def disabled(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    module = isinstance(original, torch.nn.Module)
    if not module:
        own = isinstance(original, types.FunctionType)
        functools.update_wrapper(disabled, original, updated=("__dict__",) if own else ())
    # The attributes that torch.compiler.disable sets.
    vars(disabled).update(
        _torchdynamo_disable=True,
        _torchdynamo_disable_recursive=bool(recursive),
        _torchdynamo_disable_msg=reason,
        _torchdynamo_orig_callable=original,
        _torchdynamo_wrapper_id=id(disabled),
    )
    return make_wrapper(original, disabled) if module else disabled


def innermost(function: Any) -> Any:
    """The original behind ``function`` if Vesta or torch compiled or disabled it; otherwise ``function`` itself."""
    while True:
        if isinstance(function, Compiled):
            function = function.__wrapped__
        elif is_wrapper(function):
            function = original_of(function)
        elif isinstance(function, types.MethodType) and isinstance(function.__func__, Compiled):
            function = types.MethodType(function.__func__.__wrapped__, function.__self__)
        elif isinstance(function, types.FunctionType) and vars(function).get("_torchdynamo_wrapper_id") == id(function):
            function = vars(function)["_torchdynamo_orig_callable"]
        elif is_torchs(function):
            function = function._orig_mod
        else:
            return function


def is_torchs(module: Any) -> bool:
    """Whether ``module`` is the result of torch.compile for a module."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    return dynamo is not None and isinstance(module, dynamo.OptimizedModule)


def is_compiling() -> bool:
    """Whether the calling code is being captured, by Vesta or by ``torch.compile``."""
    return torch.compiler.is_compiling()


def enter_nothing() -> Iterator[None]:
    """In a trace: the generator of a context manager that concerns code outside of the trace alone."""
    yield
