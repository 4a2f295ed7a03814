"""Functions without Python code: a compile captures Python frames, and their calls have none."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["NO_PYTHON", "computes_tensors", "in_python"]

NO_PYTHON = (
    types.BuiltinFunctionType,
    types.ClassMethodDescriptorType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
)


def computes_tensors(function: Any) -> bool:
    """Whether ``function``, one of NO_PYTHON, belongs to torch, as ``torch.sin`` and ``torch.Tensor.exp`` do."""
    owner = getattr(function, "__objclass__", None)
    owner = getattr(function, "__self__", None) if owner is None else owner
    if owner is None:  # a static method: those of torch.sin and its like have one class
        return getattr(torch._C._VariableFunctions, function.__name__, None) is function
    if isinstance(owner, types.ModuleType):
        name = owner.__name__
    else:
        name = (owner if isinstance(owner, type) else type(owner)).__module__
    return name == "torch" or name.startswith("torch.")


def in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, or a Python function that calls it if a call of ``function`` has no Python frame of its own."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not isinstance(inner, (*NO_PYTHON, operator.methodcaller)):
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call
