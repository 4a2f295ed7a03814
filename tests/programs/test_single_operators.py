"""Operators that are recorded whole, or left to ATen where nothing is fused with them: eager's values and strides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import vesta

Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    yield
    vesta.reset()


def check(program: Program, *inputs: torch.Tensor) -> None:
    with torch.no_grad():
        try:
            expected = program(*inputs)
        except Exception as error:
            with pytest.raises(type(error)):
                vesta.compile(program)(*inputs)
            return
        found = vesta.compile(program)(*inputs)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-5, atol=1e-6)


IMAGE = torch.randn(2, 3, 6, 5, generator=torch.Generator().manual_seed(1))
LAYOUTS = [IMAGE, IMAGE.to(memory_format=torch.channels_last), IMAGE.transpose(2, 3), IMAGE[:, :, ::2], IMAGE[:0]]


@pytest.mark.parametrize("pad", [(1, 1, 1, 1), (5, 0, 0, 0), (-1, 2, 0, 0), (0, 0, 1, 2), (0, 0, 0, 0), (7, 0, 0, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_circular_padding(pad: tuple[int, ...], dtype: torch.dtype) -> None:
    for x in LAYOUTS:
        check(lambda t: F.pad(t, pad, "circular"), x.to(dtype))
        check(lambda t: F.pad(t, pad, "circular") * 2, x.to(dtype))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("corners", [False, True])
def test_affine_grids(corners: bool) -> None:
    for theta, size in (
        (torch.randn(2, 2, 3), (2, 3, 4, 5)),
        (torch.randn(2, 3, 4), (2, 3, 4, 5, 6)),
        (torch.randn(2, 2, 3), (3, 3, 4, 5)),
        (torch.randn(2, 2, 3).double(), (2, 1, 1, 1)),
    ):
        check(lambda t, s=size: F.affine_grid(t, s, align_corners=corners), theta)


def test_rrelu_outside_of_training() -> None:
    for x in (torch.randn(5, 7), torch.randn(0, 3), torch.tensor(-1.5), torch.randn(4, 4).t(), torch.arange(4)):
        check(lambda t: F.rrelu(t), x)
        check(lambda t: F.rrelu_(t.clone(), 0.2, 0.2), x)
        check(lambda t: F.rrelu(t, 0.4, 0.2), x)


def test_uninitialised_outputs() -> None:
    def made(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.empty_like(x), x.new_empty(2, 3), torch.empty_strided((2, 3), (1, 2)), x + 1, torch.empty_like(x)

    for shape in ((3,), (0,), (4, 5)):
        like, new, strided, sum_, other = vesta.compile(made)(torch.ones(shape))
        assert like.shape == shape
        assert new.shape == (2, 3)
        assert strided.stride() == (1, 2)
        assert (sum_ == 2).all()
        assert like.numel() == 0 or like.data_ptr() != other.data_ptr()

    def filled(x: torch.Tensor) -> torch.Tensor:
        a, b = torch.empty_like(x), torch.empty(x.shape)
        a.copy_(x)
        b[...] = 3
        return a + b

    check(filled, torch.randn(4, 5))


INDEX = torch.randint(0, 4, (4, 4), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    "program",
    [
        lambda x, i, y: torch.gather(x, -1, i),
        lambda x, i, y: torch.gather(x.t(), 1, i).exp(),
        lambda x, i, y: torch.scatter(x, 0, INDEX, y),
        lambda x, i, y: torch.scatter_add(x, 1, i, y),
        lambda x, i, y: torch.scatter_add(x, 1, i, y * 2) + 1,
        lambda x, i, y: torch.scatter_reduce(x, 1, i, y, "sum"),
        lambda x, i, y: torch.scatter_reduce(x, 1, i, y, "amax"),
        lambda x, i, y: x.clone().scatter_(1, i, y),
    ],
)
@pytest.mark.parametrize("index", [INDEX, INDEX.t(), INDEX[:, ::2], INDEX[:0], INDEX + 9])
def test_moves_along_rows(program: Program, index: torch.Tensor) -> None:
    x = torch.randn(4, 4)
    check(program, x, index, torch.randn(4, 4))
    check(program, x.t(), index, torch.randn(4, 8)[:, ::2])


# Rows of a concatenation or a roll that is long enough for addresses far outside of its pieces.
def test_pieces_far_apart() -> None:
    x, y = torch.randn(512, 1024), torch.randn(300, 1024)
    check(lambda a, b: torch.cat((a, b, a)), x, y)
    check(lambda a, b: torch.cat((a, b)).bfloat16(), x.double(), y)
    check(lambda a, b: torch.roll(a, 7, 0), x, y)
    check(lambda a, b: torch.roll(a, (3, -5), (0, 1)), x[:, :1001], y)
    check(lambda a, b: F.pad(a, (0, 0, 5, 6)), x.to(torch.int8), y)
