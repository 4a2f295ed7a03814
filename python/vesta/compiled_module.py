"""A compiled module: a second object with the same attributes, whose calls are compiled.

``vesta.compile(model)`` returns a *wrapper* of the model. Its class is derived from the model's, and its ``__dict__``
*is* the model's. So both have the same parameters, buffers, submodules, hooks and plain attributes, whichever of the
two changes them, and everything that the class defines works on the wrapper as on the model. Only calls differ. They
run the model itself, compiled: ``self`` is the model inside of ``forward`` and of hooks. As with ``torch.compile``, the
model is
``wrapper._orig_mod``. Some methods are compiled when they are called by name (:mod:`vesta.compiled_method`), the others
are not, and ``self`` is the wrapper in all of them.

Pickling or copying a wrapper pickles or copies the model; the result is not compiled.
"""

from __future__ import annotations

import abc
import copy
import inspect
import sys
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any, cast

import torch

from vesta import _C
from vesta.compiled_method import CompiledMethods, WrapperMethod

__all__ = ["is_wrapper", "make_wrapper", "methods_of", "original_of"]

_class_of = object.__dict__["__class__"]
_wrapper_classes: weakref.WeakValueDictionary[tuple[type, frozenset[str]], type] = weakref.WeakValueDictionary()


def is_wrapper(module: Any) -> bool:
    return issubclass(type(module), _WrapperMethods)


def original_of(wrapper: Any) -> torch.nn.Module:
    """The model of a wrapper."""
    return cast(torch.nn.Module, object.__getattribute__(wrapper, "_vesta_original"))


def methods_of(wrapper: Any) -> CompiledMethods | None:
    return cast(CompiledMethods | None, object.__getattribute__(wrapper, "_vesta_methods"))


def make_wrapper(
    model: torch.nn.Module, call: Callable[..., Any], settings: Any = None, methods: CompiledMethods | None = None
) -> Any:
    """A wrapper of ``model`` whose calls go to ``call``; ``settings``: those that it is compiled with."""
    cls = type(model)
    wrapper: Any = object.__new__(_wrapper_class(cls, methods.names(cls) if methods else frozenset()))
    object.__setattr__(wrapper, "__dict__", model.__dict__)
    object.__setattr__(wrapper, "_vesta_original", model)
    object.__setattr__(wrapper, "_vesta_methods", methods)
    object.__setattr__(wrapper, "_vesta_settings", settings)
    object.__setattr__(wrapper, "_vesta_call", call)
    # What fully_shard and the like keep of the model, by its identity.
    composable = sys.modules.get("torch.distributed._composable_state")
    states = getattr(composable, "_module_state_mapping", {})
    if model in states:
        states[wrapper] = states[model]
    return wrapper


class _Signature:
    """The signature of a wrapper is that of ``forward``, the signature of its class that of the model's class."""

    def __get__(self, wrapper: Any, owner: type) -> inspect.Signature:
        try:
            return inspect.signature(_class_of_model(owner) if wrapper is None else original_of(wrapper).forward)
        except (TypeError, ValueError):
            raise AttributeError("__signature__") from None


class _SlotOfModel:
    """An attribute that the model has in ``__slots__``, not in ``__dict__``."""

    def __init__(self, slot: types.MemberDescriptorType) -> None:
        self.slot = slot

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        return self if wrapper is None else self.slot.__get__(original_of(wrapper))

    def __set__(self, wrapper: Any, value: Any) -> None:
        self.slot.__set__(original_of(wrapper), value)

    def __delete__(self, wrapper: Any) -> None:
        self.slot.__delete__(original_of(wrapper))


class _ClassOfModel:
    """A wrapper's ``__class__`` is the model's class. Assigning another class changes the model and the wrapper."""

    __slots__ = ()

    def _get(self) -> type:
        return type(original_of(self))

    def _set(self, cls: type) -> None:
        original_of(self).__class__ = cls
        _follow(self)

    __class__ = property(_get, _set)
    del _get, _set


