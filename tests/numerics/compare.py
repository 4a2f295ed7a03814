"""The rule by which every result of a compiled program is judged (docs/numerics.md).

A result must have eager's structure, dtype, sizes, strides and device. Numbers that equal eager's are right. Otherwise
the program is run once more in float64 (wide_runs.py), and for each tensor

    |ours - f64| <= 2 * max|eager - f64| + K ulp(f64) + c

must hold at every element, where an ulp is one of the result's dtype and c, evaluated only when the first two terms do
not suffice, is twice how far the float64 result moves when every input and intermediate result moves by one ulp of its
dtype (the farthest of a few random directions): the program's own condition, below which eager is right by luck only.
Integers and bools must equal eager's, or float64's where eager's own rounding made them differ. NaN and infinities must
stand where eager's stand, unless eager only overflowed and ours is right.
Where there is no float64 run (`reference` is None) equality to eager is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.numerics.wide_runs import WIDE, Reference

K = 4.0  # ulps of the result on top of eager's own error


def ulp(magnitude: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbouring numbers of `dtype` at `magnitude` (float64)."""
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(magnitude.clamp(min=info.tiny))
    return torch.ldexp(torch.full_like(magnitude, info.eps), exponent - 1)


@dataclass
class Difference:
    """One way in which a result is not eager's."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


def differences(
    actual: Any,
    eager: Any,
    reference: Reference | None = None,
    perturbed: Sequence[Reference] = (),
    *,
    k: float = K,
    strides: bool = True,
    values: bool = True,
) -> list[Difference]:
    """All differences between a result and eager's that the rule does not allow."""
    ours, our_spec = pytree.tree_flatten(actual)
    theirs, their_spec = pytree.tree_flatten(eager)
    if our_spec != their_spec:
        return [Difference("result", f"structure is {our_spec}, eager's {their_spec}")]
    found: list[Difference] = []
    unequal: list[int] = []
    for i, (a, e) in enumerate(zip(ours, theirs, strict=True)):
        where = f"result {i} of {len(ours)}"
        if not isinstance(e, torch.Tensor) or not isinstance(a, torch.Tensor):
            if type(a) is not type(e) or not (a == e or (a != a and e != e)):
                found.append(Difference(where, f"{a!r}, eager's {e!r}"))
            continue
        wrong = _facts(a, e, strides)
        if wrong:
            found.append(Difference(where, wrong))
        elif values and not _identical(a, e):
            unequal.append(i)
    if not unequal:
        return found

    exact = [i for i in unequal if reference is None]
    wide = _leaves(reference, len(ours)) if reference else None
    shaken: list[list[Any]] = []
    for i in unequal:
        where, a, e = f"result {i} of {len(ours)}", ours[i], theirs[i]
        r = wide[i] if wide else None
        if i in exact or not isinstance(r, torch.Tensor) or r.shape != e.shape:
            found.append(Difference(where, _inequality(a, e)))
            continue
        text = _violation(a, e, r, [], k)
        for n, run in enumerate(perturbed):
            if not text:
                break
            if n == len(shaken):
                shaken.append(_leaves(run, len(ours)) or [None] * len(ours))
            moved = [p[i] for p in shaken[: n + 1] if isinstance(p[i], torch.Tensor) and p[i].shape == r.shape]
            text = _violation(a, e, r, moved, k)
        if text:
            found.append(Difference(where, text))
    return found


def check(actual: Any, eager: Any, reference: Reference | None = None, what: str = "", **options: Any) -> None:
    """Raises AssertionError that names every difference."""
    found = differences(actual, eager, reference, **options)
    if found:
        raise AssertionError("\n".join([what or "result differs from eager's", *map(str, found)]))


def _leaves(reference: Reference, count: int) -> list[Any] | None:
    value = reference()
    if value is None:
        return None
    leaves = pytree.tree_leaves(value)
    return leaves if len(leaves) == count else None


def _facts(a: torch.Tensor, e: torch.Tensor, strides: bool) -> str:
    for name, x, y in (
        ("dtype", a.dtype, e.dtype),
        ("layout", a.layout, e.layout),
        ("device", a.device, e.device),
        ("size", tuple(a.shape), tuple(e.shape)),
        ("is_conj()", a.is_conj(), e.is_conj()),
        ("is_neg()", a.is_neg(), e.is_neg()),
    ):
        if x != y:
            return f"{name} {x}, eager's {y}"
    if strides and e.layout == torch.strided and a.stride() != e.stride():
        return f"strides {a.stride()}, eager's {e.stride()} (size {tuple(e.shape)}, {e.dtype})"
    return ""


def _plain(t: torch.Tensor) -> torch.Tensor:
    t = t.detach()
    if t.layout != torch.strided:
        t = t.to_dense()
    if t.is_quantized:
        t = t.dequantize()
    return t.resolve_conj().resolve_neg()


def _identical(a: torch.Tensor, e: torch.Tensor) -> bool:
    a, e = _plain(a), _plain(e)
    a, e = (torch.view_as_real(a), torch.view_as_real(e)) if e.is_complex() else (a, e)
    if torch.equal(a, e):
        return True
    if not e.is_floating_point():
        return False
    return bool(((a == e) | (a.isnan() & e.isnan())).all())


