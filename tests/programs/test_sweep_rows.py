"""The benchmark's sweep over single operators: each row is what its name says, and equals eager when it is compiled."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import vesta
from bench import sweep
from bench.sweep_rows import ROWS, SIZES, Row, inputs_of
from bench.sweep_worker import measure
from tests.build import generates_code

NOT_IN_OP_DB = {"gelu_bf16", "nn.functional.fold", "affine_grid", "chain_matmul"}
# The values are whatever was in the memory.
UNINITIALISED = {"empty_like"}


def test_there_are_enough_operators_and_sizes():
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
    assert len(ROWS) * len(SIZES) >= 300
    known = {op.name for op in op_db}

    def operators(name: str) -> set[str]:
        return {o for o in known if name == o or name.startswith(o + "_")}

    assert {n for n in names if not operators(n)} == NOT_IN_OP_DB
    assert len({max(operators(n), key=len) for n in names if n not in NOT_IN_OP_DB}) >= 250


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_equals_eager(row: Row):
    inputs = inputs_of(row, "small")
    with torch.no_grad():
        torch.manual_seed(3)
        expected = row.function()(*inputs)
        torch.manual_seed(3)
        compiled = vesta.compile(row.function())
        found = compiled(*inputs)
        torch.manual_seed(3)
        again = compiled(*inputs)
    if row.name in UNINITIALISED:
        assert found.shape == again.shape == expected.shape
        return
    torch.testing.assert_close(found, expected, equal_nan=True)
    torch.testing.assert_close(again, expected, equal_nan=True)


def test_a_measurement_has_times_of_both():
    row = next(r for r in ROWS if r.name == "sigmoid")
    for backward in (False, True):
        got = measure(row, "small", backward, rounds=2, seconds=1e-4)
        assert len(got["us"]) == 2
        assert all(eager > 0 and compiled > 0 for eager, compiled in got["us"])
        assert (got["kernels"] >= 1) == generates_code()
    no_gradient = next(r for r in ROWS if r.name == "argmax")
    assert "none" in measure(no_gradient, "small", True, rounds=2, seconds=1e-4)


def test_a_row_is_slow_if_two_measurements_say_so(monkeypatch):
    def timing(name: str, eager: float, vesta_us: float) -> sweep.Timing:
        return sweep.Timing(name, "small", eager_us=eager, vesta_us=vesta_us, ratio=eager / vesta_us)

    first = [timing("fine", 10, 5), timing("once", 10, 20), timing("twice", 10, 20), timing("short", 1, 1.5)]
    second = [timing("once", 10, 10), timing("twice", 10, 15), timing("short", 2, 2.2)]
    runs = [first, second]
    asked = []

    def measured(wanted, rounds, seconds, limit_s, step):
        asked.append([name for name, _, _ in wanted])
        return runs.pop(0)

    monkeypatch.setattr(sweep, "measured", measured)
    found = sweep.sweep(["forward"], True, 1.0, lambda what: None, ["fine"])
    assert asked == [["fine", "fine"], ["once", "twice", "short"]]
    assert [t.name for t in found if t.is_below_bound] == ["once", "twice", "short"]
    assert [t.name for t in found if t.is_slow] == ["twice"]
    assert [t.name for t in sweep.worst([t for t in found if t.eager_us >= 5])] == ["twice", "once", "fine"]
    assert sweep.summary(found)["forward"]["slow"] == 1
    assert sweep.mean_ratio(found) == sweep.mean_ratio(first)
