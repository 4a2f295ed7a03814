"""The direct entry point: a callable on flat arguments, traced and compiled without Dynamo."""

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
    """Makes ``function``, an object of the compiler's with ``reset()`` and ``report()``, known to the process."""
    _functions[next(_order)] = function


def alive() -> list[Any]:
    """What was remembered and still exists, oldest first."""
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
    """Wraps ``program``; ``tensors`` and ``integers`` say what is known of its tensor and int arguments, in order.

    ``traced``: the same function of its arguments, for tracing.
    """
    compiled = _C.compile(program, name, options, list(tensors), list(integers), traced)
    remember(compiled)
    return compiled


def trace_and_compile(function: Callable[..., Any], **options: Any) -> _C.CompiledFunction:
    """Compiles ``function`` by running it on traced tensors.

    ``function`` takes tensors, ints, floats, bools, strings and None by position and returns a tensor, number or None,
    or a flat tuple or list of these. It must be a pure function of its arguments in everything but tensors: Python side
    effects happen while it is traced only. ``torch.compile(..., backend="vesta")`` has no such restriction.

    Returns a callable with the methods ``report()`` and ``reset()``. Keyword arguments are :mod:`vesta.options`.
    """
    return compile_flat(function, make_options(options), name=getattr(function, "__name__", ""))


def reset() -> None:
    """Forgets every compiled variant of the process; the next calls compile again."""
    for function in alive():
        function.reset()
