"""The direct entry point: traces and compiles a callable on flat arguments, without Dynamo."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from vesta import _C
from vesta.options import make_options

__all__ = ["alive", "compile_flat", "remember", "reset", "trace_and_compile"]

_functions: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_order = itertools.count()


def remember(function: Any) -> None:
    """Adds ``function``, a native object with ``reset()`` and ``report()``, to those that :func:`alive` lists."""
    _functions[next(_order)] = function


def alive() -> list[Any]:
    """The remembered objects that still exist, oldest first."""
    return [function for ref in _functions.valuerefs() if (function := ref()) is not None]


def compile_flat(
    program: Callable[..., Any],
    options: _C.Options,
    *,
    name: str = "",
    tensors: Sequence[_C.ArgumentInfo] = (),
    integers: Sequence[_C.ArgumentInfo] = (),
    traced: Callable[..., Any] | None = None,
) -> _C.CompiledFunction:
    """Wraps ``program``. ``tensors`` and ``integers``: facts about its tensor and int arguments, in order.

    ``traced``: the callable to trace, which computes the same as ``program``.
    """
    compiled = _C.compile(program, name, options, list(tensors), list(integers), traced)
    remember(compiled)
    return compiled


def trace_and_compile(function: Callable[..., Any], **options: Any) -> _C.CompiledFunction:
    """Compiles ``function`` by running it on traced tensors.

    ``function`` takes tensors, ints, floats, bools, strings and None by position and returns a tensor, number or None,
    or a flat tuple or list of these. Apart from tensors it must be a pure function of its arguments: Python side
    effects happen only while it is traced. ``torch.compile(..., backend="vesta")`` has no such restriction.

    Returns a callable with the methods ``report()`` and ``reset()``. The keyword arguments are options
    (:mod:`vesta.options`).
    """
    return compile_flat(function, make_options(options), name=getattr(function, "__name__", ""))


def reset() -> None:
    """Forgets every compiled variant of the process. The next calls compile again."""
    for function in alive():
        function.reset()
