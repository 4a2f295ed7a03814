"""A portrait: everything that is reachable from some roots, as plain data that later calls cannot change.

Objects become nodes in the order they are found, so that two portraits can be compared node by node: contents, types,
and which of the places refer to the same object. Numbers, strings and what is not the world's own (imported modules,
torch's functions) are atoms: equal is the same.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import io
import itertools
import logging
import os
import re
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

HARNESS = os.path.dirname(os.path.abspath(__file__))
_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented))
_TORCH_ATOMS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
# The note for Dynamo that AOTAutograd leaves on tensors of symbolic sizes; torch 2.11 uses maybe_mark_dynamic's.
_NOTE = (
    "_dynamo_weak_dynamic_indices"
    if torch.torch_version.TorchVersion(torch.__version__) < (2, 12)
    else "_dynamo_propagated_dynamic_indices"
)
_CLASS_NOISE = {"__dict__", "__weakref__", "__module__", "__doc__", "_abc_impl", "__abstractmethods__"}
_REDUCIBLE = tuple(
    type(i)
    for i in (
        iter([]), iter(()), iter({}), iter(set()), iter(range(1)), iter(""), reversed([]), enumerate([]), zip([]),
        map(str, []), filter(None, []), itertools.chain(), itertools.count(), itertools.cycle([]),
        itertools.repeat(1), itertools.islice([], 1), itertools.accumulate([]), itertools.product(),
    )
)  # fmt: skip


@dataclasses.dataclass
class Atom:
    type: str
    value: Any


@dataclasses.dataclass
class Node:
    type: str
    value: Any  # what is compared directly: a tensor's data, a function's code, ...
    children: list[tuple[str, Any]]  # (label, Atom | index of a node)


def _tensor_facts(x: torch.Tensor) -> dict[str, Any]:
    return {
        "dtype": str(x.dtype),
        "device": str(x.device),
        "size": tuple(x.shape),
        "strides": x.stride() if x.layout == torch.strided else None,
        "storage offset": x.storage_offset() * x.element_size() if x.layout == torch.strided and x.numel() else None,
        "requires_grad": x.requires_grad,
        "has grad_fn": x.grad_fn is not None,
        "is inference": x.is_inference(),
        "data": x.detach().clone(),
    }


def _source(filename: str) -> str:
    return os.path.basename(filename)


def is_own_frame(code: types.CodeType) -> bool:
    """Frames of the harness and of the compiler's Python part are not the program's."""
    name = code.co_filename
    if os.path.dirname(name) == HARNESS:
        return True
    return f"{os.sep}vesta{os.sep}" in name and "cases" not in name


def traceback_lines(tb: types.TracebackType | None) -> list[tuple[Any, ...]]:
    lines = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if not is_own_frame(code):
            positions = next(itertools.islice(code.co_positions(), tb.tb_lasti // 2, None), None)
            lines.append((_source(code.co_filename), code.co_name, tb.tb_lineno, positions))
        if code.co_name == "_engine_run_backward":
            break  # what the engine calls is the backward program's own
        tb = tb.tb_next
    return lines


class Portrait:
    """`replace`: objects drawn as others, by identity (the compiled callable as the plain one)."""

    def __init__(self, roots: dict[str, Any], module: types.ModuleType, replace: list[tuple[Any, Any]]) -> None:
        self.nodes: list[Node] = []
        self._module = module
        self._replace = {id(a): b for a, b in replace}
        self._seen: dict[int, int] = {}
        self._storages: dict[int, int] = {}
        self._alive: list[Any] = [a for a, _ in replace]  # an id is an identity only while the object lives
        self.roots = [(name, self._draw(value)) for name, value in roots.items()]
        self._count_offsets_from_the_first()
        del self._alive, self._seen, self._replace, self._module

    def _count_offsets_from_the_first(self) -> None:
        """Where a storage begins is nobody's business; where its tensors lie in relation to each other is."""
        groups: dict[int | None, list[dict[str, Any]]] = {}
        for node in self.nodes:
            if isinstance(node.value, dict) and node.value.get("storage offset") is not None:
                groups.setdefault(node.value.get("storage"), []).append(node.value)
        for storage, group in groups.items():
            first = min(facts["storage offset"] for facts in group)
            for facts in group:
                facts["storage offset"] = 0 if storage is None else facts["storage offset"] - first

    def _draw(self, x: Any) -> Any:
        x = self._replace.get(id(x), x)
        atom = self._atom(x)
        if atom is not None:
            return atom
        if id(x) in self._seen:
            return self._seen[id(x)]
        self._alive.append(x)
        node = Node(_type_name(type(x)), None, [])
        index = self._seen[id(x)] = len(self.nodes)
        self.nodes.append(node)
        node.value, parts = self._contents(x)
        for label, part in parts:
            node.children.append((label, self._draw(part)))
        return index

    def _ours(self, x: Any) -> bool:
        return getattr(x, "__module__", None) == self._module.__name__

    def _atom(self, x: Any) -> Atom | None:
        kind = type(x)
        if kind in _ATOMS or isinstance(x, _TORCH_ATOMS):
            return Atom(kind.__name__, x)
        if isinstance(x, np.generic):
            return Atom(_type_name(kind), x.item())
        if isinstance(x, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            return Atom("operator", str(x))
        if isinstance(x, enum.Enum):
            return Atom(_type_name(kind), repr(x))
        if isinstance(x, types.ModuleType):
            return Atom("module", x.__name__)
        if isinstance(x, type) and not self._ours(x):
            return Atom("class", _type_name(x))
        if isinstance(x, types.FunctionType) and x.__globals__ is not self._module.__dict__:
            return Atom("function", f"{x.__module__}.{x.__qualname__}")
        if isinstance(x, types.BuiltinFunctionType) and (
            x.__self__ is None or isinstance(x.__self__, types.ModuleType)
        ):
            return Atom("builtin", x.__qualname__)
        if isinstance(x, (types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType)):
            return Atom("descriptor", f"{x.__objclass__.__qualname__}.{x.__name__}")
        if isinstance(x, (types.MemberDescriptorType, types.ClassMethodDescriptorType)):
            return Atom("descriptor", f"{x.__objclass__.__qualname__}.{x.__name__}")
        if isinstance(x, (range, slice, re.Pattern, re.Match)):
            return Atom(kind.__name__, repr(x))
        if isinstance(x, types.CodeType):
            return Atom("code", (x.co_name, x.co_firstlineno))
        if isinstance(x, types.FrameType):
            return Atom("frame", (x.f_code.co_name, x.f_lineno))
        if isinstance(x, logging.Logger):  # it leads to all loggers of the process
            return Atom("logger", x.name)
        if isinstance(x, types.TracebackType):
            return Atom("traceback", tuple(traceback_lines(x)))
        return None

    def _contents(self, x: Any) -> tuple[Any, list[tuple[str, Any]]]:
        """The values that are compared directly, and the parts that are drawn."""
        if isinstance(x, torch.Tensor):
            return self._tensor(x)
        if isinstance(x, types.FunctionType):
            parts = [("__defaults__", x.__defaults__), ("__kwdefaults__", x.__kwdefaults__)]
            parts += [
                (f"cell {n}", c)
                for n, c in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True)
                if n != "__class__"
            ]
            names = (x.__name__, x.__qualname__, x.__module__ == self._module.__name__)
            return (*names, x.__code__.co_firstlineno, x.__doc__), [*parts, ("__dict__", dict(x.__dict__))]
        if isinstance(x, types.CellType):
            try:
                return "full", [("contents", x.cell_contents)]
            except ValueError:
                return "empty", []
        if isinstance(x, (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)):
            name = x.__func__ if isinstance(x, types.MethodType) else x.__name__
            return None, [("__self__", x.__self__), ("__func__", name)]
        if isinstance(x, type):
            parts = [(f"class attribute {k}", v) for k, v in x.__dict__.items() if k not in _CLASS_NOISE]
            parts = [p for p in parts if not p[0].endswith("__") or isinstance(p[1], types.FunctionType)]
            return x.__qualname__, [("__bases__", x.__bases__), *parts]
        if isinstance(x, BaseException):
            return self._exception(x)
        if isinstance(x, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
            return self._suspended(x)
        if isinstance(x, functools.partial):
            return None, [("func", x.func), ("args", x.args), ("keywords", x.keywords), ("dict", dict(x.__dict__))]
        if isinstance(x, functools._lru_cache_wrapper):
            return tuple(x.cache_info()), [("__wrapped__", x.__wrapped__)]
        if isinstance(x, property):
            return None, [("fget", x.fget), ("fset", x.fset), ("fdel", x.fdel)]
        if isinstance(x, (staticmethod, classmethod)):
            return None, [("__func__", x.__func__)]
        if isinstance(x, weakref.ref):
            return None, [("referent", x())]
        if isinstance(x, np.ndarray):
            return (str(x.dtype), x.shape, x.strides, x.tolist()), []
        if isinstance(x, io.StringIO):
            return x.getvalue(), []
        if isinstance(x, torch.Generator):
            return bytes(x.get_state().numpy()).hex()[:64], []
        if isinstance(x, _REDUCIBLE):
            return None, [("state", x.__reduce__())]
        return None, [*self._items(x), *_attributes(x)]

    def _tensor(self, x: torch.Tensor) -> tuple[Any, list[tuple[str, Any]]]:
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            try:
                facts = _tensor_facts(x)
            except Exception as error:
                return {"data": f"cannot be read: {error}"}, []
            parts = []
            if x.layout == torch.strided:
                storage = x.untyped_storage()
                if storage.nbytes():
                    self._alive.append(storage)
                    facts["storage"] = self._storages.setdefault(storage._cdata, len(self._storages))
            if x.is_leaf and x.grad is not None:
                parts.append(("grad", x.grad))
            parts += [(f"attribute {k}", v) for k, v in x.__dict__.items() if k != _NOTE]
        return facts, parts

    def _exception(self, x: BaseException) -> tuple[Any, list[tuple[str, Any]]]:
        parts: list[tuple[str, Any]] = [("args", x.args), ("attributes", dict(x.__dict__))]
        parts += [("__cause__", x.__cause__), ("__context__", x.__context__)]
        if isinstance(x, BaseExceptionGroup):
            parts.append(("exceptions", x.exceptions))
        if isinstance(x, StopIteration):
            parts.append(("value", x.value))
        try:
            text = str(x)
        except Exception as error:
            text = f"<str raises {error!r}>"
        return {
            "text": text,
            "suppresses context": x.__suppress_context__,
            "traceback": [line[:3] for line in traceback_lines(x.__traceback__)],
            "columns": [line[3] for line in traceback_lines(x.__traceback__)],
        }, parts

    def _suspended(self, x: Any) -> tuple[Any, list[tuple[str, Any]]]:
        prefix = {types.GeneratorType: "gi", types.CoroutineType: "cr", types.AsyncGeneratorType: "ag"}[type(x)]
        frame = getattr(x, f"{prefix}_frame")
        code = getattr(x, f"{prefix}_code")
        facts = (x.__qualname__, code.co_firstlineno, frame.f_lineno if frame else "ended")
        if frame is None or getattr(x, f"{prefix}_running"):
            return facts, []
        return facts, [(f"local {k}", v) for k, v in frame.f_locals.items() if k != "__class__"]

    def _items(self, x: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(x, dict) or type(x) is types.MappingProxyType:
            for i, (key, value) in enumerate(dict.items(x) if isinstance(x, dict) else x.items()):
                yield f"key {i}", key
                yield f"[{_short(key)}]", value
            if isinstance(x, collections.defaultdict):
                yield "default_factory", x.default_factory
        elif isinstance(x, (list, tuple)):
            iterate = list.__iter__ if isinstance(x, list) else tuple.__iter__
            for i, value in enumerate(iterate(x)):
                yield f"[{i}]", value
        elif isinstance(x, collections.deque):
            yield "maxlen", x.maxlen
            yield from ((f"[{i}]", value) for i, value in enumerate(x))
        elif isinstance(x, (set, frozenset)):
            yield from ((f"element {i}", value) for i, value in enumerate(sorted(x, key=_sort_key)))
        elif isinstance(x, (type({}.keys()), type({}.values()), type({}.items()))):
            yield from ((f"[{i}]", value) for i, value in enumerate(x))
        elif isinstance(x, (int, float, str, bytes)):
            base = next(k for k in (int, float, str, bytes) if isinstance(x, k))
            yield "value", base(x) if base is not str else str.__str__(x)


def _sort_key(x: Any) -> tuple[str, str]:
    return type(x).__name__, repr(x) if type(x).__repr__ is not object.__repr__ else ""


def _short(key: Any) -> str:
    return repr(key) if isinstance(key, (str, int, float, tuple)) else type(key).__name__


def _attributes(x: Any) -> Iterator[tuple[str, Any]]:
    with torch._C.DisableTorchFunctionSubclass():
        for cls in type(x).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name in ("__dict__", "__weakref__"):
                    continue
                descriptor = cls.__dict__.get(
                    f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
                )
                if isinstance(descriptor, types.MemberDescriptorType):
                    try:
                        value = descriptor.__get__(x, cls)
                    except AttributeError:
                        continue
                    yield f".{name}", value
        try:
            attributes = object.__getattribute__(x, "__dict__")
        except AttributeError:
            return
        if isinstance(attributes, dict):
            yield from ((f".{name}", value) for name, value in attributes.items())


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
