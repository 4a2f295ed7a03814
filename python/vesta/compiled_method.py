"""Methods of a compiled module that are compiled themselves: ``wrapper.forward``, ``wrapper.training_step``.

What a call of the wrapper runs has the model as ``self``. A method that is called by its name has the wrapper, whether
it is compiled or not, so that its ``self(...)`` and ``self.forward(...)`` are compiled wherever Python executes them.
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

__all__ = ["STEPS", "CompiledMethods", "MethodOfTwin", "check_methods"]

# What the trainers of Lightning call in place of the module.
STEPS = ("training_step", "validation_step", "test_step", "predict_step")


def run(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


class Override(CompiledFunction):
    """Of a function that an instance has in place of a method.

    It may be another closure in each call, as those are that trainers redirect ``forward`` with. So what is compiled is
    :func:`run`, to which it is an argument: it is guarded by what it does, and nothing here keeps it.
    """

    __slots__ = ()

    def __init__(self, original: Callable[..., Any], settings: Settings, captured: _C.CapturedFunction) -> None:
        self.adopt(original, settings, functools.partial(captured, original))


class CompiledMethods:
    """The methods of a wrapper that are compiled: ``forward``, the steps of its class, and those of ``methods=``.

    ``is_plain``: whether a callable is Python code that nobody has compiled or disabled. Others stay as they are.
    """

    __slots__ = ("is_plain", "made", "overrides", "settings")

    def __init__(self, settings: Settings, is_plain: Callable[[Any], bool]) -> None:
        self.settings, self.is_plain = settings, is_plain
        self.made: dict[str, tuple[Any, Any]] = {}  # by name: a function and what it was compiled into
        self.overrides: dict[str, _C.CapturedFunction] = {}

    def names(self, cls: type) -> frozenset[str]:
        """For a model of class ``cls``."""
        steps = (name for name in STEPS if isinstance(getattr(cls, name, None), types.FunctionType))
        return frozenset(("forward", *steps, *self.settings.methods))

    def compiled(self, name: str, function: Any, is_override: bool) -> Any:
        """``function``, which goes by that name at present, compiled."""
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
        """The reverse of :meth:`compiled`; of anything else ``value`` itself."""
        own = isinstance(value, Compiled) and value._vesta_settings is self.settings
        return value.__wrapped__ if own else value

    def captured(self) -> list[_C.CapturedFunction]:
        """The compiler's objects."""
        made = [object.__getattribute__(made, "_vesta_call") for _, made in self.made.values()]
        return [*made, *self.overrides.values()]


def as_compiled(found: Any, wrapper: Any, name: str) -> Any:
    """What ``wrapper.<name>`` gives where the model's own attribute is ``found``.

    The tracer knows this function by its name: in a trace it gives ``found``, which is traced like any other callable.
    """
    methods = wrapper._vesta_methods
    is_override = name in wrapper.__dict__
    if not isinstance(found, types.MethodType):
        return methods.compiled(name, found, is_override)
    owner = found.__self__
    if owner is wrapper._vesta_original:
        owner = wrapper
    return types.MethodType(methods.compiled(name, found.__func__, is_override), owner)


class MethodOfTwin:
    """In the class of a wrapper: the attribute of the model, compiled.

    Written through the wrapper, the attribute becomes the model's own: not compiled, and bound to the model.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, wrapper: Any, owner: Any = None) -> Any:
        if wrapper is None:
            return getattr(super(owner, owner), self.name)
        found = getattr(wrapper._vesta_original, self.name)
        if torch.compiler.is_dynamo_compiling():
            # Dynamo reads this. torch 2.15's knows no types.MethodType, torch 2.11's no __get__ of functions.
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
    """Raises a :class:`vesta.errors.UserError` if ``methods=names`` does not fit ``model``."""
    if not isinstance(model, torch.nn.Module):
        what = type(model).__name__
        raise UserError(f"methods is for modules, not for {what}; compile a function or a method of a class itself")
    for name in names:
        if name.startswith("__") and name.endswith("__"):
            raise UserError(f'methods takes methods that are called by their name, not "{name}"')
        cls = type(model)
        if isinstance(getattr(cls, name, None), property):
            raise UserError(f'"{name}" of {cls.__qualname__} is a property; compile its getter, below @property')
        if not hasattr(model, name):
            known = [n for n in dir(model) if not n.startswith("__") and callable(getattr(cls, n, None))]
            raise UserError(f'{cls.__qualname__} has no method "{name}"{did_you_mean(name, known)}')
        if not callable(getattr(model, name)):
            raise UserError(f'"{name}" of {cls.__qualname__} is no method')
