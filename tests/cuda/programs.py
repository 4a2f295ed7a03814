"""Programs on a GPU, compiled and eager: equal results, and kernels of ours where there should be some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from tests.numerics.compare import differences
from tests.numerics.wide_runs import copies, perturbed_runs, reference_run


@dataclass(frozen=True)
class Program:
    """`kernels`: how many of ours it has at least. `breaks`: it may have graph breaks."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    kernels: int = 1
    breaks: bool = False


def _x(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(sizes, device="cuda").to(dtype)


def _places(count: int, below: int) -> torch.Tensor:
    return torch.randint(0, below, (count,), device="cuda")


def _entropy(x: torch.Tensor) -> torch.Tensor:
    return -(F.softmax(x, -1) * F.log_softmax(x, -1)).sum(-1)


def _rms_norm(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> Any:
    h = x + y
    return h, h * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(h.dtype) * w


def groups_of_heads() -> Iterator[Program]:
    """Attention of many queries in which the program repeats keys for the heads that share them."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor | None) -> torch.Tensor:
        def repeated(x: torch.Tensor) -> torch.Tensor:
            batch, heads, keys, size = x.shape
            group = q.shape[1] // heads
            return x[:, :, None].expand(batch, heads, group, keys, size).reshape(batch, heads * group, keys, size)

        return F.scaled_dot_product_attention(q, repeated(k + 1), repeated(v.transpose(1, 2)), m) * 2

    for dtype in (torch.half, torch.bfloat16, torch.float32):
        for masked in (False, True):
            yield Program(
                f"attention of groups of heads in {dtype}" + (" with a mask" if masked else ""),
                attend,
                lambda t=dtype, m=masked: (  # type: ignore[misc]
                    _x(2, 8, 48, 64, dtype=t),
                    _x(2, 2, 80, 64, dtype=t),
                    _x(2, 80, 2, 64, dtype=t),
                    _x(48, 80) > 0 if m else None,
                ),
                kernels=2,
            )


def programs() -> Iterator[Program]:
    bf16 = torch.bfloat16
    yield from groups_of_heads()
    yield Program("gelu", lambda x, y: F.gelu(x) * y + 1, lambda: (_x(64, 1000), _x(64, 1000)))
    yield Program("tanh of float16", lambda x: torch.tanh(x) * x.sigmoid(), lambda: (_x(64, 1000, dtype=torch.half),))
    for rows, columns in ((1, 7), (64, 1000), (4, 4096), (3, 50000), (5000, 33), (7, 1), (1, 300000)):
        for dtype in (torch.float32, bf16):
            yield Program(
                f"softmax of {rows} x {columns} {dtype}",
                lambda x: F.softmax(x, -1),
                lambda r=rows, c=columns, t=dtype: (_x(r, c, dtype=t),),  # type: ignore[misc]
            )
    # Rows that several blocks share: few of them in registers, more of them in shared memory.
    for rows, columns in ((7, 32000), (1, 131072), (70, 20000), (20, 131072)):
        for dtype in (torch.float32, bf16):
            yield Program(
                f"shared rows, {rows} x {columns} {dtype}",
                lambda x: (F.softmax(x, -1), F.layer_norm(x, x.shape[-1:]), x.sum(-1), x.argmax(-1), x.logsumexp(-1)),
                lambda r=rows, c=columns, t=dtype: (_x(r, c, dtype=t),),  # type: ignore[misc]
            )
    yield Program("softmax of columns", lambda x: F.softmax(x, 0), lambda: (_x(300, 70),))
    yield Program("layer norm", lambda x, w: F.layer_norm(x, (1000,), w), lambda: (_x(64, 1000), _x(1000)))
    for number in (torch.float32, torch.float64, bf16, torch.int64, torch.bool):
        for dtype in (torch.float32, bf16):
            yield Program(
                f"{dtype} by a {number} of the CPU",
                lambda x, s: (F.softmax(x * s, -1), torch.where(x > 0, x, s), s * x, x.sum(0) / (s + 1)),
                lambda n=number, t=dtype: (_x(64, 1000, dtype=t), torch.tensor(3.3).to(n)),  # type: ignore[misc]
            )
    yield Program("entropy", _entropy, lambda: (_x(100, 4096),))
    yield Program(
        "add and norm", _rms_norm, lambda: (_x(99, 512, dtype=bf16), _x(99, 512, dtype=bf16), _x(512, dtype=bf16))
    )
    for dims in ((0,), (1,), (0, 1)):
        yield Program(f"sum over {dims}", lambda x, d=dims: x.sum(d), lambda: (_x(700, 900),))
        yield Program(f"largest over {dims}", lambda x, d=dims: x.amax(d), lambda: (_x(700, 900),))
    yield Program("place of the largest", lambda x: x.argmax(1), lambda: (_x(64, 1000),))
    yield Program("place of the largest of columns", lambda x: x.argmin(0), lambda: (_x(64, 1000),))
    yield Program("embedding", lambda w, i: F.embedding(i, w) * 2, lambda: (_x(64, 100), _places(17, 64)))
    yield Program("gather", lambda x, i: x[i] + 1, lambda: (_x(64, 100), _places(17, 64)))
    yield Program("cross-entropy", F.cross_entropy, lambda: (_x(64, 1000), _places(64, 1000)))
    yield Program("transpose", lambda x: x.t().contiguous() + 1, lambda: (_x(64, 1000),))
    yield Program("join", lambda x, y: torch.cat([x, y * 2], 1), lambda: (_x(64, 100), _x(64, 30)))
    yield Program("product", lambda x, y: torch.relu(x @ y.t()), lambda: (_x(64, 100), _x(30, 100)))
    yield Program("running sum", lambda x: x.cumsum(1) * 2, lambda: (_x(64, 100),))
    for rows, columns in ((1, 9), (64, 100), (5000, 33), (3, 4096), (3, 9001), (1, 5000), (2, 300000)):
        for dtype in (torch.float32, bf16, torch.int64):
            yield Program(
                f"running sums of {rows} x {columns} {dtype}",
                lambda x: (x.cumsum(1) * 2, x.cumsum(0), torch.cummax(x, 1), torch.cummin(x, 0)),
                lambda r=rows, c=columns, t=dtype: (_x(r, c, dtype=t),),  # type: ignore[misc]
            )
    yield Program("running product", lambda x: (x * 0.01 + 1).cumprod(-1), lambda: (_x(64, 3, 100),))
    for rows, columns in ((8192, 96), (1000, 33), (2048, 512)):
        yield Program(
            f"running sums of the columns of {rows} x {columns}",
            lambda x: (x.cumsum(0) * 2, torch.cummax(x, 0)),
            lambda r=rows, c=columns: (_x(r, c),),  # type: ignore[misc]
        )
    yield Program("running sum of one long row", lambda x: x.cumsum(0) + 1, lambda: (_x(300000),))
    yield Program("running sum backwards", lambda x: x.flip(-1).cumsum(-1).flip(-1), lambda: (_x(64, 100),))
    yield Program("running sum of a turned tensor", lambda x: x.t().cumsum(1), lambda: (_x(64, 100),))
    yield Program("running sum in place", lambda x: x.cumsum_(1), lambda: (_x(64, 1001),))
    yield Program("share of the running sum", lambda x: F.softmax(x.cumsum(1) / 9, -1), lambda: (_x(64, 4096),))
    yield Program(
        "running sum with what is no number",
        lambda x: (x.cumsum(1), torch.cummax(x, 1)),
        lambda: (torch.where(_x(64, 999) > 3, torch.nan, torch.where(_x(64, 999) > 3, torch.inf, _x(64, 999))),),
    )
    yield Program(
        "running sum of a sorted softmax", lambda x: x.softmax(-1).sort(-1)[0].cumsum(-1), lambda: (_x(8, 32000),)
    )
    yield Program("integers", lambda i: (i * 3 + 1) // 2 % 7, lambda: (_places(1000, 1 << 40),))
    yield Program("choice", lambda x, y: torch.where(x > 0, x, y).amax(1), lambda: (_x(64, 100), _x(64, 100)))
    yield Program("0-d of the CPU", lambda x, s: x * s + 1, lambda: (_x(64, 100), torch.tensor(3.0)), kernels=0)
    yield Program("to the CPU", lambda x: (x * 2).cpu() + 1, lambda: (_x(64, 100),))
    yield Program("nothing", lambda x: x[:0] * 2, lambda: (_x(64, 100),), kernels=0)
    yield Program("in place", lambda x: x.add_(1).mul_(2), lambda: (_x(64, 100),))
    yield Program("rows of a larger tensor", lambda x: x * 2, lambda: (_x(64, 101)[:, 1:],))
    yield Program("positions", lambda x: x + torch.arange(1000, device="cuda"), lambda: (_x(64, 1000),))
    # Additions may go to one element: eager's sums have no fixed order either.
    for dtype in (torch.float32, torch.float64, torch.int64):
        yield Program(
            f"add rows of {dtype} at places",
            lambda x, i, y: x.index_add(0, i, y * 2, alpha=3),
            lambda t=dtype: (_x(9, 100, dtype=t), _places(1700, 9), _x(1700, 100, dtype=t)),  # type: ignore[misc]
            kernels=2,
        )
        yield Program(
            f"add columns of {dtype} at places",
            lambda x, i, y: x.scatter_add(1, i, y).scatter_reduce(0, i[:, :9], x, "sum"),
            lambda t=dtype: (_x(9, 100, dtype=t), _places(1800, 9).view(9, 200), _x(9, 200, dtype=t)),  # type: ignore[misc]
            kernels=4,
        )
    yield Program(
        "add at places from both ends",
        lambda x, i, y: x.index_put((i - 32, i.view(-1, 1)), y, accumulate=True),
        lambda: (_x(64, 64, 5), _places(20, 32), _x(20, 5)),
        kernels=2,
    )
    yield Program(
        "add to other strides",
        lambda x, i, y: x.t().index_add_(1, i, y).exp(),
        lambda: (_x(64, 9)[:, ::2], _places(20, 64), _x(5, 20)),
    )
    yield Program(
        "add to an argument",
        lambda x, i, y: x.index_add_(0, i, y.tanh()),
        lambda: (_x(9, 100), _places(50, 9), _x(50, 100)),
    )
    yield Program(
        "add to an argument that is read",
        lambda x, i, y: (x.exp(), x.scatter_add_(0, i, y), x @ x.t()),
        lambda: (_x(9, 100), _places(5000, 9).view(50, 100), _x(50, 100)),
        kernels=2,
    )
    yield Program(
        "two gradients of one tensor",
        lambda g, i, j: tuple(torch.zeros(n, 64, device="cuda").index_add_(0, k, g) for n, k in ((9, i), (70, j))),
        lambda: (_x(300, 64), _places(300, 9), _places(300, 70)),
    )
    yield Program("add nothing", lambda x, i, y: x.index_add(0, i, y), lambda: (_x(64, 9), _places(0, 64), _x(0, 9)))
    yield Program("count", lambda i: torch.zeros(9, device="cuda").index_add(0, i, torch.ones(99999, device="cuda")),
                  lambda: (_places(99999, 9),))  # fmt: skip
    yield Program(
        "all at one place",
        lambda x: x.new_zeros(9).scatter_add(0, x.new_full((99999,), 4, dtype=torch.int64), x),
        lambda: (_x(99999).round(),),  # exact in any order
    )
    yield Program(
        "add rows of bfloat16 at places",
        lambda x, i, y: x.index_add(0, i, y * 2),
        lambda: (_x(99, 100, dtype=bf16), torch.randperm(99, device="cuda")[:40], _x(40, 100, dtype=bf16)),
    )
    yield Program(
        "write at places",
        lambda x, i, y: x.index_put((i,), y[i]),
        lambda: (_x(64, 9), torch.arange(17, device="cuda"), _x(64, 9)),
    )
    for dtype in (torch.float32, torch.half, bf16):
        yield Program(
            f"attention in {dtype}",
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v) * 2,
            lambda t=dtype: tuple(_x(2, 4, 16, 64, dtype=t) for _ in range(3)),  # type: ignore[misc]
        )
        yield Program(
            f"causal attention of views in {dtype}",
            lambda x: F.scaled_dot_product_attention(
                *(y.transpose(1, 2) for y in x.unflatten(-1, (3, 4, 64)).unbind(2)), is_causal=True
            ),
            lambda t=dtype: (_x(2, 16, 768, dtype=t),),  # type: ignore[misc]
            kernels=0,
        )
    yield from _one_query_programs()
    yield from _few_column_programs()


def _one_query_programs() -> Iterator[Program]:
    """A decode step's attention: one query for each head over caches of keys and values."""

    def program(
        name: str,
        keys: int = 200,
        size: int = 64,
        dtype: torch.dtype = torch.bfloat16,
        shared: int = 8,
        mask: Callable[[int], torch.Tensor] | None = None,
        kernels: int = 2,
        **options: Any,
    ) -> Program:
        def arguments() -> tuple[torch.Tensor, ...]:
            caches = [_x(2, shared, keys, size, dtype=dtype) for _ in range(2)]
            return (_x(2, 8, 1, size, dtype=dtype), *caches, *([mask(keys)] if mask else []))

        def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor | None = None) -> torch.Tensor:
            return F.scaled_dot_product_attention(q, k, v, m, **options) * 2

        return Program(f"one query: {name}", function, arguments, kernels=kernels)

    def some(keys: int) -> torch.Tensor:
        return torch.rand(2, 1, 1, keys, device="cuda") < 0.7

    def none_of_first(keys: int) -> torch.Tensor:
        return some(keys) & torch.tensor([False, True], device="cuda")[:, None, None, None]

    def bias(keys: int, dtype: torch.dtype) -> torch.Tensor:
        return _x(2, 8, 1, keys, dtype=dtype).masked_fill(~some(keys), float("-inf"))

    for dtype in (torch.float32, torch.half, torch.bfloat16):
        for size in (64, 80, 128):
            yield program(f"heads of {size} in {dtype}", size=size, dtype=dtype)
        yield program(f"boolean mask in {dtype}", dtype=dtype, mask=some)
        yield program(f"mask in {dtype}", dtype=dtype, mask=lambda keys, t=dtype: bias(keys, t))  # type: ignore[misc]
        yield program(f"nothing allowed in {dtype}", dtype=dtype, mask=none_of_first)
        yield program(f"given scale in {dtype}", dtype=dtype, scale=0.3)
    for keys in (1, 2, 33, 1021, 1024):
        yield program(f"{keys} keys", keys=keys)
        yield program(f"{keys} keys and a mask", keys=keys, mask=some)
    yield program("shared keys", shared=2, enable_gqa=True, kernels=0)
    yield program("shared keys and a mask", shared=2, enable_gqa=True, mask=some, kernels=0)
    yield program("causal", is_causal=True, kernels=0)  # the first key alone
    yield program("one key, causal", keys=1, is_causal=True, kernels=0)
    yield program("more keys than kernels of ours read", keys=20000, size=128, kernels=0)

    def repeated(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        k, v = (x[:, :, None].expand(2, 2, 4, -1, -1).reshape(2, 8, -1, 128) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, m)

    yield Program(
        "one query: keys repeated by the program",
        repeated,
        lambda: (
            _x(2, 8, 1, 128, dtype=torch.bfloat16),
            *(_x(2, 2, 1024, 128, dtype=torch.bfloat16) for _ in range(2)),
            some(1024),
        ),
        kernels=2,
    )

    def of_caches(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        k, v = (x[:, 3:90].transpose(1, 2) for x in (k, v))
        return F.scaled_dot_product_attention(q.transpose(1, 2), k, v).transpose(1, 2).flatten(2)

    yield Program(
        "one query: parts of caches",
        of_caches,
        lambda: (
            _x(2, 1, 8, 64, dtype=torch.half),
            *(_x(2, 100, 8, 64, dtype=torch.half) for _ in range(2)),
        ),
        kernels=2,
    )

    def written(q: torch.Tensor, row: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        k.index_copy_(2, at, row)
        v.index_copy_(2, at, row * 2)
        seen = torch.arange(k.shape[2], device="cuda") <= at
        return F.scaled_dot_product_attention(q, k, v, seen[None, None, None])

    yield Program(
        "one query: caches that the step writes",
        written,
        lambda: (
            _x(1, 8, 1, 64, dtype=torch.bfloat16),
            _x(1, 8, 1, 64, dtype=torch.bfloat16),
            *(_x(1, 8, 256, 64, dtype=torch.bfloat16) for _ in range(2)),
            torch.tensor([77], device="cuda"),
        ),
        kernels=2,
    )


def _few_column_programs() -> Iterator[Program]:
    """Reductions down a few columns, and the products of one row with several weights."""
    for dtype in (torch.float32, torch.half, torch.bfloat16, torch.float64):
        for rows, columns in ((64, 64), (1000, 96), (4096, 520)):
            sizes = f"of {rows}x{columns} in {dtype}"

            def arguments(t: torch.dtype = dtype, r: int = rows, c: int = columns) -> tuple[torch.Tensor, ...]:
                return (_x(r, c, dtype=t),)

            yield Program(f"columns {sizes}", lambda x: (x.sum(0) + 1, x.amax(0)), arguments)
            yield Program(f"softmax of columns {sizes}", lambda x: x.softmax(0), arguments)
            yield Program(f"places in columns {sizes}", lambda x: x.argmax(0), arguments)

    def projections(x: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, k, v = (F.linear(x, w).unflatten(-1, (-1, 64)) for w in weights)
        turned = torch.cat([-q[..., 32:], q[..., :32]], -1)
        return q * 0.5 + turned, torch.cat([k, v], 1)

    for dtype in (torch.float32, torch.half, torch.bfloat16):
        yield Program(
            f"queries, keys and values of one row in {dtype}",
            projections,
            lambda t=dtype: (  # type: ignore[misc]
                _x(1, 1, 1024, dtype=t),
                *(_x(rows, 1024, dtype=t) / 32 for rows in (1024, 256, 256)),
            ),
            kernels=3,
        )


def run(program: Program) -> str:
    """The compiled calls of :func:`check` alone, without eager's kernels and without a comparison."""
    import vesta

    torch.manual_seed(0)
    arguments = program.arguments()
    with torch.no_grad():
        compiled = vesta.compile(program.function)
        for _ in range(3):
            compiled(*copies(arguments))
        torch.cuda.synchronize()
    return ""


def check(program: Program) -> str:
    """Empty, or what is wrong."""
    import vesta

    torch.manual_seed(0)
    arguments = program.arguments()
    with torch.no_grad():
        theirs, ours, later, last = (copies(arguments) for _ in range(4))
        want = program.function(*theirs)
        compiled = vesta.compile(program.function)
        got = compiled(*ours)
        again = compiled(*later)  # recorded
        replayed = compiled(*last)

        def both(*tensors: Any) -> Any:
            return program.function(*tensors), list(tensors)

        reference = reference_run(both, *arguments)
        moved = perturbed_runs(both, *arguments)
        calls = (("first", got, ours), ("second", again, later), ("third", replayed, last))
        for what, result, inputs in calls:
            if found := differences((result, list(inputs)), (want, list(theirs)), reference, moved):
                return f"the {what} call: {found[0]}"
        report = vesta.explain(program.function)(*copies(arguments))
    kernels = sum(len(graph.compiled.kernels) for graph in report.graphs if graph.compiled)
    if report.fallbacks:
        return f"ran eager: {report.fallbacks[0].reason}"
    if report.breaks and not program.breaks:
        return f"a graph break: {report.breaks[0].reason}"
    if kernels < program.kernels:
        return f"{kernels} kernels, {program.kernels} expected"
    return ""
