"""Elements that only move: reversed runs, rolls, diagonals, padding, joined rows, smaller images."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import vesta

PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "flipped rows": lambda x: x.flip(1),
    "flipped both ways": lambda x: x.flip(0, 1),
    "turned": torch.rot90,
    "flipped and added": lambda x: x.flip(1) + x,
    "flipped, then a part": lambda x: x.flip(1)[:, 1:],
    "flipped, then padded": lambda x: F.pad(x.flip(1), (1, 2)),
    "flipped, then masked": lambda x: x.flip(1).tril(),
    "flipped beside itself": lambda x: torch.cat([x.flip(1), x], 1),
    "rolled rows": lambda x: x.roll(3, 1),
    "rolled both ways": lambda x: x.roll((-2, 1), (1, 0)),
    "rolled flat": lambda x: x.roll(5),
    "rolled twice around": lambda x: x.roll(2 * x.size(1) + 1, 1),
    "rolled and flipped": lambda x: x.flip(1).roll(1, 1),
    "rolled sums": lambda x: (x + x).roll(1, 1),
    "diagonals": torch.diag_embed,
    "diagonals beside and across": lambda x: torch.diag_embed(x, 1, 0, 2),
    "one diagonal": lambda x: torch.diagflat(x, -2),
    "a diagonal replaced": lambda x: torch.diagonal_scatter(x, x.diagonal(1).flip(0), 1),
    "a diagonal below": lambda x: torch.diagonal_scatter(x, x.diagonal(-1).clone(), -1),
    "a diagonal filled": lambda x: x.clone().fill_diagonal_(1),
}
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.bool, torch.complex64)


def sample(n: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(3, n, dtype=dtype) if dtype.is_complex else torch.randn(3, n).mul(5).to(dtype)


@pytest.mark.parametrize("name", PROGRAMS)
def test_moves(name: str) -> None:
    f = PROGRAMS[name]
    for dtype in TYPES:
        for n in (2, 7, 15, 16, 17, 33, 70):
            x = sample(n, dtype)
            wanted, got = f(x), vesta.compile(f)(x)
            assert got.stride() == wanted.stride()
            assert torch.equal(got, wanted), (dtype, n)


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_change(name: str) -> None:
    f = PROGRAMS[name]
    compiled = vesta.compile(f, dynamic=True)
    for n in (5, 40, 16, 3, 129):
        x = sample(n, torch.float32)
        assert torch.equal(compiled(x), f(x)), n


def test_writes_through_a_diagonal() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        x.diagonal().add_(1)
        x.diagonal(1).mul_(x.diagonal(-1))
        return x.sum(1)

    compiled = vesta.compile(writes)
    for n in (3, 20, 64):
        x = torch.randn(n, n)
        y = x.clone()
        torch.testing.assert_close(compiled(x), writes(y))
        assert torch.equal(x, y)


HALVED = {"linear": (16,), "bilinear": (8, 36), "trilinear": (4, 12, 20)}


@pytest.mark.parametrize("mode", HALVED)
@pytest.mark.parametrize("scale", [0.5, 0.25, 1 / 3, 0.75])
@pytest.mark.parametrize("again", [None, True])
def test_smaller_images(mode: str, scale: float, again: bool | None) -> None:
    def smaller(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=scale, mode=mode, recompute_scale_factor=again)

    for extra in (0, 1, 3):
        x = torch.randn(2, 3, *(n + extra for n in HALVED[mode]))
        x.view(-1)[7], x.view(-1)[30] = float("inf"), float("nan")
        torch.testing.assert_close(vesta.compile(smaller)(x), smaller(x), equal_nan=True)


JOINED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "padded": lambda x, y: F.pad(x, (3, 9)),
    "padded by vectors": lambda x, y: F.pad(x, (16, 16, 1, 1)),
    "cut and padded": lambda x, y: F.pad(x, (-3, 17)),
    "two": lambda x, y: torch.cat([x, y], 1),
    "three": lambda x, y: torch.cat([y, x, y], 1),
    "in the middle": lambda x, y: torch.cat([x[:, :37], y, x[:, 37:]], 1),
    "reversed": lambda x, y: torch.cat([x, y], 1).flip(1),
    "rolled": lambda x, y: x.roll((21, 2), (1, 0)),
    "a part replaced": lambda x, y: torch.slice_scatter(x, y[:, :7], 1, 20, 27),
    "a column replaced": lambda x, y: torch.select_scatter(x, x[:, 3], 1, 33),
    "summed": lambda x, y: F.pad(torch.cat([x, x]).float(), (1, 1)).sum(0),
    "infinite borders": lambda x, y: F.pad(x.float(), (5, 5), value=float("inf")).exp(),
    "blocks": torch.block_diag,
}


@pytest.mark.parametrize("name", JOINED)
def test_rows_in_parts(name: str) -> None:
    """The parts begin and end inside of vectors, at their edges, and in the last one."""
    f = JOINED[name]
    for width in (63, 64, 65, 80, 97, 128, 131, 258):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.bool):
            x, y = torch.randn(5, width).mul(5).to(dtype), torch.randn(5, width // 2).mul(5).to(dtype)
            wanted, got = f(x, y), vesta.compile(f)(x, y)
            assert got.stride() == wanted.stride()
            torch.testing.assert_close(got, wanted)
