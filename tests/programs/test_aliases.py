"""Arguments and results that share memory."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import vesta
from tests.programs.expect import expect_eager


def chain(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + 1) * 2


def views_of_one(kind: str) -> list[torch.Tensor]:
    base = torch.arange(24.0)
    return {
        "same": [base, base],
        "alias": [base, base.view(24)],
        "shifted": [base[:16], base[8:]],
        "apart": [base[:8], base[8:16]],
        "rows and columns": [base.view(4, 6)[1], base.view(4, 6)[:, 2][:1].expand(6)],
        "transposed": [base[:16].view(4, 4), base[:16].view(4, 4).t()],
        "other type": [base, base.view(torch.int32)],
        "empty": [base, base[:0]],
    }[kind]


@pytest.mark.parametrize(
    "kind", ["same", "alias", "shifted", "apart", "rows and columns", "transposed", "other type", "empty"]
)
def test_aliased_inputs(kind: str):
    def first_then_second(a, b):
        a.add_(1)
        return b * 2

    def both(a, b):
        a.mul_(2)
        b.add_(1)
        return a.sum(), b.sum()

    def second_from_first(a, b):
        b.copy_(a.reshape(-1)[: b.numel()].reshape(b.shape)) if b.numel() else None
        return a + 1

    def returned(a, b):
        a.neg_()
        return a, b, a[:2]

    for program in (first_then_second, both, second_from_first, returned):
        expect_eager(program, *views_of_one(kind))
        # Made for separate memory first, then called with shared memory, and the other way round.
        compiled = expect_eager(program, *[t.clone() for t in views_of_one(kind)])
        expect_eager(program, *views_of_one(kind), compiled=compiled)
        expect_eager(program, *[t.clone() for t in views_of_one(kind)], compiled=compiled)


def test_outputs_that_are_inputs():
    compiled = vesta.trace_and_compile(lambda x, y: (x, x, y.view(-1), y[1:], x + y))
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    for _ in range(2):
        out = compiled(x, y)
        assert out[0] is x and out[1] is x
        assert out[2].data_ptr() == y.data_ptr() and out[3].data_ptr() == y[1:].data_ptr()
        out[3].zero_()
        assert not y[1:].any()
        y.normal_()


def test_results_stay_the_callers():
    compiled = vesta.trace_and_compile(chain)
    x = torch.randn(64, 64)
    kept = [compiled(x * i) for i in range(6)]
    for i, y in enumerate(kept):
        assert torch.equal(y, chain(x * i))
    assert torch.equal(compiled(compiled(x)), chain(chain(x)))


def test_a_changed_weight_is_seen():
    weight, bias = torch.randn(8, 8), torch.zeros(8)
    compiled = vesta.trace_and_compile(lambda x: F.linear(x, weight, bias))
    x = torch.randn(4, 8)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), F.linear(x, weight, bias))
        with torch.no_grad():
            weight.mul_(2)
            bias.add_(1)
