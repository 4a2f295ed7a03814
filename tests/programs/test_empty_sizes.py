"""Sizes that are symbols less something (n - 2) and become 0: results have the strides of eager's empty tensors."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import vesta

PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a slice plus one": lambda x: x[:, 2:] + 1,
    "a transposed slice": lambda x: x.t()[2:].t() + 1,
    "negative padding": lambda x: F.pad(x, (-1, -1)),
    "padding of both signs": lambda x: F.pad(x, (-1, -1, 1, 1)),
    "concatenated": lambda x: torch.cat([x[:, 2:], x[:, 2:]]),
    "stacked": lambda x: torch.stack([x[:, 2:]] * 2),
    "made of numbers": lambda x: torch.zeros(3, x.shape[1] - 2),
    "made like it": lambda x: x.new_ones(3, x.shape[1] - 2),
    "a range": lambda x: torch.arange(3.0)[:, None] * torch.arange(x.shape[1] - 2.0),
    "a copy": lambda x: x[:, 2:].clone(),
    "contiguous": lambda x: x[:, 2:].contiguous(),
    "another dtype": lambda x: x[:, 2:].to(torch.float64),
    "a product": lambda x: torch.ones(3, 4) @ torch.ones(4, x.shape[1] - 2),
    "products": lambda x: torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, x.shape[1] - 2)),
    "einsum": lambda x: torch.einsum("ij,jk->ik", torch.ones(3, 4), torch.ones(4, x.shape[1] - 2)),
    "outer": lambda x: torch.outer(torch.ones(3), x[0, 2:]),
    "a sum beside it": lambda x: x[:, 2:].unsqueeze(0).sum(0),
    "softmax": lambda x: x[:, 2:].softmax(-1),
    "cumsum": lambda x: x[:, 2:].cumsum(1),
    "sorted": lambda x: x[:, 2:].sort(1)[0],
    "repeated": lambda x: x[:, 2:].repeat(2, 2),
    "expanded": lambda x: x[:, 2:].expand(2, -1, -1) * 2,
    "turned": lambda x: x[:, 2:].rot90(),
    "flipped": lambda x: x[:, 2:].flip(0),
    "indexed": lambda x: x[:, torch.arange(x.shape[1] - 2)],
    "gathered": lambda x: x.gather(1, torch.zeros(3, x.shape[1] - 2, dtype=torch.long)),
    "embedded": lambda x: F.embedding(torch.zeros(3, x.shape[1] - 2, dtype=torch.long), torch.ones(4, 4)),
    "reshaped": lambda x: x[:, 2:].reshape(1, -1),
    "three dimensions": lambda x: (x[:, 2:, None] * x[:, None, 2:]).exp(),
}

EntryPoint = Callable[..., Callable[[torch.Tensor], torch.Tensor]]
ENTRY_POINTS: dict[str, EntryPoint] = {
    "vesta.compile": vesta.compile,
    "dynamic": lambda f: vesta.compile(f, dynamic=True),
}
BACKEND: EntryPoint = lambda f: torch.compile(f, backend="vesta", dynamic=True)  # noqa: E731


def same(got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert got.shape == wanted.shape and got.stride() == wanted.stride()
    assert got.requires_grad == wanted.requires_grad
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("entry", ENTRY_POINTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_become_zero(name: str, entry: str) -> None:
    shrinks(PROGRAMS[name], ENTRY_POINTS[entry])


@pytest.mark.parametrize("name", ["a transposed slice", "negative padding", "made of numbers", "a product"])
def test_sizes_that_become_zero_through_torch_compile(name: str) -> None:
    shrinks(PROGRAMS[name], BACKEND)


def shrinks(f: Callable[[torch.Tensor], torch.Tensor], entry: EntryPoint) -> None:
    torch._dynamo.reset()
    compiled = entry(f)
    for n in (5, 4, 6, 2, 3, 2):
        x = torch.randn(3, n)
        same(compiled(x), f(x))


def test_the_size_is_zero_in_the_first_call() -> None:
    for f in PROGRAMS.values():
        compiled = vesta.compile(f, dynamic=True)
        for n in (2, 5, 2):
            x = torch.randn(3, n)
            same(compiled(x), f(x))


LAYOUTS: tuple[Callable[[list[int]], torch.Tensor], ...] = (
    lambda sizes: torch.randn(sizes),
    lambda sizes: torch.randn(sizes[::-1]).permute(*reversed(range(len(sizes)))),
    lambda sizes: torch.randn([2 * n for n in sizes])[tuple(slice(None, None, 2) for _ in sizes)],
    lambda sizes: torch.randn([*sizes[:-1], 1]).expand(sizes),
)


@pytest.mark.parametrize("seed", range(3))
def test_padding_of_empty_and_single_sizes(seed: int) -> None:
    """Every entry point gives eager's result and strides, or its error, for sizes 0 and 1 and padding of both signs."""
    draw = random.Random(seed)
    for trial in range(12):
        rank = draw.randint(1, 4)
        pad = [draw.choice([0, 0, 1, 2, -1, -2]) for _ in range(2 * draw.randint(1, rank))]
        mode = draw.choice(["constant", "constant", "reflect", "replicate"])

        def f(x: torch.Tensor, pad: list[int] = pad, mode: str = mode) -> torch.Tensor:
            return F.pad(x, pad, mode, 2.0 if mode == "constant" else None)

        torch._dynamo.reset()
        compiled = [entry(f) for entry in (*ENTRY_POINTS.values(), *([BACKEND] if trial % 4 == 0 else []))]
        for _ in range(4):
            sizes = [draw.choice([0, 1, 1, 2, 3, 5]) for _ in range(rank)]
            x = draw.choice(LAYOUTS)(sizes)
            if draw.random() < 0.3:
                x = x.detach().requires_grad_()
            try:
                wanted = f(x)
            except (RuntimeError, ValueError, NotImplementedError) as error:
                for c in compiled:
                    with pytest.raises(type(error)):
                        c(x)
                continue
            for c in draw.sample(compiled, len(compiled)):
                same(c(x), wanted)
