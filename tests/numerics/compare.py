"""The rule by which every result of a compiled program is judged (docs/numerics.md).

A result must have eager's structure, dtype, sizes, strides and device. Numbers that equal eager's are right. Otherwise
the program is run once more in float64 (`widened`), and for each tensor

    |ours - f64| <= 2 * max|eager - f64| + K ulp(f64) + c

must hold at every element, where an ulp is one of the result's dtype and c, evaluated only when the first two terms do
not suffice, is twice how far the float64 result moves when every input and intermediate result moves by one ulp: the
program's own condition, below which eager is right by luck only. Integers and bools must equal eager's, or float64's
where eager's own rounding made them differ. NaN and infinities must stand where eager's stand, unless eager only
overflowed and ours is right.
Where there is no float64 run (`reference` is None) equality to eager is exact.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

K = 4.0  # ulps of the result on top of eager's own error

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


def _grouped_mm(
    a: torch.Tensor, b: torch.Tensor, *, offs: torch.Tensor, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Rows of `a` by groups that end at `offs`, each with its own matrix of `b`."""
    assert a.dim() == 2 and b.dim() == 3 and bias is None
    ends = offs.tolist()
    parts = [a[first:last] @ w for first, last, w in zip([0, *ends], ends, b, strict=False)]
    return torch.cat([*parts, a.new_zeros(a.shape[0] - ends[-1], b.shape[2])])


# What has no float64 form of its own, or would give a narrow result.
_WIDE_FORMS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.float: torch.Tensor.double,
    torch.Tensor.half: torch.Tensor.double,
    torch.Tensor.bfloat16: torch.Tensor.double,
    torch._grouped_mm: _grouped_mm,
}

Reference = Callable[[], Any]


def widen(value: Any) -> Any:
    """Tensors, dtypes and their containers in float64 / complex128; aliases stay aliases."""
    seen: dict[int, torch.Tensor] = {}

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in seen:
                wide = _WIDE.get(leaf.dtype)
                seen[id(leaf)] = leaf.detach().to(wide) if wide else copy_tensor(leaf)
            return seen[id(leaf)]
        return _WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

    return pytree.tree_map(one, value)


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides (overlapping ones included) and storage offset, in a storage of its own."""
    if tensor.layout != torch.strided or tensor.is_quantized:
        return tensor.detach().clone()
    with torch.no_grad():
        storage = tensor.untyped_storage().clone()
        copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        copy.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        if tensor.is_conj():
            copy = torch._conj(copy)
        if tensor.is_neg():
            copy = torch._neg_view(copy)
    return copy.requires_grad_(tensor.requires_grad) if tensor.requires_grad else copy


def copies(value: Any) -> Any:
    """Copies every tensor of a container; tensors that share a storage go on sharing one."""
    storages: dict[int, torch.UntypedStorage] = {}
    seen: dict[int, torch.Tensor] = {}

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in seen:
            return seen[id(leaf)]
        if leaf.layout != torch.strided or leaf.is_quantized or leaf.device.type == "meta":
            made = leaf.detach().clone()
        else:
            source = leaf.untyped_storage()
            storage = storages.setdefault(source._cdata, source.clone())
            with torch.no_grad():
                made = torch.empty(0, dtype=leaf.dtype, device=leaf.device)
                made.set_(storage, leaf.storage_offset(), leaf.size(), leaf.stride())
                made = torch._conj(made) if leaf.is_conj() else made
                made = torch._neg_view(made) if leaf.is_neg() else made
        if leaf.requires_grad:
            made.requires_grad_(True)
        seen[id(leaf)] = made
        return made

    return pytree.tree_map(one, value)


class _Widening(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        func = _WIDE_FORMS.get(func, func)

        def one(leaf: Any) -> Any:
            return _WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

        args, kwargs = pytree.tree_map(one, (args, kwargs or {}))
        return func(*args, **kwargs)


@contextlib.contextmanager
def widened(mode: TorchFunctionMode | None = None) -> Iterator[None]:
    """Inside, a program given float64 inputs computes in float64 even where it names a narrower dtype itself."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with mode or _Widening():
            yield
    finally:
        torch.set_default_dtype(default)


