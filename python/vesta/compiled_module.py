"""A compiled module: a second object over the same attributes, whose calls are compiled.

``vesta.compile(model)`` returns a *wrapper* of the model. Its class is made from the model's, and its ``__dict__`` *is*
the model's: parameters, buffers, submodules, hooks and plain attributes are the same whichever of the two is asked or
changed, and all that the class defines works on the wrapper as it does on the model. Only calls differ: they go to the
compiler, which runs the model itself, so that ``self`` is the model inside of ``forward`` and of hooks. It is
``wrapper._orig_mod`` too, the name under which ``torch.compile`` keeps it. Some methods are compiled when they are
called by their name (:mod:`vesta.compiled_method`); the others are Python's, and ``self`` is the wrapper in all.

Pickling and copying a wrapper pickle and copy the model: what comes out is not compiled.
"""

from __future__ import annotations

import abc
import copy
import inspect
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any, cast

import torch

from vesta import _C
from vesta.compiled_method import CompiledMethods, MethodOfTwin

__all__ = ["is_wrapper", "make_wrapper", "methods_of", "original_of"]

_class_of = object.__dict__["__class__"]
_wrapper_classes: weakref.WeakValueDictionary[tuple[type, frozenset[str]], type] = weakref.WeakValueDictionary()


def is_wrapper(module: Any) -> bool:
    return issubclass(type(module), _TwinMethods)


def original_of(wrapper: Any) -> torch.nn.Module:
    """The model of a wrapper."""
    return cast(torch.nn.Module, object.__getattribute__(wrapper, "_vesta_original"))


def methods_of(wrapper: Any) -> CompiledMethods | None:
    return cast(CompiledMethods | None, object.__getattribute__(wrapper, "_vesta_methods"))


def make_wrapper(
    model: torch.nn.Module, call: Callable[..., Any], settings: Any = None, methods: CompiledMethods | None = None
) -> Any:
    """A wrapper of ``model`` that is called by ``call``; ``settings`` are those it was compiled with."""
    cls = type(model)
    wrapper: Any = object.__new__(_wrapper_class(cls, methods.names(cls) if methods else frozenset()))
    object.__setattr__(wrapper, "__dict__", model.__dict__)
    object.__setattr__(wrapper, "_vesta_original", model)
    object.__setattr__(wrapper, "_vesta_methods", methods)
    object.__setattr__(wrapper, "_vesta_settings", settings)
    object.__setattr__(wrapper, "_vesta_call", call)
    return wrapper


class _Signature:
    """``forward``'s, for ``inspect.signature`` of a wrapper; of its class, that of the model's class."""

    def __get__(self, wrapper: Any, owner: type) -> inspect.Signature:
        try:
            return inspect.signature(_class_of_model(owner) if wrapper is None else original_of(wrapper).forward)
        except (TypeError, ValueError):
            raise AttributeError("__signature__") from None


class _SlotOfModel:
    """A value that the model's class keeps in ``__slots__``, not in ``__dict__``."""

    def __init__(self, slot: types.MemberDescriptorType) -> None:
        self.slot = slot

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        return self if wrapper is None else self.slot.__get__(original_of(wrapper))

    def __set__(self, wrapper: Any, value: Any) -> None:
        self.slot.__set__(original_of(wrapper), value)

    def __delete__(self, wrapper: Any) -> None:
        self.slot.__delete__(original_of(wrapper))


class _ClassOfModel:
    """A wrapper says that it is of the model's class; assigning another one changes the model and the wrapper."""

    __slots__ = ()

    def _get(self) -> type:
        return type(original_of(self))

    def _set(self, cls: type) -> None:
        original_of(self).__class__ = cls
        _follow(self)

    __class__ = property(_get, _set)
    del _get, _set


