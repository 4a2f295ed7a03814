"""Compiled methods of a compiled module: ``wrapper.forward``, ``wrapper.training_step``.

In a call of the wrapper, ``self`` is the model. In a method that is called by its name, compiled or not, ``self`` is
the wrapper, so that its ``self(...)`` and ``self.forward(...)`` are compiled wherever Python executes them.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from vesta import _C
from vesta.compiled_function import Compiled, CompiledFunction, Settings, capture, compile_callable
from vesta.errors import UserError, did_you_mean

__all__ = ["STEPS", "CompiledMethods", "WrapperMethod", "check_methods"]

# The methods that Lightning's trainers call instead of the module.
STEPS = ("training_step", "validation_step", "test_step", "predict_step")


def run(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


class Override(CompiledFunction):
    """For a function that an instance has instead of a method.

    It may be a new closure in each call, because trainers redirect ``forward`` with closures. So :func:`run` is
    compiled, and the function is an argument of it: it is guarded by its code and contents, and no reference to it is
    kept.
    """

    __slots__ = ()

    def __init__(self, original: Callable[..., Any], settings: Settings, captured: _C.CapturedFunction) -> None:
        self._wrap(original, settings, functools.partial(captured, original))


class CompiledMethods:
    """The compiled methods of a wrapper: ``forward``, the steps of its class, and those of ``methods=``.

    ``is_plain``: tells whether a callable is Python code that is neither compiled nor disabled. Others stay unchanged.
    """

    __slots__ = ("is_plain", "made", "overrides", "settings")

    def __init__(self, settings: Settings, is_plain: Callable[[Any], bool]) -> None:
        self.settings, self.is_plain = settings, is_plain
        self.made: dict[str, tuple[Any, Any]] = {}  # by name: a function and its compiled form
        self.overrides: dict[str, _C.CapturedFunction] = {}

    def names(self, cls: type) -> frozenset[str]:
        """The names of the methods that are compiled for a model of class ``cls``."""
        steps = (name for name in STEPS if isinstance(getattr(cls, name, None), types.FunctionType))
        return frozenset(("forward", *steps, *self.settings.methods))

    def compiled(self, name: str, function: Any, is_override: bool) -> Any:
        """The compiled form of ``function``, the present value of the attribute ``name``."""
        known, made = self.made.get(name, (None, None))
        if made is not None and known is function:
            return made
        if not self.is_plain(function):
            return function
        if is_override:
            if name not in self.overrides:
                self.overrides[name] = capture(run, self.settings, getattr(function, "__qualname__", name))
            return Override(function, self.settings, self.overrides[name])
        made = compile_callable(function, self.settings)
        self.made[name] = function, made
        return made

    def original(self, value: Any) -> Any:
        """The inverse of :meth:`compiled`; ``value`` itself if that is not compiled."""
        own = isinstance(value, Compiled) and value._vesta_settings is self.settings
        return value.__wrapped__ if own else value

    def captured(self) -> list[_C.CapturedFunction]:
        """The native objects that capture the methods."""
        made = [object.__getattribute__(made, "_vesta_call") for _, made in self.made.values()]
        return [*made, *self.overrides.values()]


def as_compiled(found: Any, wrapper: Any, name: str) -> Any:
    """The value of ``wrapper.<name>`` if the model's own attribute is ``found``.

    The tracer knows this function by its name. In a trace it returns ``found``, which is traced like any other
    callable.
    """
    methods = wrapper._vesta_methods
    is_override = name in wrapper.__dict__
    if not isinstance(found, types.MethodType):
        return methods.compiled(name, found, is_override)
    owner = found.__self__
    if owner is wrapper._vesta_original:
        owner = wrapper
    return types.MethodType(methods.compiled(name, found.__func__, is_override), owner)


class WrapperMethod:
    """A descriptor in the class of a wrapper: reads the model's method and compiles it.

    Writing it through the wrapper sets the model's attribute, uncompiled and bound to the model.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, wrapper: Any, owner: Any = None) -> Any:
        if wrapper is None:
            return getattr(super(owner, owner), self.name)
        found = getattr(wrapper._vesta_original, self.name)
        if torch.compiler.is_dynamo_compiling():
            # Dynamo traces this. torch 2.15 supports no types.MethodType there, torch 2.11 no function.__get__.
            own = isinstance(found, types.MethodType) and found.__self__ is wrapper._vesta_original
            return functools.partial(found.__func__, wrapper) if own else found
        return as_compiled(found, wrapper, self.name)

    def __set__(self, wrapper: Any, value: Any) -> None:
        methods, model = wrapper._vesta_methods, wrapper._vesta_original
        if isinstance(value, types.MethodType) and value.__self__ is wrapper:
            value = types.MethodType(methods.original(value.__func__), model)
        model.__dict__[self.name] = methods.original(value)

    def __delete__(self, wrapper: Any) -> None:
        object.__delattr__(wrapper._vesta_original, self.name)


def check_methods(model: Any, names: Iterable[str]) -> None:
    """Raises :class:`vesta.errors.UserError` if ``methods=names`` does not fit ``model``."""
    if not isinstance(model, torch.nn.Module):
        what = type(model).__name__
        raise UserError(f"methods is for modules, not for {what}; apply vesta.compile to the function or method itself")
    for name in names:
        if name.startswith("__") and name.endswith("__"):
            raise UserError(f'methods takes methods that are called by name, not the special method "{name}"')
        cls = type(model)
        if isinstance(getattr(cls, name, None), property):
            raise UserError(f'"{name}" of {cls.__qualname__} is a property; put @vesta.compile below @property')
        if not hasattr(model, name):
            known = [n for n in dir(model) if not n.startswith("__") and callable(getattr(cls, n, None))]
            raise UserError(f'{cls.__qualname__} has no method "{name}"{did_you_mean(name, known)}')
        if not callable(getattr(model, name)):
            raise UserError(f'"{name}" of {cls.__qualname__} is not a method')