def reference_run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Reference:
    """A float64 run of function on these arguments, run when first asked for; it gives None where it is impossible."""
    args, kwargs = copies((args, kwargs))

    def run() -> Any:
        try:
            with widened(), torch.no_grad():
                wide_args, wide_kwargs = widen((args, kwargs))
                return function(*wide_args, **wide_kwargs)
        except Exception:  # an operator without a float64 kernel: there is no reference
            return None

    return run


class _Shaking(_Widening):
    """Widening, and every result of an operator moves by an ulp of the program's own arithmetic."""

    def __init__(self, eps: float, generator: torch.Generator) -> None:
        super().__init__()
        self._eps, self._generator = eps, generator

    def move(self, t: torch.Tensor) -> torch.Tensor:
        step = torch.randint(0, 2, t.shape, generator=self._generator, dtype=torch.float64) * 2 - 1
        return t * (1 + step * self._eps)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        given = {
            t.untyped_storage()._cdata
            for t in pytree.tree_leaves((args, kwargs))
            if isinstance(t, torch.Tensor) and t.layout == torch.strided
        }

        def one(leaf: Any) -> Any:
            plain = isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.dtype in _WIDE.values()
            return self.move(leaf) if plain and leaf.untyped_storage()._cdata not in given else leaf

        return pytree.tree_map(one, result) if isinstance(result, (torch.Tensor, tuple, list)) else result


def shaking(dtype: torch.dtype) -> TorchFunctionMode:
    """For `widened`: each result of an operator moves by one ulp of `dtype`, up or down at random."""
    return _Shaking(torch.finfo(dtype).eps, torch.Generator().manual_seed(21))


def perturbed_run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Reference:
    """As reference_run, with each floating-point input and operator's result moved by one ulp, up or down at random."""
    args, kwargs = copies((args, kwargs))

    def run() -> Any:
        generator = torch.Generator().manual_seed(20)
        dtypes = {t.dtype for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)} & set(_WIDE)
        eps = min((torch.finfo(t).eps for t in dtypes), default=torch.finfo(torch.float32).eps)

        def moved(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.dtype not in _WIDE or leaf.layout != torch.strided:
                return leaf
            step = torch.randint(0, 2, leaf.shape, generator=generator, dtype=torch.float64) * 2 - 1
            return leaf.to(_WIDE[leaf.dtype]) * (1 + step * torch.finfo(leaf.dtype).eps)

        try:
            with torch.no_grad():
                shaken = pytree.tree_map(moved, (args, kwargs))
                with widened(_Shaking(eps, generator)):
                    wide_args, wide_kwargs = widen(shaken)
                    return function(*wide_args, **wide_kwargs)
        except Exception:
            return None

    return run


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
    perturbed: Reference | None = None,
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
    shaken: list[Any] | None = None
    for i in unequal:
        where, a, e = f"result {i} of {len(ours)}", ours[i], theirs[i]
        r = wide[i] if wide else None
        if i in exact or not isinstance(r, torch.Tensor) or r.shape != e.shape:
            found.append(Difference(where, _inequality(a, e)))
            continue
        text = _violation(a, e, r, None, k)
        if text and perturbed is not None:
            if shaken is None:
                shaken = _leaves(perturbed, len(ours)) or [None] * len(ours)
            p = shaken[i]
            if isinstance(p, torch.Tensor) and p.shape == r.shape:
                text = _violation(a, e, r, p, k)
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
        score = (x.to(_WIDE.get(x.dtype, x.dtype)) - y.to(_WIDE.get(y.dtype, y.dtype))).abs()
    else:
        score = bad.to(torch.float64)
    at = _place(bad, score)
    return (
        f"{int(bad.sum())} of {bad.numel()} elements differ from eager's, which must be equal; worst at {list(at)}: "
        f"{_show(x, at)}, eager's {_show(y, at)} ({e.dtype}, size {tuple(e.shape)})"
    )


def _violation(a: torch.Tensor, e: torch.Tensor, r: torch.Tensor, p: torch.Tensor | None, k: float) -> str:
    """'' if the rule holds for ours `a`, eager's `e`, float64's `r` and the result `p` on moved inputs."""
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
    if p is not None:
        moved = (_plain(p).to(wide) - z).abs()
        moved = torch.where(moved.isfinite(), moved, 0.0)
        allowed = allowed + 2 * torch.maximum(moved, moved.mean())
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
        f"largest {worst_eager:.3g} + {k:g} ulp{' + condition' if p is not None else ''} "
        f"({e.dtype}, size {tuple(e.shape)})"
    )
