"""A number that changes in each call, of which only the kernels need to know."""

from __future__ import annotations

import pytest
import torch

import vesta


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def test_kernels_get_the_number_of_the_call() -> None:
    def f(x, n):
        return torch.sin(x * n) + n, n + 3

    compiled = vesta.compile(f)
    for n in [2, 3, 3, 7, -4, 0, 1, 5, 2**39, 6]:
        for rows in (4, 4, 9):
            x = torch.randn(rows, 4)
            ours, eager = compiled(x, n), f(x, n)
            torch.testing.assert_close(ours[0], eager[0])
            assert ours[1] == eager[1]


def test_large_tensors_on_all_threads() -> None:
    def f(x, n):
        return x * n + n

    compiled = vesta.compile(f)
    x = torch.randn(1 << 20)
    for n in range(2, 12):
        assert torch.equal(compiled(x, n), f(x, n))


def test_numbers_that_are_sizes_in_one_place_and_factors_in_another() -> None:
    def f(x, n):
        return x[:n] * n, x.narrow(0, n, 2) + n, torch.full((n,), n)

    compiled = vesta.compile(f)
    x = torch.randn(20, 3)
    for n in [2, 3, 4, 9, 3, 17, 5]:
        for ours, eager in zip(compiled(x, n), f(x, n), strict=True):
            assert torch.equal(ours, eager)


def test_variants_in_turn_count_the_guards_that_fail() -> None:
    def f(x, n):
        return x * n if n % 3 else x + n

    compiled = vesta.compile(f)
    x = torch.randn(4, 4)
    for n in range(2, 60):
        assert torch.equal(compiled(x, n), f(x, n))
    captured = vesta.explain(compiled).explanation.captures[0]
    assert len(captured.recompiles) <= 3
    assert all(r.guard for r in captured.recompiles)


def test_a_recompile_names_the_guard_that_failed() -> None:
    def f(x, word):
        return x + len(word)

    compiled = vesta.compile(f)
    x = torch.randn(4)
    for word in ("a", "bcd"):
        compiled(x, word)
    (recompile,) = vesta.explain(compiled).explanation.captures[0].recompiles
    assert "'a'" in recompile.was + recompile.guard
    assert "'bcd'" in recompile.now
