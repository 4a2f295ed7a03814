"""Runs of a program in float64, which the rule (compare.py) judges results by.

A wide run makes the calls that the program makes with its own dtypes. Those calls are recorded first, so that the wide
run knows what each result would have been: its dtype, and whether it was memory of its own.
- A conversion that copies in the program copies in the wide run too, where it converts nothing.
- A float seen as bits (`x.view(torch.int32)`) shows the bits of the number rounded to its own dtype, and goes on
  sharing memory with it: what changes one changes the other.
- In a perturbed run every result moves by one ulp of its own dtype, and a sum (a product of matrices, a convolution) by
  one ulp of what its terms' sizes sum to: it is no surer than that, in whatever order it is added up. What decides
  rather than computes (comparisons, indices, rounding to whole numbers) is taken from the program's own run, for no
  distance is small to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}

SHAKES = 8  # perturbed runs, each with its own random directions


def _grouped_mm(
    a: torch.Tensor, b: torch.Tensor, *, offs: torch.Tensor, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Rows of `a` by groups that end at `offs`, each with its own matrix of `b`."""
    assert a.dim() == 2 and b.dim() == 3 and bias is None
    ends = offs.tolist()
    parts = [a[first:last] @ w for first, last, w in zip([0, *ends], ends, b, strict=False)]
    return torch.cat([*parts, a.new_zeros(a.shape[0] - ends[-1], b.shape[2])])


_norm_of, _normalize_of = torch.Tensor.norm, torch.nn.functional.normalize


def _norm(x: torch.Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, **options: Any) -> torch.Tensor:
    """ATen's sums squares one after the other: in float64 too its error would stand for nothing."""
    if p != 2 or options or x.is_complex():
        return _norm_of(x, p, dim, keepdim, **options)
    return (x * x).sum(dim, keepdim).sqrt()


def _normalize(x: torch.Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> torch.Tensor:
    if out is not None:
        return _normalize_of(x, p, dim, eps, out)
    return x / _norm(x, p, dim, True).clamp_min(eps).expand_as(x)


# Operators that have no float64 form, would return a narrow result, or would hardly be better than float32's.
_WIDE_FORMS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.float: torch.Tensor.double,
    torch.Tensor.half: torch.Tensor.double,
    torch.Tensor.bfloat16: torch.Tensor.double,
    torch._grouped_mm: _grouped_mm,
    torch.Tensor.norm: _norm,
    torch.nn.functional.normalize: _normalize,
}

# Results are sums of terms, which are products of elements of the arguments.
_SUMS = {
    *(aten.sum, aten.mean, aten.nansum, aten.cumsum, aten.var_mean),
    *(aten.dot, aten.vdot, aten.mv, aten.mm, aten.bmm, aten.addmv, aten.addmm, aten.baddbmm),
    *(aten.convolution, aten.convolution_backward, aten.avg_pool2d, aten.avg_pool3d),
    *(aten.index_add, aten.scatter_add, aten.index_put, aten.embedding_dense_backward, aten._embedding_bag),
}

# Sums are among the steps of these.
_TAKEN_APART = get_decompositions(
    [
        *(aten.native_layer_norm, aten.native_layer_norm_backward),
        *(aten.native_group_norm, aten.native_group_norm_backward),
        *(aten.native_batch_norm, aten.native_batch_norm_backward),
        *(aten._softmax_backward_data, aten._log_softmax_backward_data),
    ]
)

Reference = Callable[[], Any]


def is_plain(leaf: Any) -> bool:
    """Whether it is a tensor of numbers in a storage."""
    return (
        isinstance(leaf, torch.Tensor)
        and leaf.layout == torch.strided
        and not leaf.is_quantized
        and leaf.device.type != "meta"
    )


def repeats(tensor: torch.Tensor) -> bool:
    """Whether it shows an element at several places."""
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


