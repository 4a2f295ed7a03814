"""Random numbers are eager's, number by number, in whatever layout they are drawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vesta

OPTIONS = {"only_if_faster": False}

LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "contiguous": lambda: torch.zeros(6, 3, 16),
    "transposed": lambda: torch.zeros(3, 6, 16).transpose(0, 1),
    "channels-last": lambda: torch.zeros(2, 4, 5, 6).to(memory_format=torch.channels_last),
    "columns": lambda: torch.zeros(6, 64)[:, ::2],
    "rows": lambda: torch.zeros(12, 16)[::2],
    "transposed-columns": lambda: torch.zeros(16, 12)[:, ::2].t(),
    "column": lambda: torch.zeros(20, 3)[:, 1:2],
}

IN_PLACE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bernoulli": lambda t: t.bernoulli_(0.5),
    "bernoulli-tensor": lambda t: t.bernoulli_(torch.full(t.shape, 0.5)),
    "uniform": lambda t: t.uniform_(),
    "normal": lambda t: t.normal_(),
    "exponential": lambda t: t.exponential_(),
    "random": lambda t: t.random_(0, 100),
    "geometric": lambda t: t.geometric_(0.3),
    "cauchy": lambda t: t.cauchy_(),
    "log-normal": lambda t: t.log_normal_(),
}

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bernoulli": torch.bernoulli,
    "bernoulli-number": lambda t: torch.bernoulli(t, 0.5),
    "dropout": lambda t: F.dropout(t, 0.5),
    "dropout-in-place": lambda t: F.dropout(t * 2, 0.5, inplace=True),
    "alpha-dropout": lambda t: F.alpha_dropout(t, 0.5),
    "rrelu": lambda t: F.rrelu(t - 0.5, training=True),
    "rrelu-in-place": lambda t: F.rrelu_(t - 0.5, training=True),
    "poisson": torch.poisson,
    "normal": lambda t: torch.normal(t, 1.0),
    "randn-like": torch.randn_like,
    "randint-like": lambda t: torch.randint_like(t, 9),
    "gumbel-softmax": lambda t: F.gumbel_softmax(t),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", IN_PLACE)
def test_drawn_in_place(name: str, layout: str) -> None:
    def draw(t: torch.Tensor) -> torch.Tensor:
        IN_PLACE[name](t)
        made = LAYOUTS[layout]()
        IN_PLACE[name](made)
        return made + t

    found = []
    for call in (draw, vesta.compile(draw, options=OPTIONS)):
        t = LAYOUTS[layout]()
        torch.manual_seed(1)
        found.append((call(t), t, torch.rand(3)))
    for eager, ours in zip(*found, strict=True):
        assert ours.stride() == eager.stride()
        assert torch.equal(ours, eager)


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "channels-last", "columns"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results(name: str, layout: str, trains: bool) -> None:
    x = LAYOUTS[layout]()
    with torch.no_grad():
        x += torch.rand(x.shape, generator=torch.Generator().manual_seed(3))
    x.requires_grad_(trains)
    found = []
    for call in (FUNCTIONS[name], vesta.compile(FUNCTIONS[name], options=OPTIONS)):
        torch.manual_seed(1)
        found.append((call(x), torch.rand(3)))
    for eager, ours in zip(*found, strict=True):
        assert ours.stride() == eager.stride()
        torch.testing.assert_close(ours, eager, rtol=1e-6, atol=1e-6)


def test_a_transformer_layer_drops_what_eager_drops() -> None:
    """Attention of nn.MultiheadAttention ends in a transposed tensor, and dropout follows."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.3, batch_first=True)
    x = torch.randn(3, 6, 16)
    compiled = vesta.compile(layer, options=OPTIONS)
    for seed in range(3):
        torch.manual_seed(seed)
        eager = layer(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(x), eager, rtol=1e-5, atol=1e-5)
    assert vesta.explain(compiled).explanation.breaks == []
