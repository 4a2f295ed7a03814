"""Training in autocast: a compiled step and an eager one round to bfloat16 at different places. The compiled one is as
close to the result in float64."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import vesta

OPTIONS = {"only_if_faster": False}
SEEDS = range(12)


def normal(seed: int, *sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def test_gradients_of_a_layer() -> None:
    def gradients(layer: nn.Linear, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=x.dtype == torch.float32):
            loss = layer(x).tanh().sum()
        return torch.autograd.grad(loss, (layer.weight, layer.bias))

    compiled = vesta.compile(gradients, options=OPTIONS, fullgraph=True)
    errors = torch.zeros(2, 2, dtype=torch.double)  # by way and tensor
    for seed in SEEDS:
        torch.manual_seed(seed)
        layer, x = nn.Linear(8, 16), normal(seed, 16, 8)
        exact = gradients(copy.deepcopy(layer).double(), x.double())
        for way, found in enumerate((gradients(layer, x), compiled(layer, x))):
            errors[way] += torch.stack([(g - e).abs().sum() for g, e in zip(found, exact, strict=True)])
    assert (errors[1] < 1.1 * errors[0]).all()


def test_step_with_scaled_gradients() -> None:
    def train(dtype: torch.dtype, compiles: bool, seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(dtype)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)

        def step(x: torch.Tensor, y: torch.Tensor) -> None:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
                loss = functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        call = vesta.compile(step, options=OPTIONS) if compiles else step
        for turn in range(2):
            call(normal(seed + turn, 16, 8).to(dtype), torch.arange(16) % 4)
        return torch.cat([p.detach().double().flatten() for p in model.parameters()])

    errors = torch.zeros(2, dtype=torch.double)
    for seed in SEEDS:
        exact = train(torch.float64, False, seed)
        errors += torch.stack([(train(torch.float32, c, seed) - exact).abs().sum() for c in (False, True)])
    assert errors[1] < 1.1 * errors[0]
