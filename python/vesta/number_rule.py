"""The rule by which numbers of a compiled program are judged (docs/numerics.md)::

|vesta - f64| <= 2 * max|eager - f64| + 4 ulp + c
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from vesta.wide_runs import WIDE

__all__ = ["Errors", "judge"]

ULPS = 4.0
# Without a wider type, eager's error is taken to be as many ulps of the largest number.
ULPS_WITHOUT_REFERENCE = 8.0


@dataclass(frozen=True)
class Errors:
    """The largest errors of a tensor against float64, and whether the rule holds.

    ``place``: the index of the element that breaks the rule most; None if it holds. ``allowed``: the bound there.
    ``against_eager``: there is no float64 result, so the errors are differences from eager.
    """

    holds: bool
    compiled: float = 0.0
    eager: float = 0.0
    compiled_relative: float = 0.0
    eager_relative: float = 0.0
    place: tuple[int, ...] | None = None
    wrong: int = 0
    allowed: float = 0.0
    against_eager: bool = False


def ulp(magnitude: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(magnitude.clamp(min=info.tiny))
    return torch.ldexp(torch.full_like(magnitude, info.eps), exponent - 1)


def judge(
    ours: torch.Tensor, eager: torch.Tensor, wide: torch.Tensor | None, shaken: Callable[[], Sequence[Any]]
) -> Errors:
    """Judges a result by eager's and float64's, which have its size. ``shaken``: results of float64 runs whose numbers
    move by one ulp; called only if the rule does not hold without them."""
    ours, eager = _plain(ours), _plain(eager)
    reference = eager if wide is None or wide.shape != eager.shape else _plain(wide)
    if not (eager.is_floating_point() or eager.is_complex()):
        return _exact(ours, eager, None if reference is eager else reference)
    narrow = reference is eager or eager.dtype not in WIDE
    dtype = torch.empty(0, dtype=eager.dtype).real.dtype if eager.is_complex() else eager.dtype
    wider = torch.complex128 if eager.is_complex() else torch.float64
    x, y, z = ours.to(wider), eager.to(wider), reference.to(wider)
    finite = x.isfinite() & y.isfinite() & z.isfinite()
    error = torch.where(finite, (x - z).abs(), 0.0)
    eager_error = torch.where(finite, (y - z).abs(), 0.0)
    size = torch.where(z.isfinite(), z.abs(), 0.0)
    worst = eager_error.max() if eager_error.numel() else torch.zeros((), dtype=torch.float64)
    if narrow and size.numel():
        worst = torch.maximum(worst, ULPS_WITHOUT_REFERENCE * ulp(size.max(), dtype))
    allowed = 2 * worst + ULPS * ulp(size, dtype)

    def broken(allowed: torch.Tensor) -> torch.Tensor:
        same = (x == y) | (~x.isfinite() & ~y.isfinite() if eager.is_complex() else x.isnan() & y.isnan())
        right = z.isfinite() & x.isfinite() & ((x - z).abs() <= allowed)  # eager alone overflowed
        rounded = reference.to(eager.dtype).to(wider)
        same |= (x == rounded) | (x.isnan() & rounded.isnan())
        return (error > allowed) | (~finite & ~same & ~right)

    bad = broken(allowed)
    if reference is not eager and bool(bad.any()):
        moved = torch.zeros_like(allowed)
        for other in shaken():
            if isinstance(other, torch.Tensor) and other.shape == z.shape:
                change = torch.nan_to_num((_plain(other).to(wider) - z).abs(), nan=0.0, posinf=0.0)
                moved = torch.maximum(moved, torch.maximum(change, change.mean()))
        allowed = allowed + 2 * moved
        bad = broken(allowed)
    place = _worst(bad, torch.where(finite, error / allowed, float("inf")))
    scale = torch.where(size > 0, size, 1.0)
    return Errors(
        holds=place is None,
        compiled=_largest(error),
        eager=_largest(eager_error),
        compiled_relative=_largest(torch.where(size > 0, error / scale, 0.0)),
        eager_relative=_largest(torch.where(size > 0, eager_error / scale, 0.0)),
        place=place,
        wrong=int(bad.sum()),
        allowed=float(allowed[place]) if place is not None else 0.0,
        against_eager=reference is eager,
    )


def _exact(ours: torch.Tensor, eager: torch.Tensor, wide: torch.Tensor | None) -> Errors:
    """Integers and bools equal eager's, or float64's if eager's rounding changed them."""
    bad = ours != eager
    if wide is not None and not wide.is_complex():
        bad &= ours != wide.to(eager.dtype)
    difference = (ours.to(torch.float64) - eager.to(torch.float64)).abs()
    place = _worst(bad, difference)
    return Errors(
        holds=place is None,
        compiled=_largest(difference),
        place=place,
        wrong=int(bad.sum()),
        against_eager=wide is None,
    )


def _plain(t: torch.Tensor) -> torch.Tensor:
    t = t.detach()
    if t.layout != torch.strided:
        t = t.to_dense()
    if t.is_quantized:
        t = t.dequantize()
    t = t.resolve_conj().resolve_neg()
    return t.to(torch.float32) if t.is_floating_point() and t.element_size() == 1 else t


def _largest(t: torch.Tensor) -> float:
    return float(t.max()) if t.numel() else 0.0


def _worst(bad: torch.Tensor, score: torch.Tensor) -> tuple[int, ...] | None:
    if not bool(bad.any()):
        return None
    flat = torch.where(bad, score.to(torch.float64), -1.0).reshape(-1)
    flat = torch.nan_to_num(flat, nan=torch.finfo(torch.float64).max)
    return tuple(int(i) for i in torch.unravel_index(flat.argmax(), bad.shape))