def _show(t: torch.Tensor, index: tuple[int, ...]) -> str:
    value = t[index].item()
    if isinstance(value, complex):
        return f"{value.real:.9g}{value.imag:+.9g}j"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _place(bad: torch.Tensor, score: torch.Tensor) -> tuple[int, ...]:
    """The index of the worst bad element."""
    flat = torch.where(bad, score, torch.full_like(score, -1.0)).reshape(-1)
    flat = torch.nan_to_num(flat, nan=torch.finfo(flat.dtype).max)
    return tuple(int(i) for i in torch.unravel_index(flat.argmax(), bad.shape))


def _inequality(a: torch.Tensor, e: torch.Tensor) -> str:
    x, y = _plain(a), _plain(e)
    bad = x != y
    if x.is_floating_point() or x.is_complex():
        bad &= ~(x.isnan() & y.isnan())
        score = (x.to(WIDE.get(x.dtype, x.dtype)) - y.to(WIDE.get(y.dtype, y.dtype))).abs()
    else:
        score = bad.to(torch.float64)
    at = _place(bad, score)
    return (
        f"{int(bad.sum())} of {bad.numel()} elements differ from eager's, which must be equal; worst at {list(at)}: "
        f"{_show(x, at)}, eager's {_show(y, at)} ({e.dtype}, size {tuple(e.shape)})"
    )


def _violation(a: torch.Tensor, e: torch.Tensor, r: torch.Tensor, shaken: list[torch.Tensor], k: float) -> str:
    """'' if the rule holds for ours `a`, eager's `e`, float64's `r` and the `shaken` results of moved numbers."""
    a, e, r = _plain(a), _plain(e), _plain(r)
    if not (e.is_floating_point() or e.is_complex()):
        bad = (a != e) & (a != r.to(e.dtype) if not r.is_complex() else torch.ones_like(a, dtype=torch.bool))
        if not bad.any():
            return ""
        at = _place(bad, bad.to(torch.float64))
        return (
            f"{int(bad.sum())} of {bad.numel()} elements differ from eager's; first at {list(at)}: "
            f"{_show(a, at)}, eager's {_show(e, at)}, float64's {_show(r, at)} ({e.dtype}, size {tuple(e.shape)})"
        )
    dtype = e.dtype if not e.is_complex() else (torch.float64 if e.dtype == torch.complex128 else torch.float32)
    wide = torch.complex128 if e.is_complex() else torch.float64
    narrow_reference = r.dtype == e.dtype or r.dtype not in (torch.float64, torch.complex128)
    x, y, z = a.to(wide), e.to(wide), r.to(wide)

    finite = x.isfinite() & y.isfinite() & z.isfinite()
    error = torch.where(finite, (x - z).abs(), 0.0)
    eager_error = torch.where(finite, (y - z).abs(), 0.0)
    magnitude = torch.where(z.isfinite(), z.abs(), 0.0)
    worst_eager = eager_error.max()
    if narrow_reference:  # no wider number to compare with: the rounding of the whole tensor's scale instead
        worst_eager = torch.maximum(worst_eager, 8 * ulp(magnitude.max(), dtype))
    allowed = 2 * worst_eager + k * ulp(magnitude, dtype)
    farthest = torch.zeros_like(magnitude)
    for p in shaken:
        moved = (_plain(p).to(wide) - z).abs()
        moved = torch.where(moved.isfinite(), moved, 0.0)
        farthest = torch.maximum(farthest, torch.maximum(moved, moved.mean()))
    allowed = allowed + 2 * farthest
    bad = error > allowed

    # Where something is not finite: ours as eager's, or right where eager overflowed; where only float64 is not finite
    # (or eager's rounding alone decides), ours as eager's.
    ours_right = z.isfinite() & x.isfinite() & ((x - z).abs() <= allowed)
    near = x.isfinite() & y.isfinite() & ((x - y).abs() <= k * ulp(torch.where(y.isfinite(), y.abs(), 0.0), dtype))
    if e.is_complex():
        same = (x == y) | (~x.isfinite() & ~y.isfinite())
    else:
        same = (x == y) | (x.isnan() & y.isnan()) | near
        # float64 does not overflow where the dtype does; the rounded float64 value is what both should be.
        rounded = r.to(e.dtype).to(wide)
        same |= (x == rounded) | (x.isnan() & rounded.isnan())
    bad |= ~finite & ~same & ~near & ~ours_right
    if not bad.any():
        return ""
    score = torch.where(finite, error / allowed.clamp(min=1e-300), float("inf"))
    at = _place(bad, score)
    return (
        f"{int(bad.sum())} of {bad.numel()} elements break the rule; worst at {list(at)}: {_show(a, at)}, eager's "
        f"{_show(e, at)}, float64's {_show(r, at)}; error {error[at]:.3g}, allowed {allowed[at]:.3g} = 2 * eager's "
        f"largest {worst_eager:.3g} + {k:g} ulp{' + condition' if shaken else ''} "
        f"({e.dtype}, size {tuple(e.shape)})"
    )
