"""Recorded compiles: reads their files, makes inputs, and calls a graph's operators one by one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from vesta import _C
from vesta.errors import UserError

__all__ = ["Inputs", "evaluate", "fill", "inputs_that_run", "read"]

DTYPES = {
    "bool": torch.bool,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "c32": torch.complex32,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "f8e4m3fnuz": torch.float8_e4m3fnuz,
    "f8e5m2fnuz": torch.float8_e5m2fnuz,
    "f8e8m0fnu": torch.float8_e8m0fnu,
}

# Upper bounds of integers, which may be indices: the first one with which the operators raise no error.
BOUNDS = (64, 16, 4, 2, 1)


def read(path: str | os.PathLike[str], number: int | None = None) -> tuple[list[tuple[str, str]], dict[int, _C.Case]]:
    """The versions and the compiles of a file that :func:`vesta.record` wrote, by number from 1: all or one of them."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {os.fspath(path)}: {error}") from None
    found, cases = _C.parse_cases(text)
    if not cases:
        raise UserError(f"{os.fspath(path)} has no compiles")
    if number is not None and not 1 <= number <= len(cases):
        raise UserError(f"{os.fspath(path)} has the compiles 1 to {len(cases)}, and not {number}")
    return found, {i: case for i, case in enumerate(cases, 1) if number in (None, i)}


class Inputs:
    """Tensors as a case describes them. ``given``: for the compiled graph. ``memory``: the same without pending conj
    and neg bits, as the statements of the graph see them."""

    def __init__(self, case: _C.Case, bound: int = BOUNDS[0], positive: bool = False) -> None:
        self.memory: list[torch.Tensor] = []
        self.given: list[torch.Tensor] = []
        for i, described in enumerate(case.inputs):
            if described.same_as >= 0:
                self.memory.append(self.memory[described.same_as])
                self.given.append(self.given[described.same_as])
                continue
            t = _tensor(described, case.seed * 1009 + i, bound, positive)
            self.memory.append(t)
            t = t.conj() if described.conj else t
            self.given.append(torch._neg_view(t) if described.neg else t)


def inputs_that_run(case: _C.Case) -> tuple[int, bool]:
    """The bound of integers and the sign of floats with which the case's operators raise no error and, if possible,
    give finite numbers."""
    steps, error = _C.graph_steps(case.graph), None
    for bound in BOUNDS:
        for positive in (False, True):
            try:
                outputs = evaluate(steps, Inputs(case, bound, positive).memory)
            except Exception as raised:
                error = raised
                break
            finite = all(_finite(t) for t in outputs)
            if positive or finite:
                return bound, positive and finite
    raise UserError(f"the operators of the case raise an error on inputs of its description: {error}")


def evaluate(
    steps: tuple[Any, ...], inputs: Sequence[torch.Tensor], kept: dict[int, torch.Tensor] | None = None
) -> list[Any]:
    """Calls the operators of a graph (``_C.graph_steps``) in PyTorch, one by one, and returns the graph's outputs.

    It writes the inputs that the graph writes, and stores in ``kept`` the values whose ids are the keys of ``kept``.
    """
    ids, nodes, mutations, outputs = steps
    values: dict[int, Any] = dict(zip(ids, inputs, strict=True))
    last = _last_uses(nodes, mutations, outputs)
    for number, (name, args, kwargs, results) in enumerate(nodes):
        args, kwargs = pytree.tree_map(lambda x: values[x.id] if isinstance(x, _C.GraphValue) else x, (args, kwargs))
        if name == "aten::as_strided":  # a graph counts from the first element of what is viewed
            args[3] = (args[3] or 0) + args[0].storage_offset()
        made = _operator(name)(*args, **kwargs)
        for value, result in zip(results, [made] if len(results) == 1 else made or (), strict=True):
            if value is not None:
                values[value] = made[0] if isinstance(result, list | tuple) else result
        for value in last.get(number, ()):
            if kept is None or value not in kept:
                values.pop(value, None)
    if kept is not None:
        kept.update((value, values[value].clone()) for value in kept if value in values)
    fresh = [_fresh(o, values) if o["kind"] == "fresh" else None for o in outputs]
    written = [(at, values[value].clone()) for at, value in mutations]
    for at, value in written:
        inputs[at].copy_(value)
    made_outputs: list[Any] = []
    for output, new in zip(outputs, fresh, strict=True):
        made_outputs.append(new if new is not None else _output(output, inputs, fresh))
    return [made for made, o in zip(made_outputs, outputs, strict=True) if not o["hidden"]]


