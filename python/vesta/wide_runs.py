"""Runs of a program in float64, operator by operator, which the rule of docs/numerics.md judges results by."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["WIDE", "Widening", "narrowest"]

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}

# Operators that add up products or elements: their rounding is one of the sum of the terms' sizes.
SUMS = frozenset(
    ("mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "convolution", "sum", "mean", "cumsum", "linear", "matmul")
)


class Widening(TorchDispatchMode):
    """Every operator computes in float64. Tensors from outside are read through float64 copies of their memory, so
    nothing outside is written. Random operators draw the numbers that they draw in the program.

    ``narrow``: the dtype of the program's random numbers. ``shake``: each result moves by one ulp of ``narrow``, up or
    down as the generator says.
    """

    def __init__(self, narrow: torch.dtype = torch.float32, shake: torch.Generator | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._narrow, self._shake = narrow, shake
        self._own: dict[int, StorageWeakRef] = {}  # storages that operators in this run have made
        self._copies: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        self._outside: list[torch.Tensor] = []  # keeps what has copies alive

    def wide(self, t: torch.Tensor) -> torch.Tensor:
        """What stands for this tensor."""
        if t.layout != torch.strided or type(t) not in (torch.Tensor, torch.nn.Parameter) or t.device.type == "meta":
            return t
        storage = t.untyped_storage()
        known = self._own.get(storage._cdata)
        if known is not None and not known.expired():
            return t
        key = (storage._cdata, t.dtype)
        if key not in self._copies:
            self._outside.append(t)
            whole = torch.empty(0, dtype=t.dtype, device=t.device).set_(storage)
            copy = whole.to(WIDE.get(t.dtype, t.dtype), copy=True)
            self._copies[key] = self._moved(copy, copy) if t.dtype in WIDE else copy
            self._keep(self._copies[key])
        out = self._copies[key].as_strided(t.size(), t.stride(), t.storage_offset())
        if t.is_conj():
            out = torch._conj(out)
        return torch._neg_view(out) if t.is_neg() else out

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = pytree.tree_map_only(torch.Tensor, self.wide, (args, kwargs or {}))
        if func is torch.ops.aten.view.dtype:
            raise TypeError("the program looks at the bits of numbers")
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self._random(func, args, kwargs)
        args, kwargs = pytree.tree_map_only(torch.dtype, lambda d: WIDE.get(d, d), (args, kwargs))
        result = self._results(func(*args, **kwargs), args, kwargs)
        if self._shake is None or func._schema.is_mutable or func.is_view:
            return result
        sizes = result
        if func._schema.name.removeprefix("aten::") in SUMS:
            sizes = func(*pytree.tree_map_only(torch.Tensor, _size, args), **kwargs)
        return pytree.tree_map(self._moved_result, result, sizes)

    def _random(self, func: Any, args: Any, kwargs: Any) -> Any:
        narrowed = pytree.tree_map_only(torch.Tensor, self._narrowed, (args, kwargs))
        result = func(*narrowed[0], **narrowed[1])
        if func._schema.is_mutable:
            for wide, narrow in zip(pytree.tree_leaves((args, kwargs)), pytree.tree_leaves(narrowed), strict=True):
                if isinstance(wide, torch.Tensor) and narrow is not wide:
                    wide.copy_(narrow)
            return args[0] if isinstance(result, torch.Tensor) else result
        return self._results(result, args, kwargs)

    def _narrowed(self, t: torch.Tensor) -> torch.Tensor:
        return t.to(self._narrow) if t.dtype == torch.float64 else t

    def _results(self, result: Any, args: Any, kwargs: Any) -> Any:
        given = {id(x) for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}

        def widened(t: torch.Tensor) -> torch.Tensor:
            if id(t) in given or t.layout != torch.strided:
                return t
            out = t.to(WIDE[t.dtype]) if t.dtype in WIDE else t
            self._keep(out)
            return out

        return pytree.tree_map_only(torch.Tensor, widened, result)

    def _keep(self, t: torch.Tensor) -> None:
        storage = t.untyped_storage()
        self._own[storage._cdata] = StorageWeakRef(storage)

    def _moved_result(self, result: Any, size: Any) -> Any:
        if isinstance(result, torch.Tensor) and result.dtype in (torch.float64, torch.complex128):
            moved = self._moved(result, size)
            self._keep(moved)
            return moved
        return result

    def _moved(self, t: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
        if self._shake is None:
            return t
        step = torch.randint(0, 2, t.shape, generator=self._shake, dtype=torch.float64).to(t.device) * 2 - 1
        eps = torch.finfo(self._narrow).eps
        moved = t + step * eps * size
        return torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=t.device).copy_(moved)


def _size(t: torch.Tensor) -> torch.Tensor:
    return t.abs() if t.dtype in (torch.float64, torch.complex128) else t


def narrowest(tensors: list[torch.Tensor]) -> torch.dtype:
    """The float type whose ulps a run of these tensors is as exact as: of those narrower than float64 the one with the
    most digits."""
    found = {t.dtype for t in tensors if t.is_floating_point()}
    narrow = found & set(WIDE)
    if not narrow:
        return torch.float64 if found else torch.float32
    return min(narrow, key=lambda d: torch.finfo(d).eps)
