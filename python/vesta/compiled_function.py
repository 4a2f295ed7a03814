"""A compiled function, method, partial or callable object. It differs from the original in its calls only."""

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
from vesta.builtin_functions import NO_PYTHON, in_python
from vesta.errors import UserError
from vesta.function import remember

__all__ = [
    "Compiled",
    "CompiledFunction",
    "NamedModules",
    "Pattern",
    "RepeatedLayers",
    "Settings",
    "capture",
    "compile_callable",
    "compile_class",
]


# What `only` and `skip` take: the name of a module, with wildcards, or a class of modules.
Pattern = str | type[torch.nn.Module]


class RepeatedLayers:
    """In the place of a pattern: the layers of which a model has several of one class in a list."""


NamedModules = tuple[tuple[torch.nn.Module, str], ...]


@dataclass(frozen=True)
class Settings:
    """How a callable is compiled. Equal arguments of :func:`vesta.compile` give equal settings."""

    fullgraph: bool
    arguments: str
    methods: tuple[str, ...]
    options: _C.Options = field(compare=False)
    only: tuple[Pattern | type[RepeatedLayers], ...] | None = None
    skip: tuple[Pattern, ...] = ()
    # The modules that `only` and `skip` name in the model that is compiled.
    chosen: tuple[NamedModules, NamedModules] = field(default=((), ()), compare=False)


def capture(original: Callable[..., Any], settings: Settings, name: str = "") -> _C.CapturedFunction:
    """The native object that captures ``original``. ``name``: its name in reports, if not its own."""
    name = name or metadata(original).get("__qualname__") or type(original).__qualname__
    captured = _C.capture(in_python(original), settings.options, name, settings.fullgraph, *settings.chosen)
    remember(captured)
    return captured


def metadata(original: Callable[..., Any]) -> dict[str, Any]:
    """Name, documentation and so on, as far as ``original`` has them."""
    found: dict[str, Any] = {}
    for name in functools.WRAPPER_ASSIGNMENTS:
        with contextlib.suppress(Exception):  # a __getattr__ may raise anything
            found[name] = getattr(original, name)
    return found


class Compiled(_C.CompiledBase):
    """The result of :func:`vesta.compile` for a callable that is neither a module nor a class.

    Name, documentation, signature and every other attribute are the original's. Writing an attribute changes the
    original object, but never an original function. In a class body it binds like the original. Pickling and copying
    refer to it by name if the name leads to it; otherwise the result is not compiled.
    """

    # The interpreter calls the object in the slot _vesta_call of the base class, so there is no Python frame between a
    # caller and the original.
    __slots__ = ("__dict__", "__weakref__", "_vesta_settings")

    def __init__(self, original: Callable[..., Any], settings: Settings) -> None:
        self._wrap(original, settings, capture(original, settings))

    def _wrap(self, original: Callable[..., Any], settings: Settings, call: Callable[..., Any]) -> None:
        """Makes this object stand for ``original``; calls go to ``call``."""
        self.__dict__.update(metadata(original), __wrapped__=original)
        object.__setattr__(self, "_vesta_settings", settings)
        object.__setattr__(self, "_vesta_call", call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Dynamo traces this method and thereby finds the original.
        for_dynamo = torch.compiler.is_dynamo_compiling()
        return self.__wrapped__(*args, **kwargs) if for_dynamo else self._vesta_call(*args, **kwargs)

    @property
    def _torchdynamo_orig_callable(self) -> Any:
        """The callable that torch.compile and torch.export trace."""
        return self.__wrapped__

    @property
    def _torchdynamo_wrapper_id(self) -> int:
        return id(self)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """A function's class if the original is a function: torch.fx, TorchScript and ``inspect`` test for it."""
        return types.FunctionType if isinstance(self.__wrapped__, types.FunctionType) else type(self)

    def __prepare_scriptable__(self) -> Any:
        """The callable that torch.jit.script compiles."""
        return self.__wrapped__

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # the object was not initialised
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
        if isinstance(original, NO_PYTHON):
            return copy.copy, (original,)
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
    """For a callable that becomes a method in a class body."""

    __slots__ = ()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        # Dynamo does not support types.MethodType of an object that is not a function.
        for_dynamo = torch.compiler.is_dynamo_compiling()
        return functools.partial(self.__wrapped__, instance) if for_dynamo else types.MethodType(self, instance)


_C.call_by_slot(Compiled)
_C.call_by_slot(CompiledFunction)


def compile_callable(original: Callable[..., Any], settings: Settings) -> Compiled:
    binds = hasattr(type(original), "__get__") and not isinstance(original, types.MethodType)
    return (CompiledFunction if binds else Compiled)(original, settings)


def compile_class(cls: type, settings: Settings) -> type:
    """Replaces ``cls.__call__`` by its compiled form and returns ``cls``."""
    call = next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)
    if call is None:
        raise UserError(f"class {cls.__qualname__} has no __call__; compile one of its methods or a function instead")
    if isinstance(call, Compiled):
        call = call.__wrapped__
    if isinstance(call, types.FunctionType):
        cls.__call__ = CompiledFunction(call, settings)  # type: ignore[method-assign]
    return cls
