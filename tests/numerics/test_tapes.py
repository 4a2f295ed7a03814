"""Operators of op_db on tapes: what a tape says, run by eager, has the program's outputs, gradients and history."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.numerics.op_samples import UNINITIALISED, Program, full_name, program_of
from vesta import _C
from vesta.training import graph_of_tape

pytestmark = pytest.mark.filterwarnings("ignore")

SAMPLES = 3
OPERATORS = [op for op in op_db if torch.float64 in op.dtypes and op.supports_autograd and op.name not in UNINITIALISED]
# Operators that no trace supports: results that depend on values, and memory that is read past the dispatcher.
REFUSED = "needs the values? of|data pointer|in a way Vesta does not know|layout is not strided"


def copies_of(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]


def run(program: Program, tensors: list[torch.Tensor]) -> tuple[list[Any], list[Any]]:
    given = copies_of(tensors)
    torch.manual_seed(3)
    outputs = program(*given)
    total = torch.zeros((), dtype=torch.float64)
    torch.manual_seed(4)
    for y in outputs:
        if y.requires_grad:
            real = torch.view_as_real(y) if y.is_complex() else y
            total = total + (real * torch.randn(real.shape)).sum()
    if total.requires_grad:
        total.backward()
    facts = [(y.requires_grad, y.is_leaf, y.dtype, y.stride()) for y in outputs]
    return facts, [y.detach() for y in outputs] + [x.grad for x in given]


def from_tape(program: Program, tensors: list[torch.Tensor]) -> tuple[_C.Tape, Program]:
    given = copies_of(tensors)
    tape, inputs = _C.trace_tape(program, given)
    graph = graph_of_tape(tape, 0, tape.outputs)

    def replay(*args: torch.Tensor) -> list[torch.Tensor]:
        full = [*args, *inputs[len(args) :]]
        return list(graph(*(x for i, x in enumerate(full) if tape.inputs[i] not in tape.inputs[:i])))

    return tape, replay


@pytest.mark.parametrize("op", OPERATORS, ids=full_name)
def test_operator(op: Any):
    torch.manual_seed(1)
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float64, requires_grad=True), SAMPLES):
        program, tensors = program_of(op, sample)
        if any(t.layout != torch.strided for t in tensors):
            continue
        try:
            facts, numbers = run(program, tensors)
        except RuntimeError:
            continue  # eager cannot, either
        try:
            tape, replay = from_tape(program, tensors)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=REFUSED):
                raise error
            continue
        assert tape.outputs_require_grad == [fact[0] for fact in facts]
        our_facts, ours = run(replay, tensors)
        assert our_facts == facts
        assert [x is None for x in ours] == [x is None for x in numbers]
        torch.testing.assert_close(ours, numbers, equal_nan=True)