def storage_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def over(storage: torch.UntypedStorage, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A tensor that lies in `storage` as `like` lies in its own, counted in elements."""
    with torch.no_grad():
        made: torch.Tensor = torch.empty(0, dtype=dtype, device=like.device)
        made.set_(storage, like.storage_offset(), like.size(), like.stride())
        made = torch._conj(made) if like.is_conj() else made
        made = torch._neg_view(made) if like.is_neg() else made
    return made


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides (overlapping ones included) and storage offset, in a storage of its own."""
    return copies([tensor])[0]


def copies(value: Any) -> Any:
    """Copies every tensor of a container; tensors that share a storage go on sharing one."""
    storages: dict[int, torch.UntypedStorage] = {}
    seen: dict[int, torch.Tensor] = {}

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in seen:
            return seen[id(leaf)]
        if is_plain(leaf):
            source = leaf.untyped_storage()
            made = over(storages.setdefault(source._cdata, source.clone()), leaf, leaf.dtype)
        else:
            made = leaf.detach().clone()
        if leaf.requires_grad:
            made.requires_grad_(True)
        seen[id(leaf)] = made
        return made

    return pytree.tree_map(one, value)


def widen(value: Any, moved: Callable[[torch.Tensor, torch.dtype], torch.Tensor] | None = None) -> Any:
    """Copies of tensors in float64 / complex128, and dtypes so, in any container; not to be called in `widened`.

    Tensors that share a storage go on sharing one. `moved` gives other numbers for those of a storage, whose dtype was
    its second argument.
    """
    storages: dict[tuple[int, torch.dtype], torch.UntypedStorage] = {}
    seen: dict[int, torch.Tensor] = {}

    def numbers(leaf: torch.Tensor) -> torch.UntypedStorage:
        source = leaf.untyped_storage()
        flat = torch.empty(0, dtype=leaf.dtype, device=leaf.device)
        flat.set_(source, 0, (source.nbytes() // leaf.element_size(),), (1,))
        flat = flat.to(WIDE.get(leaf.dtype, leaf.dtype), copy=True)
        return (moved(flat, leaf.dtype) if moved else flat).untyped_storage()

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf
        if id(leaf) not in seen:
            wide = WIDE.get(leaf.dtype, leaf.dtype)
            if moved and is_plain(leaf) and repeats(leaf):  # each element that operators see moves by itself
                seen[id(leaf)] = moved(leaf.detach().to(wide, copy=True), leaf.dtype)
            elif is_plain(leaf):
                key = (storage_of(leaf), leaf.dtype)
                if key not in storages:
                    storages[key] = numbers(leaf)
                seen[id(leaf)] = over(storages[key], leaf, wide)
            else:
                seen[id(leaf)] = leaf.detach().to(wide, copy=True)
        return seen[id(leaf)]

    with torch.no_grad():
        return pytree.tree_map(one, value)


# ---- the calls of a program ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """The outcome of a call for one of its results."""

    dtype: torch.dtype | None  # None: no tensor of numbers in a storage
    owned: bool = False  # lies in a storage that none of the arguments lies in
    value: torch.Tensor | None = None  # what decides rather than computes


@dataclass(frozen=True)
class Call:
    name: str
    given: tuple[torch.dtype | None, ...]
    made: tuple[Made, ...]


# Floating-point results that jump.
_JUMPS = {f"{name}{end}" for name in ("floor", "ceil", "round", "trunc", "sign", "fix") for end in ("", "_")}


def _storages(value: Any) -> set[int]:
    return {storage_of(t) for t in pytree.tree_leaves(value) if is_plain(t)}


def _name(func: Any) -> str:
    return getattr(func, "__name__", str(func))


class _Recording(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = tuple(t.dtype if is_plain(t) else None for t in pytree.tree_leaves((args, kwargs)))
        result = func(*args, **kwargs)
        storages = _storages((args, kwargs))

        def one(leaf: Any) -> Made:
            if not is_plain(leaf):
                return Made(None)
            owned = storage_of(leaf) not in storages
            decides = owned and (not (leaf.is_floating_point() or leaf.is_complex()) or _name(func) in _JUMPS)
            return Made(leaf.dtype, owned, copy_tensor(leaf) if decides else None)

        self.calls.append(Call(_name(func), given, tuple(map(one, pytree.tree_leaves(result)))))
        return result


@dataclass
class _Bits:
    """Floats seen as integers of the same size: `bits` is what `wide`, rounded to `dtype`, holds."""

    wide: torch.Tensor
    dtype: torch.dtype
    bits: torch.Tensor
    versions: tuple[int, int]

    def sync(self) -> bool:
        """Carries a change of one to the other. False if there was none."""
        wide, bits = self.wide._version, self.bits._version
        if (wide, bits) == self.versions:
            return False
        if bits != self.versions[1]:
            self.wide.copy_(self.bits.view(self.dtype))
        else:
            self.bits.copy_(self.wide.to(self.dtype).view(self.bits.dtype))
        self.versions = (self.wide._version, self.bits._version)
        return True


class _Widening(TorchFunctionMode):
    def __init__(self, calls: list[Call] | None = None) -> None:
        super().__init__()
        self._calls = calls or []
        self._next = 0
        self._bits: list[_Bits] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = self._calls[self._next] if self._next < len(self._calls) else None
        if call and call.name != _name(func):  # the program took another way
            self._calls, call = [], None
        self._next += 1
        kwargs = kwargs or {}
        before = self.before(call, args, kwargs)
        seen_as_bits = self._seen_as_bits(call, func, args)
        if seen_as_bits is not None:
            return seen_as_bits

        def one(leaf: Any) -> Any:
            return WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

        wide_args, wide_kwargs = pytree.tree_map(one, self.seen_by(call, args, kwargs))
        result = _WIDE_FORMS.get(func, func)(*wide_args, **wide_kwargs)
        given = _storages((args, kwargs))
        leaves, spec = pytree.tree_flatten(result)
        known = call.made if call and len(call.made) == len(leaves) else (Made(None),) * len(leaves)
        made = [
            self.complete(leaf, m, given) if is_plain(leaf) else leaf for leaf, m in zip(leaves, known, strict=True)
        ]
        self.after(before)
        while any([b.sync() for b in self._bits]):
            pass
        unchanged = all(a is b for a, b in zip(leaves, made, strict=True))
        return result if unchanged else pytree.tree_unflatten(made, spec)

    def complete(self, leaf: torch.Tensor, known: Made, given: set[int]) -> torch.Tensor:
        """The result itself, or what the program would have: memory of its own."""
        return leaf.clone() if known.owned and storage_of(leaf) in given else leaf

    def seen_by(self, call: Call | None, args: Any, kwargs: Any) -> Any:
        """The arguments as the call sees them."""
        return args, kwargs

    def before(self, call: Call | None, args: Any, kwargs: Any) -> Any:
        return None

    def after(self, before: Any) -> None:
        pass

    def _seen_as_bits(self, call: Call | None, func: Any, args: Any) -> torch.Tensor | None:
        if not call or func is not torch.Tensor.view or len(args) != 2 or not isinstance(args[1], torch.dtype):
            return None
        wide, dtype, narrow = args[0], args[1], call.given[0]
        if narrow not in WIDE or dtype in WIDE or dtype.itemsize != narrow.itemsize or wide.dtype != WIDE[narrow]:
            return None
        bits: torch.Tensor = wide.to(narrow).view(dtype)
        self._bits.append(_Bits(wide, narrow, bits, (wide._version, bits._version)))
        return bits


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


def _is_float(dtype: torch.dtype | None) -> bool:
    return dtype is not None and (dtype.is_floating_point or dtype.is_complex)


class _ShakingInside(TorchDispatchMode):
    """Inside a call sums move by an ulp, of the type it adds up in, of what their terms' sizes sum to; and while
    gradients are computed every operator's result moves, by an ulp of `dtype`."""

    def __init__(self, dtype: torch.dtype, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._default, self._generator = dtype, generator
        self._apart = 0  # how many operators that are taken apart we are in
        self.begin(None)

    def begin(self, call: Call | None) -> None:
        dtypes = [t for t in (*call.given, *(m.dtype for m in call.made)) if t and _is_float(t)] if call else []
        finest = min(torch.finfo(t).eps for t in dtypes or [self._default])
        self._eps = min(finest, torch.finfo(torch.float32).eps)  # half precision is added up in single

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _TAKEN_APART:
            self._apart += 1
            with self:
                result = _TAKEN_APART[func](*args, **kwargs)
            self._apart -= 1
        else:
            result = func(*args, **kwargs)
        if func.overloadpacket in _SUMS:
            result = self._sums(result, func, args, kwargs)
        fresh = not any(r.alias_info for r in func._schema.returns)
        if fresh and not self._apart and torch._C._current_graph_task_id() >= 0:  # autograd is at work
            result = pytree.tree_map(lambda leaf: self._moved(leaf, torch.finfo(self._default).eps, leaf), result)
        return result

    def _moved(self, leaf: Any, eps: float, of: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not _is_float(leaf.dtype):
            return leaf
        step = torch.randint(0, 2, leaf.shape, generator=self._generator, dtype=torch.float64) * 2 - 1
        return leaf + step * eps * of

    def _sums(self, result: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        def size(leaf: Any) -> Any:
            return leaf.abs() if isinstance(leaf, torch.Tensor) and _is_float(leaf.dtype) else leaf

        numbers = {name: abs(value) if name in ("alpha", "beta") else value for name, value in kwargs.items()}
        sizes = func(*pytree.tree_map(size, args), **pytree.tree_map(size, numbers))
        return pytree.tree_map(lambda leaf, of: self._moved(leaf, self._eps, of), result, sizes)


class _Shaking(_Widening):
    """Widening, and every result of an operator moves by an ulp of its own dtype (of `dtype` if no calls are known)."""

    def __init__(self, dtype: torch.dtype, generator: torch.Generator, calls: list[Call] | None = None) -> None:
        super().__init__(calls)
        self._dtype, self._generator = dtype, generator
        self._calls_inside = _ShakingInside(dtype, generator)

    def __enter__(self) -> Any:
        self._inside = contextlib.ExitStack()
        self._inside.enter_context(sdpa_kernel(SDPBackend.MATH))  # of operators that are seen
        self._inside.enter_context(self._calls_inside)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self._inside.close()

    def moved(self, t: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
        eps = torch.finfo(dtype if dtype and _is_float(dtype) else self._dtype).eps
        step = torch.randint(0, 2, t.shape, generator=self._generator, dtype=torch.float64) * 2 - 1
        return t * (1 + step * eps)

    def complete(self, leaf: torch.Tensor, known: Made, given: set[int]) -> torch.Tensor:
        if known.value is not None and known.value.shape == leaf.shape:
            return known.value.to(WIDE.get(known.value.dtype, known.value.dtype), copy=True)
        if storage_of(leaf) not in given or known.owned:
            return (
                self.moved(leaf, known.dtype) if leaf.dtype in WIDE.values() else super().complete(leaf, known, given)
            )
        return leaf

    def seen_by(self, call: Call | None, args: Any, kwargs: Any) -> Any:
        """Where a call computes, elements that share memory (an expanded view) move each by itself."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if not call or len(call.given) != len(leaves) or not all(m.owned for m in call.made):
            return args, kwargs
        moved = [
            self.moved(t.contiguous(), dtype) if dtype in WIDE and is_plain(t) and repeats(t) else t
            for t, dtype in zip(leaves, call.given, strict=True)
        ]
        return pytree.tree_unflatten(moved, spec)

    def before(self, call: Call | None, args: Any, kwargs: Any) -> Any:
        """The tensors that a call may write: tensor, dtype in the program, version and numbers."""
        self._calls_inside.begin(call)
        leaves = pytree.tree_leaves((args, kwargs))
        dtypes = call.given if call and len(call.given) == len(leaves) else (None,) * len(leaves)
        return [
            (t, dtype, t._version, t.clone())
            for t, dtype in zip(leaves, dtypes, strict=True)
            if is_plain(t) and t.dtype in WIDE.values()
        ]

    def after(self, before: Any) -> None:
        for t, dtype, version, old in before:
            if t._version != version and t.shape == old.shape:
                same = (t == old) | (t.isnan() & old.isnan())
                with torch.no_grad(), contextlib.suppress(RuntimeError):  # elements may share memory
                    # As part of the call: to autograd, which may have kept t, it changed once.
                    t.data.copy_(torch.where(same, t, self.moved(t, dtype)))


def shaking(dtype: torch.dtype, seed: int) -> TorchFunctionMode:
    """For `widened`: each result of an operator moves by one ulp of `dtype`, up or down at random."""
    return _Shaking(dtype, torch.Generator().manual_seed(seed))


def recorded(function: Callable[..., Any], args: Any, kwargs: Any) -> list[Call]:
    """The calls that the program makes on copies of these arguments."""
    state, mode = torch.get_rng_state(), _Recording()
    args, kwargs = copies((args, kwargs))
    try:
        with torch.no_grad(), mode:
            function(*args, **kwargs)
    finally:
        torch.set_rng_state(state)
    return mode.calls


def reference_run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Reference:
    """A float64 run of function on these arguments, run when first asked for; it gives None where it is impossible."""
    args, kwargs = copies((args, kwargs))

    def run() -> Any:
        try:
            mode = _Widening(recorded(function, args, kwargs))
            wide_args, wide_kwargs = widen((args, kwargs))
            with torch.no_grad(), widened(mode):
                return function(*wide_args, **wide_kwargs)
        except Exception:  # an operator without a float64 kernel: there is no reference
            return None

    return run


def perturbed_runs(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Reference]:
    """As reference_run, with each floating-point input and operator's result moved by one ulp of its dtype, up or down
    at random: several runs, each with directions of its own."""
    args, kwargs = copies((args, kwargs))
    dtypes = {t.dtype for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)} & set(WIDE)
    finest = min(dtypes, key=lambda t: torch.finfo(t).eps, default=torch.float32)

    def run(seed: int) -> Any:
        try:
            mode = _Shaking(finest, torch.Generator().manual_seed(seed), recorded(function, args, kwargs))
            wide_args, wide_kwargs = widen(
                (args, kwargs), lambda t, dtype: mode.moved(t, dtype) if dtype in WIDE else t
            )
            with torch.no_grad(), widened(mode):
                return function(*wide_args, **wide_kwargs)
        except Exception:
            return None

    return [partial(run, 20 + i) for i in range(SHAKES)]
