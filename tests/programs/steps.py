"""The kinds of step that random programs are made of, with their weights. Each adds at most one step to a Generator."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from tests.programs.generate import FLOATS, Generator


def is_float(t: torch.Tensor) -> bool:
    return t.is_floating_point()


def is_integer(t: torch.Tensor) -> bool:
    return not t.is_floating_point() and t.dtype != torch.bool


def has_dims(t: torch.Tensor) -> bool:
    return t.dim() > 0 and t.numel() > 0


# ---- pointwise -------------------------------------------------------------------------------------------------------

_SMOOTH = [
    *("x.exp().clamp(max=50.0)", "x.sigmoid()", "x.tanh()", "x.sin()", "x.cos()", "F.gelu(x)", "F.silu(x)"),
    *("F.gelu(x, approximate='tanh')", "x.abs().sqrt()", "(x.abs() + 1).rsqrt()", "x.abs().log1p()", "x.erf()"),
    *("x * x", "x.expm1().clamp(max=50.0)", "F.softplus(x)", "F.elu(x)", "(x * x + 1).reciprocal()", "x.pow(2)"),
    *("x.pow(3).clamp(-50.0, 50.0)", "F.hardswish(x)", "F.mish(x)", "F.logsigmoid(x)", "x.atan()", "x.rad2deg()"),
    *("x.sinh().clamp(-9.0, 9.0)", "F.leaky_relu(x, 0.1)", "x.square()", "x.exp2().clamp(max=99.0)"),
    *("torch.special.expit(x)", "x.nan_to_num(0.5)", "x.softmax(-1)"),
]
_SAFE = [
    *("-x", "x.abs()", "x.relu()", "x.clamp(-0.5, 1.25)", "x.clamp(min=0.0)", "x.clone()", "F.hardtanh(x)"),
    *("x + 0.0", "x.positive()"),
]
_JUMPS = [
    *("x.floor()", "x.ceil()", "x.round()", "x.trunc()", "x.sign()", "x > 0.25", "x <= x", "x != 0", "x.isnan()"),
    *("x.isfinite()", "x.signbit()"),
]
_INTEGER = [
    *("x + 3", "x * 2", "-x", "x.abs()", "x // 2", "x % 3", "x & 3", "x | 1", "x ^ 5", "~x", "x << 1", "x >> 1"),
    *("x > 2", "x == 3", "x.clamp(1, 4)", "x.sign()", "x / 2", "x.float()", "x * 0.5", "x.bool()", "x.sqrt()"),
    *("x.exp().clamp(max=9.0)", "x.square()", "x.pow(2)"),
]


def unary_float(g: Generator) -> None:
    g.add(_with(g, _SMOOTH + _SAFE, g.pick(is_float)))


def unary_jump(g: Generator) -> None:
    g.add(_with(g, _JUMPS, g.pick(is_float, exact=True)))


def unary_integer(g: Generator) -> None:
    g.add(_with(g, _INTEGER, g.pick(is_integer)))


def unary_bool(g: Generator) -> None:
    x = g.pick(lambda t: t.dtype == torch.bool)
    g.add(
        _with(
            g, ["~x", "x.int()", "x.float()", "x.logical_not()", "x * 2", "x + 1.5", "x.sum()", "x.any()", "x.all()"], x
        )
    )


def _with(g: Generator, templates: list[str], x: str) -> str:
    return re.sub(r"\bx\b", x, g.rng.choice(templates))


def binary(g: Generator) -> None:
    a = g.pick()
    b = g.like(a)
    if g.rng.random() < 0.3:
        a, b = b, a
    ta, tb = g.tensor(a), g.tensor(b)
    if ta.dtype == tb.dtype == torch.bool:
        g.add(g.rng.choice([f"{a} & {b}", f"{a} | {b}", f"{a} ^ {b}", f"{a}.logical_and({b})"]))
        return
    codes = [f"{a} + {b}", f"{a} * {b}", f"torch.maximum({a}, {b})", f"torch.minimum({a}, {b})"]
    if ta.dtype != torch.bool and tb.dtype != torch.bool:
        codes += [
            f"{a} - {b}",
            f"torch.add({a}, {b}, alpha=2)",
            f"{a} / ({b} * {b} + 1)",
            f"torch.sub({a}, {b}, alpha=3)",
        ]
        codes += [f"torch.lerp({a}, {b}, 0.25)", f"torch.hypot({a}, {b})", f"torch.atan2({a}, {b} * {b} + 1)"]
        codes += [f"torch.addcmul({a}, {a}, {b}, value=0.5)", f"{a}.copysign({b})"]
    g.add(g.rng.choice(codes))


def compare(g: Generator) -> None:
    a = g.pick(exact=True)
    t = g.tensor(a)
    b = g.pick(lambda o: o.shape == t.shape and not g.is_rough(o), exact=True)
    g.add(f"{a} {g.rng.choice(['<', '<=', '>', '>=', '==', '!='])} {b}")


def with_number(g: Generator) -> None:
    x = g.pick(lambda t: t.dtype != torch.bool)
    number = g.rng.choice(["2", "0.5", "-1.25", "3", "1e-3", "0"])
    codes = [f"{x} * {number}", f"{x} + {number}", f"{number} - {x}", f"torch.where({x} == {x}, {x}, {number})"]
    g.add(g.rng.choice(codes[:3] if is_integer(g.tensor(x)) and "." in number else codes))


def where(g: Generator) -> None:
    c = g.pick(lambda t: t.dtype == torch.bool)
    size = g.tensor(c).shape
    a = g.pick(lambda t: _meets(g, t.shape, size))
    b = g.like(a)
    g.add(g.rng.choice([f"torch.where({c}, {a}, {b})", f"{a}.masked_fill({c}, 0.5)", f"torch.where({c}, {a}, 0.25)"]))


def _meets(g: Generator, a: torch.Size, b: torch.Size) -> bool:
    try:
        return torch.broadcast_shapes(a, b).numel() <= g.most
    except RuntimeError:
        return False


def cast(g: Generator) -> None:
    x = g.pick()
    if g.rng.random() < 0.7:
        g.add(f"{x}.to(torch.{g.rng.choice(FLOATS)})")
        return
    x = g.pick(exact=True)
    g.add(f"{x}.to(torch.{g.rng.choice(['int64', 'int32', 'int16', 'bool'])})")


# ---- views and copies ------------------------------------------------------------------------------------------------


def view(g: Generator) -> None:
    x = g.pick(lambda t: t.dim() > 0)
    t = g.tensor(x)
    d, e, n = g.dim(t), g.dim(t), 0
    n = t.shape[d]
    start = g.rng.randint(0, max(n - 1, 0))
    codes = [
        f"{x}.transpose({d}, {e})",
        f"{x}.unsqueeze({g.rng.randint(0, t.dim())})",
        f"{x}.squeeze()",
        f"{x}.narrow({d}, {start}, {g.rng.randint(0, n - start)})",
        f"{x}.select({d}, {start})",
        f"{x}.reshape(-1)",
        f"{x}.flatten()",
        f"{x}.reshape({_other_size(g, t)})",
        f"{x}.view({_other_size(g, t)})",
        f"{x}.permute({_order(g, t.dim())})",
        f"{x}[..., ::2]",
        f"{x}[{start}:]",
        f"{x}[:, None]",
        f"{x}.expand(3, {', '.join('-1' for _ in t.shape)})",
        f"{x}.chunk(2, {d})[0]",
        f"{x}.split({max(n // 2, 1)}, {d})[-1]",
        f"{x}.unbind({d})[0]",
        f"{x}.movedim({d}, {e})",
        f"{x}.unfold({d}, {max(n // 2, 1)}, 1)",
        f"{x}.diagonal()",
        f"{x}.detach()",
        f"{x}.mT",
        f"{x}.view(torch.int32)" if t.dtype == torch.float32 and not g.is_rough(t) else f"{x}.view_as({x})",
    ]
    g.add(g.rng.choice(codes))


def _order(g: Generator, rank: int) -> str:
    order = list(range(rank))
    g.rng.shuffle(order)
    return ", ".join(map(str, order))


def _other_size(g: Generator, t: torch.Tensor) -> str:
    n = t.numel()
    divisors = [d for d in range(1, min(n, 64) + 1) if n % d == 0] or [1]
    first = g.rng.choice(divisors)
    return f"[{first}, {n // first if n else 0}]" if g.rng.random() < 0.6 else f"[-1, {first}]"


def copy(g: Generator) -> None:
    x = g.pick(lambda t: t.dim() > 0)
    t = g.tensor(x)
    d = g.dim(t)
    ones = ", ".join("1" for _ in t.shape)
    codes = [
        f"{x}.contiguous()",
        f"{x}.clone()",
        f"{x}.flip({d})",
        f"{x}.roll(1, {d})",
        f"{x}.repeat(2, {ones})",
        f"{x}.repeat_interleave(2, {d})",
        f"{x}.tril()",
        f"{x}.triu(1)",
        f"F.pad({x}, (1, 2))",
        f"F.pad({x}, (-1, 1), value=3)",
        f"{x}.contiguous(memory_format=torch.channels_last)",
        f"torch.zeros_like({x})",
        f"{x}.new_ones({list(t.shape)})",
        f"torch.full_like({x}, 2)",
        f"torch.arange({t.shape[d]}, dtype={x}.dtype)",
        f"F.pad({x}[None], (1, 1), mode='reflect')",
    ]
    g.add(g.rng.choice(codes))


def cat(g: Generator) -> None:
    a = g.pick(lambda t: t.dim() > 0)
    t = g.tensor(a)
    d = g.dim(t)
    size = list(t.shape)

    def fits(o: torch.Tensor) -> bool:
        other = list(o.shape)
        return len(other) == len(size) and all(
            x == y for i, (x, y) in enumerate(zip(size, other, strict=True)) if i != d % len(size)
        )

    names = ", ".join([a, *(g.pick(fits) for _ in range(g.rng.randint(0, 2)))])
    same = ", ".join([a, *(g.pick(lambda o: o.shape == t.shape) for _ in range(g.rng.randint(0, 2)))])
    g.add(g.rng.choice([f"torch.cat([{names}], {d})", f"torch.cat([{names}], {d})", f"torch.stack([{same}], {d})"]))


# ---- reductions and scans --------------------------------------------------------------------------------------------


def reduce(g: Generator) -> None:
    x = g.pick(lambda t: is_float(t) and has_dims(t))
    d = g.dim(g.tensor(x))
    keep = g.rng.choice(["", ", keepdim=True"])
    codes = [
        f"{x}.sum()",
        f"{x}.mean()",
        f"{x}.sum({d}{keep})",
        f"{x}.mean({d}{keep})",
        f"{x}.amax({d}{keep})",
        f"{x}.amin({d}{keep})",
        f"{x}.max()",
        f"{x}.var({d}{keep})",
        f"{x}.std({d}{keep}, correction=0)",
        f"{x}.logsumexp({d}{keep})",
        f"{x}.softmax({d})",
        f"{x}.log_softmax({d})",
        f"{x}.norm(2, {d}{keep})",
        f"F.layer_norm({x}, {x}.shape[-1:])",
        f"F.normalize({x}, dim={d})",
        f"{x}.cumsum({d})",
        f"{x}.clamp(-1.1, 1.1).prod({d}{keep})",
        f"{x}.sum({d}{keep}, dtype=torch.float32)",
        f"torch.var_mean({x}, {d}{keep})[{g.rng.choice('01')}]",
        f"{x}.softmax({d}, dtype=torch.float32)",
        f"{x}.max({d}{keep}).values",
        f"{x}.sum((0, -1){keep})",
    ]
    g.add(g.rng.choice(codes))


def reduce_exact(g: Generator) -> None:
    x = g.pick(has_dims, exact=True)
    t = g.tensor(x)
    d = g.dim(t)
    codes = [
        f"{x}.argmax({d})",
        f"{x}.argmin({d}, keepdim=True)",
        f"{x}.argmax()",
        f"{x}.sort({d}, stable=True).indices",
        f"{x}.any({d})",
    ]
    codes += [f"{x}.max({d}).indices", f"{x}.all()", f"{x}.topk(1, {d}).values", f"{x}.sort({d}).values"]
    if is_integer(t):
        codes += [f"{x}.sum({d})", f"{x}.cumsum({d})", f"{x}.sum()", f"{x}.amax({d})", f"{x}.prod({d})"]
    g.add(g.rng.choice(codes))


# ---- indexing --------------------------------------------------------------------------------------------------------


def index(g: Generator) -> None:
    x = g.pick(has_dims)
    t = g.tensor(x)
    d = g.dim(t)
    n = t.shape[d]
    values = [g.rng.randrange(n) for _ in range(g.rng.randint(1, 5))]
    i = f"torch.tensor({values})"
    if g.rng.random() < 0.6:  # indices that are arguments, not constants
        i = f"({g.new_input('int64', (len(values),), 'contiguous')} % {n})"
    first = f"({i} % {t.shape[0]})"
    like = f"torch.zeros_like({x}, dtype=torch.int64)"
    codes = [
        f"{x}.index_select({d}, {i})",
        f"{x}[{first}]",
        f"{x}[..., {i} % {t.shape[-1]}]",
        f"{x}.gather({d}, {like})",
        f"F.embedding({i} % {t.shape[0]}, {x})",
        f"{x}.scatter_add({d}, {like}, {x})",
        f"{x}.index_add({d}, {i}, {x}.index_select({d}, {i}))",
        f"torch.index_put({x}, ({first},), {x}[{first}], accumulate=True)",
        f"{x}[{first}, {i} % {t.shape[min(1, t.dim() - 1)]}]",
        f"{x}.take({i})",
        f"F.one_hot({i} % 5, 5)",
    ]
    g.add(g.rng.choice(codes))


# ---- mutation --------------------------------------------------------------------------------------------------------


def mutate(g: Generator) -> None:
    x = g.pick(is_float)
    t = g.tensor(x)
    y = g.pick(lambda o: o.shape == t.shape and is_float(o)) if g.rng.random() < 0.5 else "1.5"
    codes = [
        f"{x}.add_({y})",
        f"{x}.mul_({y})",
        f"{x}.sub_({y})",
        f"{x}.relu_()",
        f"{x}.zero_()",
        f"{x}.fill_(0.5)",
        f"{x}.sigmoid_()",
        f"{x}.clamp_(-1, 1)",
        f"{x}[...] = {y}",
        f"{x}[0] = {y if y == '1.5' else y + '[0]'}",
        f"{x}[..., 1:] = 0",
        f"{x}[::2] += 1",
        f"{x}.transpose(0, -1).mul_(2)",
        f"{x}.view(-1)[:2].fill_(3)",
        f"{x}.diagonal().add_(1)",
        f"torch.add({x}, {y}, out={x})",
        f"{x}.copy_({y})" if y != "1.5" else f"{x}.neg_()",
        f"{x}.t_()",
        f"{x}.unsqueeze_(0)",
    ]
    g.add(g.rng.choice(codes), statement=True)


def mutate_integer(g: Generator) -> None:
    x = g.pick(is_integer)
    g.add(g.rng.choice([f"{x}.add_(1)", f"{x}[0] = 2", f"{x}.bitwise_and_(3)", f"{x}.zero_()"]), statement=True)


# ---- products and pooling --------------------------------------------------------------------------------------------


def product(g: Generator) -> None:
    x = g.pick(lambda t: is_float(t) and t.dim() >= 1)
    t = g.tensor(x)
    dtype, k = str(t.dtype)[6:], t.shape[-1]
    n = g.rng.choice([1, 3, 8, 16])
    if g.rng.random() < 0.5:
        w = g.new_input(dtype, (n, k))
        code = f"F.linear({x}, {w})"
        if g.rng.random() < 0.5:
            code = f"F.linear({x}, {w}, {g.new_input(dtype, (n,))})"
        g.add(code)
        return
    if g.rng.random() < 0.3 and t.dim() >= 2 and t.numel() * t.shape[-2] <= g.most * max(k, 1):
        g.add(g.rng.choice([f"{x} @ {x}.mT", f"torch.einsum('...ij,...kj->...ik', {x}, {x})"]))
        return
    g.add(f"{x} @ {g.new_input(dtype, (k, n))}")


def pool(g: Generator) -> None:
    x = g.pick(lambda t: is_float(t) and t.dim() in (3, 4) and min(t.shape, default=0) >= 2)
    t = g.tensor(x)
    two = t.dim() == 4
    k = "2d" if two else "1d"
    codes = [f"F.max_pool{k}({x}, 2)", f"F.avg_pool{k}({x}, 2, 1)", f"F.adaptive_avg_pool{k}({x}, 1)"]
    codes += [f"F.interpolate({x}, scale_factor=2.0, mode='nearest')", f"F.avg_pool{k}({x}, 2, 2, 1)"]
    c = t.shape[1]
    size = (3, c, 2, 2) if two else (3, c, 2)
    codes.append(
        f"F.conv{k}({x}, {g.new_input(str(t.dtype)[6:], size, 'contiguous')})" if g.rng.random() < 0.3 else codes[0]
    )
    g.add(g.rng.choice(codes))


STEPS: list[tuple[Callable[[Generator], None], float]] = [
    (unary_float, 5),
    (unary_jump, 1),
    (unary_integer, 2),
    (unary_bool, 1),
    (binary, 6),
    (compare, 1),
    (with_number, 1.5),
    (where, 1.5),
    (cast, 1.5),
    (view, 6),
    (copy, 2),
    (cat, 1.5),
    (reduce, 3),
    (reduce_exact, 0.8),
    (index, 2),
    (mutate, 3),
    (mutate_integer, 0.5),
    (product, 1),
    (pool, 0.7),
]
