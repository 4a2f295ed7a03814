"""What ``vesta.compare`` and ``vesta replay`` find, as data and as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from vesta.number_rule import Errors

__all__ = ["Comparison", "Difference"]


@dataclass(frozen=True)
class Difference:
    """One result: an output, or a tensor that the program has changed.

    ``name``: ``result``, ``result[0]``, ``result['loss']``, ``argument 0``, ``running_mean``. ``facts``: the dtype,
    size, strides, aliasing or plain value, where it differs from eager's. ``errors``: the largest errors; None for
    results that are no tensors or differ in size.
    """

    name: str
    dtype: torch.dtype | None = None
    size: tuple[int, ...] = ()
    facts: tuple[str, ...] = ()
    errors: Errors | None = None

    @property
    def ok(self) -> bool:
        return not self.facts and (self.errors is None or self.errors.holds)


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found. ``ok``: every result is right. Print it, or read its fields.

    ``results``: the outputs, then what the program changed. ``kernels``: with ``kernels=True`` one comparison for each
    kernel, by name. ``float64``: why there is no float64 run; empty: there is one. ``graphs``: how many graphs were
    compiled; 0 means that the compiled call ran eager.
    """

    results: tuple[Difference, ...]
    float64: str = ""
    graphs: int = 0
    kernels: Mapping[str, Comparison] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return all(r.ok for r in self.results) and all(k.ok for k in self.kernels.values())

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _number(x: float) -> str:
    return "0" if x == 0 else f"{x:.2g}" if math.isfinite(x) else str(x)


def _lines(c: Comparison) -> Iterator[str]:
    yield _counted(c.results, "result")
    if not c.graphs:
        yield "nothing was compiled: the compiled call ran eager (vesta.explain says why)"
    if c.float64:
        yield f"there is no float64 run ({c.float64}): the errors are differences from eager"
    yield from _table(c.results)
    if c.kernels:
        yield _counted(list(c.kernels.values()), "kernel")
        for name, k in c.kernels.items():
            yield f"kernel {name}"
            yield from ("  " + line for line in _table(k.results))


def _counted(judged: Sequence[Difference | Comparison], what: str) -> str:
    wrong = sum(not each.ok for each in judged)
    if len(judged) == 1:
        return f"the {what} is {'wrong' if wrong else 'right'}"
    return f"{wrong} of {len(judged)} {what}s are wrong" if wrong else f"all {len(judged)} {what}s are right"


def _table(results: Sequence[Difference]) -> Iterator[str]:
    rows = [("", "", "compiled", "relative", "eager", "relative", ""), *map(_row, results)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row, notes in zip(rows, [[], *map(_notes, results)], strict=True):
        cells = [cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        yield "  " + "  ".join(cells).rstrip()
        yield from ("      " + note for note in notes)


def _row(r: Difference) -> tuple[str, ...]:
    numbers = ("", "", "", "")
    if r.errors is not None:
        e = r.errors
        numbers = (_number(e.compiled), _number(e.compiled_relative), _number(e.eager), _number(e.eager_relative))
    kind = f"{str(r.dtype).removeprefix('torch.')}{list(r.size)}" if r.dtype is not None else ""
    return (r.name, kind, *numbers, "right" if r.ok else "WRONG")


def _notes(r: Difference) -> list[str]:
    notes = list(r.facts)
    if r.errors is not None and r.errors.place is not None:
        e = r.errors
        notes.append(
            f"{e.wrong} elements break the rule, most at {list(r.errors.place)}, where {_number(e.allowed)} is allowed"
        )
    return notes
