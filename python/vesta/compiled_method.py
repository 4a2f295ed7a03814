"""Methods of a compiled module that are compiled themselves: ``twin.forward``, ``twin.training_step``.

What a call of the twin runs has the model as ``self``. A method that is called by its name has the twin, whether it is
compiled or not, so that its ``self(...)`` and ``self.forward(...)`` are compiled wherever Python executes them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from vesta import _C
from vesta.compiled_function import Compiled
from vesta.errors import UserError, did_you_mean

__all__ = ["STEPS", "CompiledMethods", "MethodOfTwin", "check_methods"]

# What the trainers of Lightning call in place of the module.
STEPS = ("training_step", "validation_step", "test_step", "predict_step")

MISSING: Any = object()


class CompiledMethods:
    """Which methods of a twin are compiled, and what they were compiled into.

    ``more``: names beside ``forward`` and the steps that the class defines. ``compiler`` makes the compiled function.
    """

    __slots__ = ("compiler", "made", "more")

    def __init__(self, compiler: Callable[[Any], Any], more: Iterable[str] = ()) -> None:
        self.compiler, self.more = compiler, tuple(more)
        self.made: dict[str, tuple[Any, Any]] = {}

    def names(self, cls: type) -> frozenset[str]:
        """For a model of class ``cls``."""
        steps = (name for name in STEPS if isinstance(getattr(cls, name, None), types.FunctionType))
        return frozenset(("forward", *steps, *self.more))

    def compiled(self, name: str, function: Any) -> Any:
        """``function``, which goes by that name at present, compiled."""
        known, made = self.made.get(name, (MISSING, None))
        if known is not function:
            made = self.compiler(function)
            self.made[name] = function, made
        return made

    def captured(self) -> list[_C.CapturedFunction]:
        """The compiler's objects of the methods that were called, in the order of their first calls."""
        made = [made for _, made in self.made.values() if isinstance(made, Compiled)]
        return [object.__getattribute__(compiled, "__call__") for compiled in made]

    def original(self, name: str, value: Any) -> Any:
        """The reverse, for what :meth:`compiled` gave under that name; anything else as it is."""
        known, made = self.made.get(name, (MISSING, MISSING))
        return known if value is made else value


def as_compiled(found: Any, twin: Any, name: str) -> Any:
    """What ``twin.<name>`` gives where the model's own attribute is ``found``.

    The tracer knows this function by its name: in a trace it gives ``found``, which is traced like any other callable.
    """
    methods = object.__getattribute__(twin, "_vesta_methods")
    if not isinstance(found, types.MethodType):
        return methods.compiled(name, found)
    owner = found.__self__
    if owner is object.__getattribute__(twin, "_vesta_original"):
        owner = twin
    return types.MethodType(methods.compiled(name, found.__func__), owner)


class MethodOfTwin:
    """In the class of a twin: the attribute of the model, compiled.

    Written through the twin, the attribute becomes the model's own: not compiled, and bound to the model.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, twin: Any, owner: Any = None) -> Any:
        if twin is None:
            return getattr(super(owner, owner), self.name)
        return as_compiled(getattr(twin._vesta_original, self.name), twin, self.name)

    def __set__(self, twin: Any, value: Any) -> None:
        methods, model = twin._vesta_methods, twin._vesta_original
        if isinstance(value, types.MethodType) and value.__self__ is twin:
            value = types.MethodType(methods.original(self.name, value.__func__), model)
        model.__dict__[self.name] = methods.original(self.name, value)

    def __delete__(self, twin: Any) -> None:
        object.__delattr__(twin._vesta_original, self.name)


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