def _tensor(described: _C.CaseInput, seed: int, bound: int, positive: bool) -> torch.Tensor:
    dtype = DTYPES[described.dtype]
    device = torch.device(described.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"the case has a tensor on {device}, and this machine has no such device")
    first = described.offset or 0
    spans = (max(0, n - 1) * s for n, s in zip(described.sizes, described.strides, strict=True))
    count = 0 if 0 in described.sizes else first + sum(spans) + 1
    numbers = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        memory = torch.randint(0, 2, (count,), generator=numbers).bool()
    elif dtype.is_complex:
        memory = torch.randn(count, generator=numbers, dtype=torch.complex64).to(dtype)
    elif dtype.is_floating_point:
        real = torch.randn(count, generator=numbers, dtype=torch.float32 if dtype != torch.float64 else dtype)
        memory = (real.abs() if positive else real).to(dtype)
    else:
        memory = torch.randint(0, bound, (count,), generator=numbers).to(dtype)
    return memory.to(device).as_strided(described.sizes, described.strides, first)


def _finite(t: Any) -> bool:
    if not isinstance(t, torch.Tensor) or not (t.is_floating_point() or t.is_complex()) or t.element_size() == 1:
        return True
    return bool(t.isfinite().all())


def _operator(name: str) -> Any:
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def _uses(tree: Any) -> Iterator[int]:
    for leaf in pytree.tree_leaves(tree):
        if isinstance(leaf, _C.GraphValue):
            yield leaf.id


def _last_uses(nodes: Any, mutations: Any, outputs: Any) -> dict[int, list[int]]:
    last: dict[int, int] = {}
    for number, (_, args, kwargs, _) in enumerate(nodes):
        last.update((value, number) for value in _uses((args, kwargs)))
    for value in (*(v for _, v in mutations), *(o["value"] for o in outputs)):
        last.pop(value, None)
    out: dict[int, list[int]] = {}
    for value, number in last.items():
        out.setdefault(number, []).append(value)
    return out


def _fresh(output: Any, values: dict[int, Any]) -> torch.Tensor:
    value: torch.Tensor = values[output["value"]]
    if value.layout != torch.strided:
        return value
    made = torch.empty_strided(output["sizes"], output["strides"], dtype=value.dtype, device=value.device)
    return fill(made, value)


def fill(t: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """``t.copy_(value)``, also where elements of ``t`` share memory."""
    if all(stride or size < 2 for size, stride in zip(t.size(), t.stride(), strict=True)):
        with contextlib.suppress(RuntimeError):
            return t.copy_(value)
    flat = t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)
    places = torch.arange(flat.numel(), device=t.device).as_strided(t.size(), t.stride(), t.storage_offset())
    flat[places.reshape(-1)] = value.reshape(-1)
    return t


def _output(output: Any, inputs: Sequence[torch.Tensor], fresh: Sequence[torch.Tensor | None]) -> Any:
    kind = output["kind"]
    if kind == "none":
        return None
    if kind == "integer":
        return output["integer"]
    if kind == "input":
        return inputs[output["alias"]]
    base = inputs[output["alias"]] if kind == "input_view" else fresh[output["alias"]]
    assert base is not None
    offset = output["offset"]
    first = base.storage_offset()
    if base.dtype != output["dtype"]:  # the same memory as other numbers
        whole = base.as_strided((base.untyped_storage().nbytes() // base.element_size(),), (1,), 0)
        base = whole.view(output["dtype"])
        first = first * whole.element_size() // base.element_size()
    view = base.as_strided(output["sizes"], output["strides"], offset + (0 if output["absolute_offset"] else first))
    if output["conj"]:
        view = view.conj()
    return torch._neg_view(view) if output["neg"] else view
