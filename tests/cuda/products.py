"""Products of a GPU's libraries and what stands around them: more of traps.TRAPS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.cuda.traps import _compiled, _no_worse, needs, trap

E4M3 = torch.float8_e4m3fn
FLOAT8 = (E4M3, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu)


def _kernels_and_calls(function: Callable[..., Any], *args: torch.Tensor) -> tuple[int, dict[str, int]]:
    import vesta

    report = vesta.explain(function)(*args)
    assert not report.fallbacks, report.fallbacks[0].reason
    (graph,) = report.graphs
    assert graph.compiled is not None
    return len(graph.compiled.kernels), {call.op: call.count for call in graph.compiled.externs}


@trap
def float8_conversions_are_eagers() -> None:
    """Every bfloat16 and float16, many floats, and every float8 back."""
    bits = torch.arange(-(1 << 15), 1 << 15, device="cuda", dtype=torch.int32).to(torch.int16)
    floats = torch.randint(-(2**31), 2**31, (1 << 20,), device="cuda").to(torch.int32).view(torch.float32)
    with torch.no_grad():
        for dtype in FLOAT8:

            def narrow(x: torch.Tensor, dtype: torch.dtype = dtype) -> torch.Tensor:
                return x.to(dtype)

            every = torch.arange(256, device="cuda").to(torch.uint8).view(dtype)
            wide = every.float()
            middles = torch.stack([(wide[1:] + wide[:-1]) / 2])
            near = torch.cat([torch.nextafter(middles, torch.full_like(middles, x)) for x in (-torch.inf, torch.inf)])
            for x in (bits.view(torch.bfloat16), bits.view(torch.float16), floats, middles, near):
                got, want = _compiled(narrow)(x), narrow(x)
                same = (got.view(torch.uint8) == want.view(torch.uint8)) | (got.float().isnan() & want.float().isnan())
                assert same.all(), f"{dtype} of {x[~same][:4]}: {got[~same][:4].float()}, not {want[~same][:4].float()}"
            torch.testing.assert_close(
                _compiled(lambda x: x.float() * 2)(every), wide * 2, rtol=0, atol=0, equal_nan=True
            )


@trap
def quantising_is_one_kernel() -> None:
    def rows(x: torch.Tensor) -> Any:
        scale = x.abs().amax(-1, keepdim=True).float() / 448
        return (x / scale).clamp(-448, 448).to(E4M3), scale

    def whole(x: torch.Tensor) -> Any:
        scale = x.abs().amax().float() / 448
        return (x / scale).clamp(-448, 448).to(E4M3), scale

    def given(x: torch.Tensor) -> Any:
        return (x / 0.01).clamp(-448, 448).to(E4M3)

    x = torch.randn(300, 1000, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        for function in (rows, whole, given):
            got, want = _compiled(function)(x), function(x)
            # A quotient beside the middle of two neighbours may go to the other one.
            torch.testing.assert_close(
                torch.utils._pytree.tree_map(torch.Tensor.float, got),
                torch.utils._pytree.tree_map(torch.Tensor.float, want),
                rtol=0.126,
                atol=2**-9,
            )
            kernels, calls = _kernels_and_calls(function, x)
            assert kernels and not calls, (kernels, calls)


@trap
def products_of_float8() -> None:
    """One kernel, or two calls and a kernel; equal to the two calls of eager."""

    def gate(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor) -> torch.Tensor:
        first = torch._scaled_mm(a, b.t(), sa, sb, out_dtype=torch.bfloat16)
        return F.silu(first) * torch._scaled_mm(a, c.t(), sa, sb, out_dtype=torch.bfloat16)

    a, b, c = (torch.randn(n, 512, device="cuda").to(E4M3) for n in (64, 768, 768))
    for size_a, size_b in (((), ()), ((64, 1), (1, 768))):
        sa, sb = (torch.rand(s, device="cuda") / 8 for s in (size_a, size_b))
        compiled = _compiled(gate)
        with torch.no_grad():
            for _ in range(4):
                torch.testing.assert_close(compiled(a, b, c, sa, sb), gate(a, b, c, sa, sb), rtol=2e-2, atol=2e-2)
            kernels, calls = _kernels_and_calls(gate, a, b, c, sa, sb)
        has_kernels = torch.cuda.get_device_capability() == (9, 0)
        assert kernels == 1 and calls == ({} if has_kernels else {"aten::_scaled_mm": 2}), (kernels, calls)
        # Layouts that the library has not: eager's error.
        for function in (gate, _compiled(gate)):
            try:
                function(a, b.t().contiguous().t(), c, sa, sb)
            except RuntimeError:
                continue
            raise AssertionError("a product of two row-major matrices")


def _check_epilogue(dtype: torch.dtype, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
    w1, b1, w2 = (torch.randn(size, device="cuda", dtype=dtype) / 8 for size in ((256, 128), (256,), (64, 256)))

    def perceptron(x: torch.Tensor) -> torch.Tensor:
        return F.linear(activation(F.linear(x, w1, b1)), w2)

    def alone(x: torch.Tensor) -> torch.Tensor:
        return activation(F.linear(x, w1, b1))

    def exactly(x: torch.Tensor) -> torch.Tensor:
        return F.linear(activation(F.linear(x.double(), w1.double(), b1.double())), w2.double())

    def exactly_alone(x: torch.Tensor) -> torch.Tensor:
        return activation(F.linear(x.double(), w1.double(), b1.double()))

    for function, exact, sizes in (
        (perceptron, exactly, (300, 128)),
        (perceptron, exactly, (9, 33, 128)),
        (alone, exactly_alone, (300, 128)),
    ):
        x = torch.randn(sizes, device="cuda", dtype=dtype)
        compiled = _compiled(function)
        with torch.no_grad():
            for _ in range(3):
                _no_worse(compiled(x), function(x), exact(x))
            _, calls = _kernels_and_calls(function, x)
        assert "aten::_addmm_activation" in calls, calls
    special = torch.randn(300, 128, device="cuda", dtype=dtype)
    special[3, 5], special[7, 1], special[9, 2] = torch.nan, torch.inf, -torch.inf
    with torch.no_grad():
        got, want = _compiled(alone)(special), alone(special)
    assert torch.equal(got.isnan(), want.isnan()), "NaN in other places than eager's"


@trap
def epilogues_of_products() -> None:
    """relu and gelu as the library applies them: numbers, infinities and NaN in eager's places. Of more rows than
    products have that are kernels of Vesta's own."""

    def gelu(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x, approximate="tanh")

    for dtype in (torch.bfloat16, torch.float16):
        for activation in (F.relu, gelu):
            _check_epilogue(dtype, activation)


