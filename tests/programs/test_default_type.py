"""torch.get_default_dtype() decides in which type integers become floats."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import vesta

PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "quotient": lambda t: t / 100,
    "quotient-of-tensors": lambda t: t / (t + 3),
    "quotient-of-bools": lambda t: (t > 3) / 3,
    "square-root": lambda t: t.sqrt(),
    "sine": torch.sin,
    "exponential": lambda t: (t / 10).exp(),
    "reciprocal": lambda t: t.reciprocal(),
    "product": lambda t: t * 0.1,
    "sum": lambda t: t + 0.1,
    "power": lambda t: t**0.5,
    "comparison": lambda t: (t / 10 > 0.3) & (t * 0.1 >= 0.3),
    "chosen": lambda t: torch.where(t > 3, t, 0.1),
    "maximum": lambda t: torch.maximum(t * 0.1, t / 7),
    "concatenated": lambda t: torch.cat([t[:, None] / 7, torch.ones(29, 1)], 1),
    "float": lambda t: t.float() / 3,
    "made": lambda t: torch.full((3,), 0.1) * t[0] + torch.arange(0, 3, 1) / 3,
    "in-place": lambda t: torch.zeros(29).add_(t).div_(3),
}


@pytest.fixture(params=[torch.float64, torch.bfloat16, torch.float16, torch.float32], ids=lambda d: str(d)[6:])
def default(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_integers_become(default: torch.dtype, name: str) -> None:
    program, t = PROGRAMS[name], torch.arange(1, 30)
    eager = program(t)
    ours = vesta.compile(program, options={"only_if_faster": False, "numerics": "eager"})(t)
    assert ours.dtype == eager.dtype
    eps = torch.finfo(eager.dtype).eps if eager.is_floating_point() else 0.0
    torch.testing.assert_close(ours, eager, rtol=4 * eps, atol=eps)


def test_another_default_compiles_again() -> None:
    def program(t: torch.Tensor) -> torch.Tensor:
        return t / 3 > 0.3

    compiled, t = vesta.compile(program), torch.arange(9)
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
            torch.set_default_dtype(dtype)
            assert torch.equal(compiled(t), program(t))
    finally:
        torch.set_default_dtype(before)
