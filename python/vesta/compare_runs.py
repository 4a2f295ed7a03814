"""Compares runs of a program: compiled, eager and in float64."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from vesta.comparison import Difference
from vesta.number_rule import judge
from vesta.wide_runs import Widening, narrowest

__all__ = ["Run", "Written", "compare_runs", "identical"]

SHAKES = 4  # float64 runs whose numbers move, each in random directions of its own


@dataclass(frozen=True)
class Written:
    """A tensor that a run may change."""

    name: str
    tensor: torch.Tensor


# Makes the arguments of one run: what runs, and the tensors that it may change.
Run = Callable[[], tuple[Callable[[], Any], list[Written]]]


def compare_runs(
    eager: Run,
    compiled: Run,
    tensors: Sequence[torch.Tensor],
    kept: Callable[[], Any],
) -> tuple[list[Difference], str]:
    """The differences, and why there is no float64 run. ``tensors``: what the runs read. ``kept``: a context whose end
    undoes what a run has changed."""
    ours, (theirs, same) = _results(compiled, kept)[0], _results(eager, kept)
    wide = _WideResults(eager, kept, narrowest(list(tensors)), theirs.spec)
    if ours.spec != theirs.spec:
        return [Difference("result", facts=(f"structure {ours.spec}, eager's {theirs.spec}",))], wide.why_none
    unchanged = {
        i for i, is_same in enumerate(same, theirs.outputs) if is_same and identical(ours.leaves[i], theirs.leaves[i])
    }
    return [_difference(ours, theirs, wide, i) for i in range(len(theirs.names)) if i not in unchanged], wide.why_none


def _difference(ours: _Results, eager: _Results, wide: _WideResults, index: int) -> Difference:
    x, y = ours.leaves[index], eager.leaves[index]
    facts = _facts(ours, eager, index)
    if not isinstance(y, torch.Tensor):
        return Difference(eager.names[index], facts=facts)
    errors = None
    if isinstance(x, torch.Tensor) and x.shape == y.shape:
        errors = judge(x, y, wide.leaf(index), functools.partial(wide.moved, index))
    return Difference(eager.names[index], y.dtype, tuple(y.shape), facts, errors)


class _WideResults:
    """The results in float64, and in further runs whose numbers move. ``why_none``: why there are none."""

    def __init__(self, eager: Run, kept: Callable[[], Any], narrow: torch.dtype, spec: Any) -> None:
        self._eager, self._kept, self._narrow = eager, kept, narrow
        self._results: _Results | None = None
        self._moved: list[_Results] | None = None
        self.why_none = ""
        try:
            self._results = self._run()
        except Exception as error:  # an operator without a float64 kernel, or a program that looks at dtypes
            self.why_none = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if self._results is not None and self._results.spec != spec:
            self._results, self.why_none = None, "the float64 run gives another structure of results"

    def leaf(self, index: int) -> torch.Tensor | None:
        leaf = self._results.leaves[index] if self._results is not None else None
        return leaf if isinstance(leaf, torch.Tensor) else None

    def moved(self, index: int) -> list[Any]:
        if self._moved is None:
            self._moved = []
            # What runs in float64 may still have no sums of absolute values.
            with contextlib.suppress(Exception):
                for seed in range(SHAKES):
                    self._moved.append(self._run(torch.Generator().manual_seed(seed)))
        return [run.leaves[index] for run in self._moved]

    def _run(self, shake: torch.Generator | None = None) -> _Results:
        mode = Widening(self._narrow, shake)
        call, changed = self._eager()
        with self._kept(), mode:
            result = call()
        wide = [Written(w.name, mode.wide(w.tensor)) for w in changed]
        return _Results(pytree.tree_map_only(torch.Tensor, mode.wide, result), wide)


def _results(run: Run, kept: Callable[[], Any]) -> tuple[_Results, list[bool]]:
    """The results, and for each tensor that the run may have changed whether it is the same as before."""
    call, written = run()
    before = [w.tensor.detach().clone() for w in written]
    with kept():
        results = _Results(call(), written)
        return results, [identical(w.tensor, old) for w, old in zip(written, before, strict=True)]


class _Results:
    """The leaves of a run's result, and copies of what it changed."""

    def __init__(self, result: Any, changed: list[Written]) -> None:
        paths, self.spec = pytree.tree_flatten_with_path(result)
        self.names = [f"result{pytree.keystr(path)}" for path, _ in paths] + [w.name for w in changed]
        self.outputs = len(paths)
        given = [w.tensor for w in changed]
        outputs = [leaf for _, leaf in paths]
        self.shared = _sharing([*given, *outputs])[len(given) :]
        self.leaves = [*outputs, *(t.detach().clone() for t in given)]


def _sharing(tensors: Sequence[Any]) -> list[tuple[int, int] | None]:
    """For each tensor the first one with its memory, and its offset there."""
    first: dict[int, int] = {}
    out: list[tuple[int, int] | None] = []
    for i, t in enumerate(tensors):
        if not isinstance(t, torch.Tensor) or t.layout != torch.strided or not t.numel():
            out.append(None)
            continue
        at = first.setdefault(t.untyped_storage().data_ptr(), i)
        out.append((at, int(t.storage_offset())) if at != i else None)
    return out


def _facts(ours: _Results, eager: _Results, index: int) -> tuple[str, ...]:
    x, y = ours.leaves[index], eager.leaves[index]
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        same = type(x) is type(y) and (x == y or (x != x and y != y))
        return () if same else (f"{x!r}, eager's {y!r}",)
    out = []
    pairs: list[tuple[str, Any, Any]] = [
        ("dtype", x.dtype, y.dtype),
        ("device", x.device, y.device),
        ("size", tuple(x.shape), tuple(y.shape)),
    ]
    if x.layout == y.layout == torch.strided:
        pairs += [
            ("strides", x.stride(), y.stride()),
            ("is_conj()", x.is_conj(), y.is_conj()),
            ("is_neg()", x.is_neg(), y.is_neg()),
        ]
    out = [f"{name} {a}, eager's {b}" for name, a, b in pairs if a != b]
    if index < eager.outputs and ours.shared[index] != eager.shared[index]:
        out.append(f"shares memory with {_owner(ours, index)}, eager's with {_owner(eager, index)}")
    return tuple(out)


def _owner(results: _Results, index: int) -> str:
    shared = results.shared[index]
    if shared is None:
        return "nothing"
    names = [*results.names[results.outputs :], *results.names[: results.outputs]]
    return f"{names[shared[0]]} (offset {shared[1]})"


def identical(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.shape == y.shape and x.dtype == y.dtype and bool(((x == y) | ((x != x) & (y != y))).all())
