"""Solvers: torchdiffeq, torchsde, geomloss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.ecosystem.program import Built, Compile, normal, program


class Field(nn.Module):
    """The vector field of torchdiffeq's own example."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        return self.net(y**3)


@program("torchdiffeq", "`odeint`, dopri5, the field compiled")
def dopri5(compile: Compile) -> Built:
    from torchdiffeq import odeint

    field = Field()
    compiled = compile(field)

    @torch.no_grad()
    def call(y0: Tensor) -> Tensor:
        return odeint(compiled, y0, torch.linspace(0.0, 1.0, 10), rtol=1e-4, atol=1e-5)

    return Built(call, lambda n: {"y0": normal(n, 16, 2)}, (field,))


@program("torchdiffeq", "`odeint`, rk4, the whole solution compiled")
def rk4(compile: Compile) -> Built:
    from torchdiffeq import odeint

    field = Field()

    @compile
    def solve(y0: Tensor, t: Tensor) -> Tensor:
        return odeint(field, y0, t, method="rk4")

    @torch.no_grad()
    def call(y0: Tensor) -> Tensor:
        return solve(y0, torch.linspace(0.0, 1.0, 10))

    return Built(call, lambda n: {"y0": normal(n, 16, 2)}, (field,))


@program("torchdiffeq", "`odeint_adjoint` training step, RMSprop", trains=True)
def adjoint(compile: Compile) -> Built:
    from torchdiffeq import odeint_adjoint

    field = Field()
    compiled = compile(field)
    optimizer = torch.optim.RMSprop(field.parameters(), lr=1e-3)

    def call(y0: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        predicted = odeint_adjoint(
            compiled, y0, torch.linspace(0.0, 1.0, 5), method="rk4", adjoint_params=tuple(field.parameters())
        )
        loss = torch.mean(torch.abs(predicted - target))
        loss.backward()
        optimizer.step()
        return loss

    return Built(call, lambda n: {"y0": normal(n, 16, 2), "target": normal(n + 1, 5, 16, 2)}, (field,))


@program("torchsde", "`sdeint`, Euler's method, drift and diffusion compiled")
def sdeint(compile: Compile) -> Built:
    import torchsde

    class Sde(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.mu, self.sigma = nn.Linear(3, 3), nn.Linear(3, 3)

        def f(self, t: Tensor, y: Tensor) -> Tensor:
            return self.mu(y)

        def g(self, t: Tensor, y: Tensor) -> Tensor:
            return torch.sigmoid(self.sigma(y))

    sde = Sde()
    sde.f, sde.g = compile(sde.f), compile(sde.g)

    @torch.no_grad()
    def call(y0: Tensor) -> Tensor:
        noise = torchsde.BrownianInterval(0.0, 1.0, size=tuple(y0.shape), dtype=y0.dtype, entropy=7)
        return torchsde.sdeint(sde, y0, torch.linspace(0.0, 1.0, 5), bm=noise, dt=0.05, method="euler")

    return Built(call, lambda n: {"y0": normal(n, 32, 3)}, (sde,))


@program("geomloss", "Sinkhorn divergence of two point clouds")
def sinkhorn(compile: Compile) -> Built:
    from geomloss import SamplesLoss

    loss = compile(SamplesLoss(loss="sinkhorn", p=2, blur=0.05, backend="tensorized"))
    return Built(lambda x, y: loss(x, y), lambda n: {"x": normal(n, 200, 3), "y": normal(n + 1, 150, 3) + 0.5})
