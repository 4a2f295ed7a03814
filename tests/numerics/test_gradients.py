"""Backward passes of the operators of op_db: those of compiled programs are eager's, for tangents of every kind."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import vesta
from tests.numerics.op_samples import UNINITIALISED, Program, full_name, program_of

pytestmark = pytest.mark.filterwarnings("ignore")

OPERATORS = [op for op in op_db if torch.float64 in op.dtypes and op.supports_autograd and op.name not in UNINITIALISED]
QUICK = 9  # one of so many operators is in the quick part
# Programs that no trace supports: results that depend on values, and memory that is read past the dispatcher.
REFUSED = (
    "needs the values? of|needs the mask's values|data pointer|in a way Vesta does not know|layout is not strided|"
    "does not know|reads|the gradient of torch_nn::_linear_cross_entropy_batch_chunked"
)
# Operators whose formulas in eager give zeros for a result that the input does not reach, or nothing for one that it
# reaches, if a pass brings a tangent for another result alone.
ONE_TANGENT_DIFFERS = {"triangular_solve": "zeros for B from the copy of A", "native_group_norm": "nothing from rstd"}

Tangents = Callable[[list[torch.Tensor]], list["torch.Tensor | None"]]


def random_like(t: torch.Tensor, seed: int) -> torch.Tensor:
    return torch.randn(t.shape, dtype=t.dtype, generator=torch.Generator().manual_seed(seed))


def transposed(t: torch.Tensor, seed: int) -> torch.Tensor:
    order = tuple(range(t.dim()))[::-1]
    return random_like(t.permute(order), seed).permute(order)


TANGENTS: dict[str, Tangents] = {
    "dense": lambda ys: [random_like(y, i) for i, y in enumerate(ys)],
    "transposed": lambda ys: [transposed(y, i) for i, y in enumerate(ys)],
    "expanded": lambda ys: [torch.ones((), dtype=y.dtype).mul(i + 1).expand(y.shape) for i, y in enumerate(ys)],
    "first alone": lambda ys: [random_like(y, i) if i == 0 else None for i, y in enumerate(ys)],
    "last alone": lambda ys: [random_like(y, i) if i == len(ys) - 1 else None for i, y in enumerate(ys)],
}


def run(program: Program, tensors: list[torch.Tensor], kinds: list[str]) -> tuple[list[Any], list[Any]]:
    """Facts of the results; and all numbers, with the gradients for each kind of tangents."""
    given = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
    torch.manual_seed(3)
    outputs = program(*given)
    facts = [(y.requires_grad, y.is_leaf, y.dtype, y.stride()) for y in outputs]
    numbers: list[Any] = [y.detach().clone() for y in outputs]
    asked = [x for x in given if x.requires_grad]
    results = [y for y in outputs if y.requires_grad and not any(y is x for x in given)]
    for kind in kinds if asked and results else []:
        pairs = [(y, t) for y, t in zip(results, TANGENTS[kind](results), strict=True) if t is not None]
        ys, ts = zip(*pairs, strict=True)
        numbers += torch.autograd.grad(ys, asked, ts, retain_graph=True, allow_unused=True)
    return facts, numbers


def check(op: Any, samples: int) -> None:
    torch.manual_seed(1)
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float64, requires_grad=True), samples):
        program, tensors = program_of(op, sample)
        if any(t.layout != torch.strided for t in tensors):
            continue
        kinds = []
        for kind in TANGENTS:
            try:
                run(program, tensors, [kind])
                kinds.append(kind)
            except RuntimeError:  # eager cannot, either
                continue
        if not kinds:
            continue
        compiled = vesta.compile(program, fullgraph=True, options={"strict": True})
        facts, numbers = run(program, tensors, kinds)
        try:
            our_facts, ours = run(compiled, tensors, kinds)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=REFUSED):
                raise error
            continue
        assert our_facts == facts
        if op.name in ONE_TANGENT_DIFFERS:
            pairs = [(a, b) for a, b in zip(ours, numbers, strict=True) if a is not None and b is not None]
            assert len(pairs) >= len(facts) + sum(t.requires_grad for t in tensors)
            ours, numbers = [a for a, _ in pairs], [b for _, b in pairs]
        assert [x is None for x in ours] == [x is None for x in numbers]
        torch.testing.assert_close(ours, numbers, equal_nan=True)


@pytest.mark.parametrize("op", OPERATORS[::QUICK], ids=full_name)
def test_operator(op: Any) -> None:
    check(op, 1)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS, ids=full_name)
def test_every_operator(op: Any) -> None:
    check(op, 3)
