"""as_strided: what slices and indices show, too, is recorded as these, also where PyTorch's backward passes write."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import vesta

Program = Callable[[torch.Tensor], torch.Tensor]
OPTIONS = {"strict": True, "cache": False}


def strided_ops(compiled: object) -> list[str]:
    """The calls of as_strided and as_strided_scatter in all graphs."""
    graphs = [g for c in vesta.explain(compiled).explanation.captures for g in c.graphs]
    assert graphs
    return [e.op for g in graphs for r in (g.compiled, *g.backward) for e in r.externs if "as_strided" in e.op]


PARTS: dict[str, Program] = {
    "index": lambda x: (x * 2).as_strided((6,), (1,), 12).exp(),
    "column": lambda x: (x * 2).as_strided((4,), (6,), 5).exp(),
    "slice": lambda x: (x * 2).as_strided((2, 3), (6, 1), 8).exp(),
    "steps": lambda x: (x * 2).as_strided((2, 2), (12, 3), 1).exp(),
    "turned": lambda x: (x * 2).as_strided((6, 4), (1, 6)).exp(),
    "of an input": lambda x: x.as_strided((2, 3), (6, 1), 8).exp(),
    "one element": lambda x: (x * 2).as_strided((), (), 7).exp(),
    "of a permuted tensor": lambda x: (x.t() * 2).as_strided((6, 2), (1, 6), 6).exp(),
    "across rows": lambda x: (x * 2).as_strided((2, 12), (12, 1)).exp(),
    "of other rows": lambda x: (x * 2).as_strided((2, 3), (8, 2), 9).exp(),
    "written": lambda x: written(x * 2),
}
OTHERS: dict[str, Program] = {
    "diagonal": lambda x: (x * 2).as_strided((4,), (7,)).exp(),
    "windows": lambda x: (x * 2).as_strided((22, 3), (1, 1)).exp(),
    "nothing": lambda x: (x * 2).as_strided((0, 3), (6, 1)).exp(),
}


def written(y: torch.Tensor) -> torch.Tensor:
    y.as_strided((2, 3), (6, 1), 8).mul_(3)
    return y.sin()


@pytest.mark.parametrize("name", [*PARTS, *OTHERS])
def test_results_and_gradients_are_eagers(name: str) -> None:
    f = (PARTS | OTHERS)[name]
    inference, training = (vesta.compile(f, fullgraph=True, options=OPTIONS) for _ in range(2))
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(inference(x), f(x))
    assert bool(strided_ops(inference)) == (name in OTHERS)
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    results = [call(leaf) for call, leaf in zip((f, training), leaves, strict=True)]
    torch.testing.assert_close(results[1], results[0])
    for y in results:
        y.sum().backward()
    torch.testing.assert_close(leaves[1].grad, leaves[0].grad)
    assert bool(strided_ops(training)) == (name in OTHERS)


def test_the_offset_of_an_input_is_that_of_its_storage() -> None:
    f = PARTS["of an input"]
    compiled = vesta.compile(f, options={"cache": False})
    for begin in (0, 3, 8, 24):
        x = torch.randn(48, generator=torch.Generator().manual_seed(begin))[begin : begin + 24].view(4, 6)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), f(x))


def recurrence(x: torch.Tensor) -> torch.Tensor:
    """Its backward pass takes slices of a permuted gradient by their strides (torch::autograd::CopySlices)."""
    states = torch.zeros(2, 8, 5).permute(0, 2, 1) * 1
    h = torch.zeros(2, 8)
    for t in range(5):
        h = (h * 0.5 + x[:, t]).tanh()
        states[:, t] = h
    return states


def test_a_backward_pass_through_writes_into_a_permuted_tensor() -> None:
    compiled = vesta.compile(recurrence, fullgraph=True, options=OPTIONS)
    xs = [torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(3)).requires_grad_() for _ in range(2)]
    results = [f(x) for f, x in zip((recurrence, compiled), xs, strict=True)]
    torch.testing.assert_close(results[1], results[0])
    for y in results:
        (y * torch.arange(80.0).view(2, 5, 8)).sum().backward()
    torch.testing.assert_close(xs[1].grad, xs[0].grad)
    assert not strided_ops(compiled)
