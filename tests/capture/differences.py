"""The differences between the portraits of the same moment in two worlds."""

from __future__ import annotations

import math
from typing import Any

import torch

from tests.capture.portrait import Atom, Node, Portrait

_LIMIT = 12  # differences told of one moment


def portrait_differences(plain: Portrait, ours: Portrait) -> list[str]:
    walk = _Walk(plain, ours)
    names = {name for name, _ in plain.roots} ^ {name for name, _ in ours.roots}
    walk.found += [f"only one run has {name}" for name in sorted(names)]
    for (name, a), (_, b) in zip(plain.roots, ours.roots, strict=False):
        walk.compare(name, a, b)
    return walk.found[:_LIMIT]


class _Walk:
    def __init__(self, plain: Portrait, ours: Portrait) -> None:
        self.plain, self.ours = plain, ours
        self.found: list[str] = []
        self._to_ours: dict[int, tuple[int, str]] = {}  # plain node -> our node, and where both were met first
        self._to_plain: dict[int, tuple[int, str]] = {}

    def compare(self, where: str, a: Any, b: Any) -> None:
        if len(self.found) > _LIMIT:
            return
        if isinstance(a, Atom) or isinstance(b, Atom):
            if type(a) is not type(b) or a.type != b.type or not _equal(a.value, b.value):
                self.found.append(f"{where}: {self._show(self.ours, b)}, plain {self._show(self.plain, a)}")
            return
        met_a, met_b = self._to_ours.get(a), self._to_plain.get(b)
        if met_a is None and met_b is None:
            self._to_ours[a], self._to_plain[b] = (b, where), (a, where)
            self._nodes(where, self.plain.nodes[a], self.ours.nodes[b])
        elif met_a is not None and met_a[0] == b:
            return
        elif met_a is not None:
            self.found.append(f"{where}: identity: plain, the same object as {met_a[1]}; compiled, another")
        else:
            assert met_b is not None
            self.found.append(f"{where}: identity: compiled, the same object as {met_b[1]}; plain, another")

    def _nodes(self, where: str, a: Node, b: Node) -> None:
        if a.type != b.type:
            self.found.append(f"{where}: type {b.type}, plain {a.type}")
            return
        if isinstance(a.value, dict):
            self._facts(where, a.value, b.value)
        elif not _equal(a.value, b.value):
            self.found.append(f"{where}: {b.value!r}, plain {a.value!r}")
        for (label_a, x), (label_b, y) in zip(a.children, b.children, strict=False):
            if label_a != label_b:
                self.found.append(f"{where}: has {label_b}, where plain has {label_a}")
                return
            self.compare(_join(where, label_a), x, y)
        if len(a.children) != len(b.children):
            longer, who = (a, "plain only") if len(a.children) > len(b.children) else (b, "compiled only")
            labels = [label for label, _ in longer.children[min(len(a.children), len(b.children)) :]]
            self.found.append(f"{where}: {', '.join(labels[:6])}: {who}")

    def _facts(self, where: str, a: dict[str, Any], b: dict[str, Any]) -> None:
        for name in sorted(a.keys() & b.keys()):
            x, y = a.get(name), b.get(name)
            if name == "storage" and x != y:
                self.found.append(f"{where}: shares memory with another tensor than plain")
            elif isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
                text = _tensors(x, y)
                if text:
                    self.found.append(f"{where}: {text}")
            elif not _equal(x, y):
                self.found.append(f"{where}: {name} {y!r}, plain {x!r}")

    def _show(self, portrait: Portrait, x: Any) -> str:
        if isinstance(x, Atom):
            return repr(x.value) if x.type in ("int", "float", "str", "bool", "NoneType") else f"{x.type} {x.value!r}"
        return f"object of {portrait.nodes[x].type}"


def _join(where: str, label: str) -> str:
    return where + label if label[0] in "[." else f"{where} {label}"


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if a == 0 and b == 0:
            return math.copysign(1, a) == math.copysign(1, b)
        return math.isclose(a, b, rel_tol=1e-5)  # a float may come from a tensor's sum
    if isinstance(a, (list, tuple)) and type(a) is type(b) and len(a) == len(b):
        return all(map(_equal, a, b))
    return type(a) is type(b) and bool(a == b)


def _tensors(a: torch.Tensor, b: torch.Tensor) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return ""  # told by its facts
    try:
        torch.testing.assert_close(b, a, equal_nan=True, check_stride=False)
    except AssertionError as error:
        text = " ".join(str(error).split())
        shown = f"; {b.flatten()[:6].tolist()}, plain {a.flatten()[:6].tolist()}" if a.layout == torch.strided else ""
        return f"numbers differ: {text}{shown}"
    return ""
