"""A compiled function, method, partial or callable object: the original in everything but its calls."""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from vesta import _C
from vesta.errors import UserError
from vesta.function import remember

__all__ = ["Compiled", "CompiledFunction", "Settings", "capture", "compile_callable", "compile_class"]


@dataclass(frozen=True)
class Settings:
    """How something is compiled. Equal for equal arguments of :func:`vesta.compile`."""

    fullgraph: bool
    arguments: str
    methods: tuple[str, ...]
    options: _C.Options = field(compare=False)


def capture(original: Callable[..., Any], settings: Settings, name: str = "") -> _C.CapturedFunction:
    """The compiler's own object for ``original``. ``name``: what reports call it, if not by its own name."""
    name = name or metadata(original).get("__qualname__") or type(original).__qualname__
    captured = _C.capture(original, settings.options, name, settings.fullgraph)
    remember(captured)
    return captured


def metadata(original: Callable[..., Any]) -> dict[str, Any]:
    """Name, documentation and so on, as far as there are any."""
    found: dict[str, Any] = {}
    for name in functools.WRAPPER_ASSIGNMENTS:
        with contextlib.suppress(Exception):  # a __getattr__ may raise anything
            found[name] = getattr(original, name)
    return found


class Compiled(_C.CompiledBase):
    """What :func:`vesta.compile` makes of a callable that is neither a module nor a class.

    Name, documentation, signature and every other attribute are the original's; writing an attribute changes an object
    that was compiled, but never a function. In a class body it binds as the original does. It pickles and copies as the
    original: by name where the name leads to it, and otherwise into something that is not compiled.
    """

    # The interpreter calls what the slot _vesta_call of the base class holds: no Python frame lies between a caller and
    # the original.
    __slots__ = ("__dict__", "__weakref__", "_vesta_settings")

    def __init__(self, original: Callable[..., Any], settings: Settings) -> None:
        self.adopt(original, settings, capture(original, settings))

    def adopt(self, original: Callable[..., Any], settings: Settings, call: Callable[..., Any]) -> None:
        """Is ``original`` from now on, called by ``call``."""
        self.__dict__.update(metadata(original), __wrapped__=original)
        object.__setattr__(self, "_vesta_settings", settings)
        object.__setattr__(self, "_vesta_call", call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Dynamo reads this and finds the original.
        plainly = torch.compiler.is_dynamo_compiling()
        return self.__wrapped__(*args, **kwargs) if plainly else self._vesta_call(*args, **kwargs)

    @property
    def _torchdynamo_orig_callable(self) -> Any:
        """What torch.compile and torch.export begin with."""
        return self.__wrapped__

    @property
    def _torchdynamo_wrapper_id(self) -> int:
        return id(self)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Of a function, a function's: torch.fx, TorchScript and ``inspect`` read those."""
        return types.FunctionType if isinstance(self.__wrapped__, types.FunctionType) else type(self)

    def __prepare_scriptable__(self) -> Any:
        """What torch.jit.script compiles."""
        return self.__wrapped__

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # of an object that __init__ has not made
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._owns(name):
            object.__setattr__(self, name, value)
        else:
            setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        if self._owns(name):
            object.__delattr__(self, name)
        else:
            delattr(self.__wrapped__, name)

    def _owns(self, name: str) -> bool:
        return name in self.__dict__ or isinstance(self.__wrapped__, types.FunctionType | types.MethodType)

    def __repr__(self) -> str:
        return f"<vesta.compile({self.__wrapped__!r})>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        original = self.__wrapped__
        if not isinstance(original, types.FunctionType):
            return original.__reduce_ex__(protocol)
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.__qualname__ if found is self else (copy.copy, (original,))

    def __copy__(self) -> Any:
        return self if isinstance(self.__wrapped__, types.FunctionType) else copy.copy(self.__wrapped__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self if isinstance(self.__wrapped__, types.FunctionType) else copy.deepcopy(self.__wrapped__, memo)


class CompiledFunction(Compiled):
    """Of what becomes a method in a class body."""

    __slots__ = ()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        # Dynamo knows no methods of objects.
        plainly = torch.compiler.is_dynamo_compiling()
        return functools.partial(self.__wrapped__, instance) if plainly else types.MethodType(self, instance)


_C.call_by_slot(Compiled)
_C.call_by_slot(CompiledFunction)


def compile_callable(original: Callable[..., Any], settings: Settings) -> Compiled:
    binds = hasattr(type(original), "__get__") and not isinstance(original, types.MethodType)
    return (CompiledFunction if binds else Compiled)(original, settings)


def compile_class(cls: type, settings: Settings) -> type:
    """``cls`` itself, whose instances from now on are called compiled."""
    call = next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)
    if call is None:
        raise UserError(f"instances of {cls.__qualname__} cannot be called; compile one of its methods, or a function")
    if isinstance(call, Compiled):
        call = call.__wrapped__
    if isinstance(call, types.FunctionType):
        cls.__call__ = CompiledFunction(call, settings)  # type: ignore[method-assign]
    return cls
