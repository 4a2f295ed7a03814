"""float8: stored, converted and shown in other shapes as eager does it; eager's error where it has no kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import vesta
from tests.build import generates_code

FLOAT8 = (
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)
E4M3 = torch.float8_e4m3fn


def outcome(function: Callable[..., Any], *args: torch.Tensor) -> Any:
    """The result and the arguments after the call, or the error."""
    own = [x.clone() for x in args]
    try:
        with torch.no_grad():
            return function(*own), own
    except Exception as error:
        return type(error), str(error)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(equal, a, b))
    if not isinstance(a, torch.Tensor):
        return bool(a == b)
    if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
        return False
    return torch.equal(*(x.contiguous().view(torch.uint8) if x.dtype in FLOAT8 else x for x in (a, b)))


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "there and back": lambda x: (x * 2).to(E4M3).float() + 1,
    "from one to another": lambda x: x.to(E4M3).to(torch.float8_e5m2),
    "quantised": lambda x: ((x / 0.01).clamp(-448, 448).to(E4M3), x.abs().amax()),
    "quantised rows": lambda x: (x / (x.abs().amax(1, keepdim=True) / 448)).to(E4M3),
    "transposed": lambda x: x.to(E4M3).t().contiguous(),
    "joined": lambda x: torch.cat([x.to(E4M3), (x + 1).to(E4M3)]),
    "as bytes": lambda x: x.to(torch.float8_e5m2).view(torch.uint8) + 1,
    "of integers": lambda x: x.int().to(E4M3).to(torch.int32),
    "written": lambda x: x[:2].copy_(x[2:4].to(E4M3)).sum(),
    "made": lambda x: (torch.zeros(3, dtype=E4M3), torch.full((2,), 1.7, dtype=torch.float8_e5m2), x + 1),
    "asked": lambda x: x.to(E4M3).isnan(),
    "chosen": lambda x: torch.where(x > 0, x.to(E4M3), (x * 2).to(E4M3)),
    "read": lambda x: x.to(E4M3)[0, 0].item(),
    "added": lambda x: x.to(E4M3) + x.to(E4M3),
    "mixed": lambda x: x.to(E4M3) + x,
    "added, and not read": lambda x: (x.to(E4M3) + x.to(E4M3), x + 1)[1],
    "gathered": lambda x: x.to(E4M3).gather(0, torch.zeros(1, 1, dtype=torch.long)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    x = torch.randn(6, 16, generator=torch.Generator().manual_seed(0))
    compiled = vesta.compile(PROGRAMS[name])
    for _ in range(2):
        assert equal(outcome(compiled, x), outcome(PROGRAMS[name], x))


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
@pytest.mark.parametrize("of", (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int16), ids=str)
def test_conversions(dtype: torch.dtype, of: torch.dtype) -> None:
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    x = bits if of is torch.int16 else bits.view(torch.float16 if of is torch.float16 else torch.bfloat16).to(of)
    x = x[x == x]

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.to(dtype)

    assert equal(outcome(vesta.compile(program), x), outcome(program, x))


def matrices(out: int = 48) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    a, b, c = (torch.randn(n, 64).to(E4M3) for n in (32, out, out))
    return a, b, c, torch.tensor(0.5), torch.tensor(2.0)


def gated(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor) -> torch.Tensor:
    def product(w: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(a, w.t(), sa, sb, out_dtype=torch.bfloat16)

    return F.silu(product(b)) * product(c)


def test_scaled_products() -> None:
    """Two calls, and one kernel of what is done with them. Their types come from the rule."""
    compiled = vesta.compile(gated)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*matrices()), gated(*matrices()))
        report = vesta.explain(gated)(*matrices())
    (graph,) = report.graphs
    assert graph.compiled is not None
    calls = [(call.op, call.count) for call in graph.compiled.externs]
    assert ("aten::_scaled_mm", 2) in calls
    if generates_code():
        assert len(calls) == len(graph.compiled.kernels) == 1


def test_scaled_products_that_are_wrong() -> None:
    a, b, c, sa, sb = matrices()
    for wrong in ((a[:, :48], b, c, sa, sb), (a.float(), b, c, sa, sb), (a[0], b, c, sa, sb), (a, b, c, sa.int(), sb)):
        got, want = outcome(vesta.compile(gated), *wrong), outcome(gated, *wrong)
        assert got == want if isinstance(want[0], type) else equal(got, want)
