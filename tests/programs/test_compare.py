"""vesta.compare: results compiled, eager and in float64, side by side."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import vesta
from tests.numerics.compare import _violation
from vesta import _C
from vesta.compare_runs import Written, compare_runs
from vesta.number_rule import judge
from vesta.wide_runs import Widening


@pytest.fixture
def spoiled() -> Iterator[Callable[[str], None]]:
    stages: list[str] = []

    def spoil(stage: str) -> None:
        stages.append(stage)
        _C.spoil(stage)

    yield spoil
    for stage in stages:
        _C.spoil(stage, False)


def test_the_errors_of_a_right_program() -> None:
    def f(x: torch.Tensor, *, scale: float) -> dict[str, Any]:
        return {"a": torch.softmax(x, -1) * scale, "b": [x.argmax(), 3]}

    found = vesta.compare(f, torch.randn(64, 50), scale=2.0)
    assert found and found.ok and found.graphs == 1 and found.float64 == ""
    a, b, number = found.results
    assert [r.name for r in found.results] == ["result['a']", "result['b'][0]", "result['b'][1]"]
    assert a.dtype == torch.float32 and a.size == (64, 50) and a.facts == ()
    assert a.errors is not None and 0 < a.errors.compiled < 1e-6 and 0 < a.errors.eager < 1e-6
    assert 0 < a.errors.eager_relative < 1e-5 and a.errors.place is None
    assert b.errors is not None and b.errors.compiled == 0
    assert number.errors is None and number.dtype is None
    said = str(found)
    assert said.startswith("all 3 results are right\n") and "float32[64, 50]" in said


@pytest.mark.kernels
def test_a_wrong_kernel_is_found_and_named(spoiled: Callable[[str], None]) -> None:
    spoiled("kernel:sin_add")
    torch.manual_seed(0)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.mm((x.sin() + 1), x).exp()

    found = vesta.compare(f, torch.randn(8, 8), options={"cache": False}, kernels=True)
    assert not found.ok and not found
    assert {name: k.ok for name, k in found.kernels.items()} == {"sin_add": False, "exp": True}
    (result,) = found.results
    assert result.errors is not None and result.errors.wrong == 64 and result.errors.place is not None
    assert result.errors.compiled > result.errors.allowed
    said = str(found)
    assert "the result is wrong" in said and "1 of 2 kernels are wrong" in said and "64 elements break the rule" in said


def test_what_a_program_changes_is_a_result_and_each_run_finds_the_same_state() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    before = {name: t.clone() for name, t in model.state_dict().items()}
    x = torch.randn(16, 8)
    random = torch.get_rng_state()
    with torch.no_grad():
        of_model = vesta.compare(model, x)
        assert of_model.ok, of_model
        names = {r.name for r in of_model.results}
        assert names == {"result", "1.running_mean", "1.running_var", "1.num_batches_tracked"}
    assert all(bool((t == before[name]).all()) for name, t in model.state_dict().items())
    assert bool((torch.get_rng_state() == random).all())

    y = torch.zeros(3)
    added = vesta.compare(lambda x, y: (x * 2, y.add_(1))[0], torch.ones(2), y)
    assert added.ok and [r.name for r in added.results] == ["result", "argument 1"]
    assert bool((y == 0).all())


def test_gradients_half_types_views_and_breaks() -> None:
    model = torch.nn.Linear(16, 4)
    assert vesta.compare(model, torch.randn(4, 16)).ok
    assert vesta.compare(model.bfloat16(), torch.randn(4, 16, dtype=torch.bfloat16)).ok

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.t()
        torch._dynamo.graph_break()
        return y, x[1:], y.cumsum(0) * float(x[0, 0]), torch.rand(3)

    assert vesta.compare(f, torch.randn(4, 5)).ok
    # Sums that cancel have few correct digits in any order: the rule's third term.
    assert vesta.compare(lambda x: ((x + 1e6) - 1e6).sum(), torch.randn(1000)).ok


def test_a_compiled_function_is_compiled_anew_with_its_options() -> None:
    compiled = vesta.compile(lambda x: x.half().exp().log(), options={"numerics": "eager"})
    keeper = _C.CaseKeeper("", [])
    assert vesta.compare(compiled, torch.randn(100)).ok
    assert vesta.compare(compiled, torch.randn(100), options={"numerics": "fast"}).ok
    keeper.stop()
    cases = _C.parse_cases(_C.join_cases([], keeper.cases()))[1]
    assert [c.options.numerics for c in cases] == ["eager", "fast"]
    assert not vesta.explain(compiled).explanation.captures[0].graphs


def test_nothing_compiled_is_said() -> None:
    @vesta.disable
    def eager(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    found = vesta.compare(lambda x: eager(x), torch.ones(2))
    assert found.graphs == 0 and "nothing was compiled" in str(found)
    with pytest.raises(vesta.errors.UserError, match="takes a function or a module, not int"):
        vesta.compare(3)  # type: ignore[arg-type]


def _compared(ours: Callable[[torch.Tensor], Any], eager: Callable[[torch.Tensor], Any]) -> Any:
    x = torch.randn(4, 4)

    def run(f: Callable[[torch.Tensor], Any]) -> Any:
        def once() -> Any:
            given = x.clone()
            return lambda: f(given), [Written("x", given)]

        return once

    found, why = compare_runs(run(eager), run(ours), [x], torch.no_grad)
    return vesta.Comparison(tuple(found), why, graphs=1)


def test_every_kind_of_difference_is_one() -> None:
    def facts(ours: Callable[[torch.Tensor], Any], eager: Callable[[torch.Tensor], Any]) -> str:
        found = _compared(ours, eager)
        assert not found.ok
        return str(found)

    assert "dtype torch.float64, eager's torch.float32" in facts(lambda x: x.double(), lambda x: x + 0)
    assert "size (2, 4), eager's (4, 4)" in facts(lambda x: x[:2] + 0, lambda x: x + 0)
    assert "strides (1, 4), eager's (4, 1)" in facts(lambda x: (x + 0).t(), lambda x: (x + 0).t().contiguous())
    assert "shares memory with nothing, eager's with x (offset 4)" in facts(lambda x: x[1:].clone(), lambda x: x[1:])
    assert "structure" in facts(lambda x: (x,), lambda x: [x])
    assert "3, eager's 4" in facts(lambda x: 3, lambda x: 4)
    changed = facts(lambda x: x.add_(1).sum() - 16, lambda x: x.sum())
    assert "x " in changed and "WRONG" in changed
    assert not _compared(lambda x: x > 0, lambda x: x > -9).ok
    assert _compared(lambda x: x.sin(), lambda x: x.sin()).ok


def test_without_a_float64_run_the_errors_are_differences_from_eager() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sin().dtype == torch.float64:
            raise RuntimeError("no doubles")
        return x.sin()

    found = _compared(lambda x: x.sin() + 1e-7, f)
    assert found.ok and "no doubles" in found.float64 and "differences from eager" in str(found)
    assert found.results[0].errors.against_eager
    assert not _compared(lambda x: x.sin() + 1e-4, f).ok


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.int64])
def test_the_rule_is_that_of_the_tests(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)

    def numbers() -> torch.Tensor:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        t = torch.randn(50, generator=generator, dtype=wide) * 10
        t[:4] = torch.tensor([0.0, float("inf"), float("nan"), 1e-30])
        return t.nan_to_num(posinf=9.0) if dtype == torch.int64 else t

    seen = set()
    for error, eager_error, shake in itertools.product((0, 1e-7, 1e-5, 1e-2, 2), (0, 1e-7, 1e-3), (0, 1e-4)):
        z = numbers()
        x = (z * (1 + error * torch.randn(50, generator=generator))).to(dtype)
        y = (z * (1 + eager_error * torch.randn(50, generator=generator))).to(dtype)
        shaken = [z * (1 + shake)]
        holds = not _violation(x, y, z, [], 4.0) or not _violation(x, y, z, shaken, 4.0)
        assert judge(x, y, z, lambda shaken=shaken: shaken).holds == holds
        seen.add(holds)
    assert seen == {True, False}


def test_a_float64_run_reads_and_writes_copies() -> None:
    weight, count = torch.randn(4), torch.zeros((), dtype=torch.int64)
    base = torch.arange(6.0)
    with Widening() as mode:
        half = base[:3]
        half.mul_(2)
        count.add_(1)
        made = (base[1] + weight.half()[0], torch.zeros(2), base.half())
    assert all(t.dtype == torch.float64 for t in made)
    assert float(made[0]) == float(2 + weight.double()[0])  # base[1] is what half wrote
    assert int(count) == 0 and bool((base == torch.arange(6.0)).all())
    assert int(mode.wide(count)) == 1
    torch.manual_seed(3)
    drawn = torch.rand(4)
    torch.manual_seed(3)
    with Widening():
        assert bool((torch.rand(4) == drawn.double()).all())
