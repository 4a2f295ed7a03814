"""The machinery, on programs of its own: what it calls right, wrong, an error, broken. No library is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import vesta
from tests.ecosystem import __main__ as runner
from tests.ecosystem.page import page
from tests.ecosystem.program import PROGRAMS, Built, Compile, Program, load_programs, normal
from tests.ecosystem.worker import Row, Stop, run_row


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    vesta.reset()
    yield
    vesta.reset()


def row_of(build: object, rounds: int = 0) -> Row:
    return run_row(Program("test.program", "torch", "a program", build), rounds)  # type: ignore[arg-type]


def model_program(compile: Compile) -> Built:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": normal(n, 5, 8)}, (model,))


def test_right_program() -> None:
    row = row_of(model_program, rounds=2)
    assert (row.error, row.failure, row.stops, row.recompiles) == ("", "", (), ())
    assert row.graphs == 1
    assert row.version == torch.__version__.partition("+")[0] or row.version == torch.__version__
    assert row.first_ms > 0 and row.eager_us > 0 and row.ours_us > 0 and row.ratio > 0


def test_wrong_result_is_seen_at_its_call() -> None:
    def build(compile: Compile) -> Built:
        calls = []

        def call(x: Tensor) -> Tensor:
            calls.append(x)
            return x.sin() + (1e-3 if compile is vesta.compile and len(calls) == 2 else 0.0)

        return Built(call, lambda n: {"x": normal(n, 5)})

    assert row_of(build).failure.startswith("call 2: 1 of 1 tensors differ")


def test_rounding_is_judged_by_float64() -> None:
    def build(compile: Compile) -> Built:
        weight = nn.Linear(1000, 1, bias=False)

        def call(x: Tensor) -> Tensor:  # the same sum in another order
            w = weight.weight[0].detach()
            return (x * w).flip(0).sum() if compile is vesta.compile else (x * w).sum()

        return Built(call, lambda n: {"x": normal(n, 1000)}, (weight,))

    assert not row_of(build).failure


def test_program_that_raises_when_compiled() -> None:
    def build(compile: Compile) -> Built:
        if compile is vesta.compile:
            raise ValueError("only when compiled")
        return Built(lambda: torch.ones(2), lambda n: {})

    row = row_of(build)
    assert not row.error
    assert row.failure.startswith("raises\n") and row.failure.endswith("ValueError: only when compiled\n")


def test_program_that_does_not_run_in_eager_is_an_error() -> None:
    def build(compile: Compile) -> Built:
        import no_such_library  # type: ignore[import-not-found] # noqa: F401

        raise AssertionError

    row = row_of(build)
    assert "No module named 'no_such_library'" in row.error
    assert not row.failure
    assert "returns no tensor: NoneType" in row_of(lambda compile: Built(lambda: None, lambda n: {})).error


def test_breaks_and_recompiles_are_counted() -> None:
    def build(compile: Compile) -> Built:
        def step(x: Tensor) -> Tensor:
            y = x * 2
            return y + 1 if y.sum() > 0 else y - 1

        compiled = compile(step)
        return Built(lambda x: compiled(x), lambda n: {"x": torch.ones(3 + n)})

    row = row_of(build)
    assert not row.failure and row.graphs >= 2
    assert [s.kind for s in row.stops] == ["break"] and "test_ecosystem.py" in row.stops[0].where
    assert row.stops[0].where.startswith("tests/ecosystem/")
    assert row.recompiles


def test_every_program_is_in_the_table_once() -> None:
    programs = load_programs()
    assert len({p.what + p.package for p in programs.values()}) == len(programs)
    locked = {
        line.partition("==")[0].lower().replace("_", "-")
        for file in ("tests/ecosystem/requirements.lock", "requirements.lock", "requirements-nodeps.lock")
        for line in (Path(__file__).parents[2] / file).read_text().splitlines()
        if "==" in line
    }
    missing = {p.package for p in programs.values() if p.package.lower().replace("_", "-") not in locked}
    assert not missing
    assert len({p.package for p in programs.values()}) >= 20 and len(programs) >= 30
    assert runner.chosen(["kornia"]) == [name for name in PROGRAMS if name.startswith("kornia.")]
    assert runner.chosen(["*.generate_t5"]) == ["transformers.generate_t5"]
    assert not runner.chosen(["nothing"])


def test_no_library_brings_a_torch() -> None:
    lock = (Path(__file__).parent / "requirements.lock").read_text()
    assert "torch==" not in [line[:7] for line in lock.splitlines()]
    assert all(line.startswith("#") or "==" in line for line in lock.splitlines())


def test_page() -> None:
    stops = tuple(Stop("break", f"library/file.py:{i} f", f"reason {i}") for i in range(9))
    rows = [
        Row("a.x", "a", "1.0", "whole", graphs=1, first_ms=120.0, eager_us=1500.0, ours_us=500.0, ratio=3.0),
        Row("a.y", "a", "1.0", "idle", eager_us=10.0, ours_us=12.0, ratio=0.75),
        Row("b.x", "b", "2.0", "broken | it", graphs=3, stops=stops, failure="call 1: 1 of 1 tensors differ\nmore"),
        Row("b.y", "b", "2.0", "steps", True, graphs=2, first_ms=10.0, eager_us=2e6, ours_us=2e6, ratio=1.0),
    ]
    text = page(rows)
    assert "4 programs of 2 libraries: 3 give eager's results" in text
    assert "without training: 1.50" in text
    assert "| a 1.0 | whole | as eager | +0.12 s | 1.5 ms | 3.00 | 1 | 0 |" in text
    assert "as eager, nothing compiled" in text
    assert "| b 2.0 | broken \\| it | **differs** |  |  |  | 3 | 9 |" in text
    assert "- b, broken | it: call 1: 1 of 1 tensors differ" in text
    assert "  - reason 0 (`library/file.py:0 f`)" in text and "  - and 1 more" in text
    assert text.index("## Training") < text.index("| b 2.0 | steps | as eager | +0.01 s | 2 s | 1.00 | 2 | 0 |")


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["--list", "--only", "peft"]) == 0
    assert "peft.lora " in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        runner.main(["--only", "nothing"])
    assert ended.value.code == 2
