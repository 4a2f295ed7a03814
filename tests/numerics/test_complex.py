"""Complex numbers as pairs of real ones in generated code: eager's numbers, infinities and NaN, and fused kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch

import vesta
from tests.build import generates_code

PARTS = (0.0, -0.0, 1.0, -2.5, 100.0, -100.0, 1e-3, math.inf, -math.inf, math.nan)
UNARY: dict[str, Callable[..., torch.Tensor]] = {
    "neg": torch.neg,
    "conj": torch.conj_physical,
    "abs": torch.abs,
    "angle": torch.angle,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "to_bool": lambda z: z.to(torch.bool),
    "real": lambda z: z.real + 1,
    "imag": lambda z: z.imag * 2,
    "times_number": lambda z: z * 2.5,
    "times_complex": lambda z: z * (1 - 2j),
    "sum": lambda z: z.sum(-1),
    "mean": lambda z: z.mean(0),
}
BINARY: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "add_alpha": lambda a, b: torch.add(a, b, alpha=3),
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "eq": torch.eq,
    "ne": torch.ne,
    "where": lambda a, b: torch.where(a.real > 0, a, b),
    "polar": lambda a, b: torch.polar(a.real, b.imag),
    "complex": lambda a, b: torch.complex(a.real, b.imag),
    "stack": lambda a, b: torch.stack([a, b * 2], -1),
    "rows": lambda a, b: torch.cat([a, b + a], 0).flip(0),
}


def compiled_alone(f: Callable[..., torch.Tensor], *args: torch.Tensor) -> torch.Tensor:
    """The result of `f` compiled, without any call into ATen where kernels are made."""
    g = vesta.trace_and_compile(f, strict=True)
    result = g(*args)
    (function,) = vesta.explain(g).functions
    (variant,) = function.variants
    assert (variant.ops_extern == 0) == generates_code(), variant.externs
    return result


def assert_same(ours: torch.Tensor, eager: torch.Tensor) -> None:
    assert (ours.dtype, ours.stride()) == (eager.dtype, eager.stride())
    if eager.is_complex():
        ours, eager = torch.view_as_real(ours), torch.view_as_real(eager)
    torch.testing.assert_close(ours, eager, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str, dtype: torch.dtype):
    z = torch.tensor([complex(a, b) for a, b in itertools.product(PARTS, PARTS)], dtype=dtype).view(20, 5)
    assert_same(compiled_alone(UNARY[name], z), UNARY[name](z))
    z = torch.randn(7, 33, dtype=dtype)
    assert_same(compiled_alone(UNARY[name], z.t()), UNARY[name](z.t()))


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name: str):
    z = torch.tensor([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])
    a, b = z.repeat_interleave(len(z)), z.repeat(len(z))
    assert_same(compiled_alone(BINARY[name], a, b), BINARY[name](a, b))
    a, b = torch.randn(3, 65, dtype=torch.complex64), torch.randn(3, 65, dtype=torch.complex64)
    assert_same(compiled_alone(BINARY[name], a, b), BINARY[name](a, b))


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary_embedding_is_one_kernel(dtype: torch.dtype):
    def rotate(x: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * freqs.view(1, z.shape[1], 1, z.shape[-1])).flatten(3).type_as(x)

    x = torch.randn(2, 9, 3, 34).to(dtype)
    freqs = torch.polar(torch.ones(9, 17), torch.randn(9, 17))
    g = vesta.trace_and_compile(rotate, strict=True)
    assert_same(g(x, freqs), rotate(x, freqs))
    (function,) = vesta.explain(g).functions
    (kernel,) = function.variants[0].kernels
    assert kernel.ops and function.variants[0].ops_extern == 0


def test_complex_tensors_pass_between_kernels_and_calls():
    def spectrum(x: torch.Tensor, gain: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.fft.rfft(x) * gain
        pairs = torch.view_as_real(z)
        y = torch.fft.irfft(torch.view_as_complex(pairs * 2)[1:] + 1j, n=x.shape[-1])
        return y, z[:, ::2].abs(), pairs.select(-1, 1)

    x, gain = torch.randn(5, 30), torch.randn(16, dtype=torch.complex64)
    for ours, eager in zip(vesta.trace_and_compile(spectrum, strict=True)(x, gain), spectrum(x, gain), strict=True):
        assert_same(ours, eager)


def test_a_complex_argument_is_written():
    def scale(z: torch.Tensor) -> torch.Tensor:
        z.mul_(2j)
        torch.view_as_real(z)[..., 0].add_(1)
        return z.sum()

    ours, eager = (torch.randn(4, 6, dtype=torch.complex64, generator=torch.Generator().manual_seed(1)) for _ in "ab")
    assert_same(vesta.trace_and_compile(scale, strict=True)(ours), scale(eager))
    assert_same(ours, eager)


def test_out_of_another_type_is_refused():
    def program(re: torch.Tensor, im: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return torch.complex(re, im, out=out)

    args = (torch.randn(3), torch.randn(3), torch.zeros(3, dtype=torch.complex128))
    with pytest.raises(RuntimeError) as eager:
        program(*args)
    with pytest.raises(RuntimeError) as ours:
        vesta.trace_and_compile(program)(*args)
    assert str(ours.value) == str(eager.value)