class _WrapperMethods(_ClassOfModel):
    """The methods in which a wrapper differs from the model, whatever the model's class defines."""

    __slots__ = ()
    __signature__ = _Signature()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Does not call the model's ``__init_subclass__``, because the wrapper's class is not the author's."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """``type(self)(...)`` in a method of the model makes another, uncompiled model."""
        return _class_of_model(cls)(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Dynamo traces this method and finds the model, or that the model is disabled.
        for_dynamo = torch.compiler.is_dynamo_compiling() and self._vesta_settings is not None
        return self._vesta_plain(*args, **kwargs) if for_dynamo else self._vesta_call(*args, **kwargs)

    def _vesta_plain(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own call, with the wrapper as ``self``."""
        return super().__call__(*args, **kwargs)  # type: ignore[misc]

    @property
    def _torchdynamo_orig_callable(self) -> torch.nn.Module:
        """The module that torch.compile and torch.export trace; for a disabled module, the wrapper itself."""
        if isinstance(self._vesta_call, _C.CapturedFunction):
            return original_of(self)
        raise AttributeError("_torchdynamo_orig_callable")

    def __prepare_scriptable__(self) -> Any:
        """The module that torch.jit.script compiles."""
        model: Any = original_of(self)
        return model.__prepare_scriptable__() if hasattr(model, "__prepare_scriptable__") else model

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)  # type: ignore[misc]
        except AttributeError:
            if _follow(self):
                return getattr(self, name)
            raise

    @property
    def _orig_mod(self) -> torch.nn.Module:
        return original_of(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The model itself, even if it refers to a method of its wrapper. The written file does not need Vesta.
        return typing.cast, (None, original_of(self))

    def __getstate__(self) -> Any:
        return original_of(self).__getstate__()

    def __copy__(self) -> torch.nn.Module:
        return copy.copy(original_of(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
        return copy.deepcopy(original_of(self), memo)


def _class_of_model(wrapper_class: type) -> type:
    return next(base for base in wrapper_class.__mro__ if not issubclass(base, _ClassOfModel))


# The interpreter calls the value of the slot _vesta_call, so there is no Python frame between a caller and the model.
_SLOTS = ("_vesta_call", "_vesta_methods", "_vesta_original", "_vesta_settings")


class _WrapperBase(_WrapperMethods, torch.nn.Module):
    """Has the slots, so that the classes of all wrappers have one layout and a wrapper can change its class."""

    __slots__ = _SLOTS


def _wrapper_class(cls: type, methods: frozenset[str]) -> type:
    made = _wrapper_classes.get((cls, methods))
    if made is not None:
        return made
    body: dict[str, Any] = {n: vars(cls)[n] for n in ("__module__", "__qualname__", "__doc__") if n in vars(cls)}
    body.update((name, WrapperMethod(name)) for name in methods)
    body["__call__"] = _WrapperMethods.__call__
    if issubclass(cls, torch.fx.GraphModule):
        # A GraphModule writes to the class of the object on which these are called.
        body["__call__"] = _call_graph
        body["recompile"] = lambda wrapper: cast(Any, original_of(wrapper)).recompile()
    try:
        made = _new_class(cls, (_WrapperBase, cls), {**body, "__slots__": ()})
    except TypeError:  # cls has slots, so no other class with slots can be a base beside it
        slots = {
            name: _SlotOfModel(value)
            for base in reversed(cls.__mro__)
            for name, value in vars(base).items()
            if isinstance(value, types.MemberDescriptorType)
        }
        made = _new_class(cls, (_WrapperMethods, cls), {**body, **slots, "__slots__": _SLOTS})
    return _wrapper_classes.setdefault((cls, methods), made)


def _call_graph(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
    # Dynamo traces the __call__ of a torch.fx.GraphModule.
    for_dynamo = torch.compiler.is_dynamo_compiling() and wrapper._vesta_settings is not None
    return wrapper._call_impl(*args, **kwargs) if for_dynamo else wrapper._vesta_call(*args, **kwargs)


def _new_class(cls: type, bases: tuple[type, ...], body: dict[str, Any]) -> type:
    """Makes a class with the metaclass of ``cls`` without running the metaclass's own code, such as a registry's."""
    metaclass = type(cls)
    create = abc.ABCMeta.__new__ if issubclass(metaclass, abc.ABCMeta) else type.__new__
    made: type = create(metaclass, cls.__name__, bases, body)
    _C.call_by_slot(made)
    return made


def _follow(wrapper: Any) -> bool:
    """Adapts the wrapper's class to the model's, which parametrizations change. True if it had another class."""
    cls, methods = type(original_of(wrapper)), methods_of(wrapper)
    wanted = _wrapper_class(cls, methods.names(cls) if methods else frozenset())
    if type(wrapper) is wanted:
        return False
    _class_of.__set__(wrapper, wanted)
    return True