class _TwinMethods(_ClassOfModel):
    """What a wrapper does in its own way, whatever the model's class says."""

    __slots__ = ()
    __signature__ = _Signature()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Ends here: the model's class does not hear of a subclass that its author did not write."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """``type(self)(...)`` in a method of the model's: another model, which is not compiled."""
        return _class_of_model(cls)(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Dynamo reads this and finds the model, or that it is disabled.
        plainly = torch.compiler.is_dynamo_compiling() and self._vesta_settings is not None
        return self._vesta_plain(*args, **kwargs) if plainly else self._vesta_call(*args, **kwargs)

    def _vesta_plain(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own call, with the wrapper as ``self``."""
        return super().__call__(*args, **kwargs)  # type: ignore[misc]

    @property
    def _torchdynamo_orig_callable(self) -> torch.nn.Module:
        """What torch.compile and torch.export begin with. Of a disabled module that is the wrapper."""
        if isinstance(self._vesta_call, _C.CapturedFunction):
            return original_of(self)
        raise AttributeError("_torchdynamo_orig_callable")

    def __prepare_scriptable__(self) -> Any:
        """What torch.jit.script compiles."""
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
        # The model itself, even where it holds a method of its wrapper; a file that is written needs no Vesta.
        return typing.cast, (None, original_of(self))

    def __getstate__(self) -> Any:
        return original_of(self).__getstate__()

    def __copy__(self) -> torch.nn.Module:
        return copy.copy(original_of(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
        return copy.deepcopy(original_of(self), memo)


def _class_of_model(wrapper_class: type) -> type:
    return next(base for base in wrapper_class.__mro__ if not issubclass(base, _ClassOfModel))


# What the interpreter calls is the value of the slot _vesta_call: no Python frame lies between a caller and the model.
_SLOTS = ("_vesta_call", "_vesta_methods", "_vesta_original", "_vesta_settings")


class _Twin(_TwinMethods, torch.nn.Module):
    """Holds the slots, so that the classes of all wrappers have one layout and one may become another."""

    __slots__ = _SLOTS


def _wrapper_class(cls: type, methods: frozenset[str]) -> type:
    made = _wrapper_classes.get((cls, methods))
    if made is not None:
        return made
    body: dict[str, Any] = {n: vars(cls)[n] for n in ("__module__", "__qualname__", "__doc__") if n in vars(cls)}
    body.update((name, MethodOfTwin(name)) for name in methods)
    body["__call__"] = _TwinMethods.__call__
    if issubclass(cls, torch.fx.GraphModule):
        # It writes to the class of the object that it is called on.
        body["__call__"] = _call_graph
        body["recompile"] = lambda wrapper: cast(Any, original_of(wrapper)).recompile()
    try:
        made = _new_class(cls, (_Twin, cls), {**body, "__slots__": ()})
    except TypeError:  # cls has slots of its own: no other class with slots combines with it
        slots = {
            name: _SlotOfModel(value)
            for base in reversed(cls.__mro__)
            for name, value in vars(base).items()
            if isinstance(value, types.MemberDescriptorType)
        }
        made = _new_class(cls, (_TwinMethods, cls), {**body, **slots, "__slots__": _SLOTS})
    return _wrapper_classes.setdefault((cls, methods), made)


def _call_graph(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
    # What Dynamo reads of a torch.fx.GraphModule.
    plainly = torch.compiler.is_dynamo_compiling() and wrapper._vesta_settings is not None
    return wrapper._call_impl(*args, **kwargs) if plainly else wrapper._vesta_call(*args, **kwargs)


def _new_class(cls: type, bases: tuple[type, ...], body: dict[str, Any]) -> type:
    """A class of the metaclass of ``cls``, whose own code (that of a registry, say) does not run."""
    metaclass = type(cls)
    create = abc.ABCMeta.__new__ if issubclass(metaclass, abc.ABCMeta) else type.__new__
    made: type = create(metaclass, cls.__name__, bases, body)
    _C.call_by_slot(made)
    return made


def _follow(wrapper: Any) -> bool:
    """Gives a wrapper the class that goes with the model's, which parametrizations change; whether it had another."""
    cls, methods = type(original_of(wrapper)), methods_of(wrapper)
    wanted = _wrapper_class(cls, methods.names(cls) if methods else frozenset())
    if type(wrapper) is wanted:
        return False
    _class_of.__set__(wrapper, wanted)
    return True