def _check_few_rows(dtype: torch.dtype, rows: int, columns: int, inner: int, always: bool = True) -> None:
    sizes = (columns, inner), (columns, inner), (columns,), (columns // 2, inner)
    w, v, b, u = (torch.randn(size, device="cuda", dtype=dtype) / inner**0.5 for size in sizes)
    wide = torch.randn(rows, 2 * inner, device="cuda", dtype=dtype)
    x, y = wide[:, inner:], torch.randn(rows, columns, device="cuda", dtype=dtype)

    def biased(x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, w.to(x.dtype), b.to(x.dtype))

    def gated(x: torch.Tensor) -> torch.Tensor:
        return F.silu(F.linear(x, w.to(x.dtype))) * F.linear(x, v.to(x.dtype), b.to(x.dtype)) + y.to(x.dtype)

    def several(x: torch.Tensor) -> torch.Tensor:
        q, k = F.linear(x, w.to(x.dtype)), F.linear(x, u.to(x.dtype))
        return torch.cat([q.sin(), k.cos()], -1).softmax(-1)

    def plain(x: torch.Tensor) -> torch.Tensor:
        return x @ w.to(x.dtype).t()

    for function in (biased, gated, several, plain):
        compiled = _compiled(function)
        with torch.no_grad():
            for _ in range(4):
                _no_worse(compiled(x), function(x), function(x.double()))
            kernels, calls = _kernels_and_calls(function, x)
        assert not always or (kernels and not calls), f"{function.__name__} of {rows} rows: {calls}"


@needs(lambda: torch.cuda.get_device_capability() == (9, 0), "a GPU of compute capability 9.0")
@trap
def products_of_few_rows_are_kernels() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        for rows, columns, inner in (
            (2, 4096, 4096),
            (7, 96, 264),
            (33, 4096, 2048),
            (64, 4096, 1024),
            (100, 2056, 328),
            (128, 8192, 4096),
            (128, 8192, 14336),
        ):
            _check_few_rows(dtype, rows, columns, inner)


@needs(lambda: torch.cuda.get_device_capability() == (9, 0), "a GPU of compute capability 9.0")
@trap
def products_of_up_to_256_rows() -> None:
    """Kernels or calls, as the model of their time decides."""
    for dtype in (torch.bfloat16, torch.float16):
        for rows, columns, inner in ((129, 4096, 4096), (200, 2056, 328), (256, 14336, 4096), (256, 4096, 14336)):
            _check_few_rows(dtype, rows, columns, inner, always=False)


def _check_scaled(rows: int, columns: int, inner: int, by_row: bool) -> None:
    x, w, v = (torch.randn(n, inner, device="cuda").to(E4M3) for n in (rows, columns, columns))
    sizes = ((rows, 1), (1, columns)) if by_row else ((), (1,))
    sx, sw = ((torch.rand(s, device="cuda") + 0.5) / inner**0.25 for s in sizes)
    b = torch.randn(columns, device="cuda", dtype=torch.bfloat16)

    def product(x: torch.Tensor, w: torch.Tensor, bias: Any = None, **how: Any) -> torch.Tensor:
        if x.dtype != torch.float64:
            return torch._scaled_mm(x, w.t(), sx, sw, bias=bias, **{"out_dtype": torch.bfloat16, **how})
        y = x @ w.to(x.dtype).t() * sx.to(x.dtype) * sw.to(x.dtype)
        return y if bias is None else y + bias.to(x.dtype)

    def biased(x: torch.Tensor) -> torch.Tensor:
        return product(x, w, b)

    def gated(x: torch.Tensor) -> torch.Tensor:
        return F.silu(product(x, w)) * product(x, v)

    def fast(x: torch.Tensor) -> torch.Tensor:
        return product(x, w, use_fast_accum=True) + 1

    def exact_sums(x: torch.Tensor) -> torch.Tensor:
        return product(x, w, out_dtype=torch.float32)

    def mixed(x: torch.Tensor) -> torch.Tensor:
        return product(x, w.float().to(torch.float8_e5m2), out_dtype=torch.float16)

    for function in (biased, gated, fast) if by_row else (biased, gated, fast, exact_sums, mixed):
        compiled = _compiled(function)
        with torch.no_grad():
            for _ in range(4):
                _no_worse(compiled(x), function(x), function(x.double()))
            if function is gated:
                kernels, calls = _kernels_and_calls(function, x)
                assert kernels == 1 and not calls, f"{rows} rows: {kernels} kernels, {calls}"


@needs(lambda: torch.cuda.get_device_capability() == (9, 0), "a GPU of compute capability 9.0")
@trap
def products_of_float8_are_kernels() -> None:
    for rows, columns, inner in (
        (2, 4096, 4096),
        (7, 96, 272),
        (64, 4096, 1024),
        (100, 2064, 336),
        (128, 4096, 7168),
        (200, 1040, 2048),
        (256, 7168, 4096),
    ):
        for by_row in (False, True):
            _check_scaled(rows, columns, inner, by_row)
    # NaN are where eager's are.
    x, w = (torch.randn(n, 512, device="cuda") for n in (96, 256))
    x[3, 5], w[7, 9] = torch.nan, torch.nan
    one = torch.ones((), device="cuda")

    def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(x, w.t(), one, one, out_dtype=torch.float32)

    with torch.no_grad():
        got, want = _compiled(scaled)(x.to(E4M3), w.to(E4M3)), scaled(x.to(E4M3), w.to(E4M3))
    assert torch.equal(got.isnan(), want.isnan()) and want.isnan().any(), "NaN in other places than eager's"


@trap
def products_of_few_rows_read_results_of_the_kernel_before() -> None:
    """Weights are read early, other operands are not: also in the caller's own graph and with weights that change."""
    w1, w2 = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) / 64 for _ in range(2))

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = F.rms_norm(x + F.linear(F.relu(F.linear(x, w1)), w2), (4096,))
        return x

    compiled = _compiled(chain)
    x = torch.randn(40, 4096, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        for turn in range(6):
            torch.testing.assert_close(compiled(x), chain(x), rtol=5e-2, atol=5e-2)
            if turn == 3:
                w1.mul_(-1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = compiled(x)
        for _ in range(3):
            x.normal_()
            w2.mul_(-1)
            graph.replay()
            torch.testing.assert_close(captured, chain(x), rtol=5e-2, atol=5e-2)
