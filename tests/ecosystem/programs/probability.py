"""Probabilities: gpytorch, botorch, pyro, normflows, nflows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.ecosystem.program import Built, Compile, no_inputs, normal, program, uniform


def regression() -> tuple[Any, Any, Tensor, Tensor]:
    """The exact Gaussian process of gpytorch's first tutorial."""
    import gpytorch

    class Regression(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, x: Tensor, y: Tensor, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 100)
    y = torch.sin(x * (2 * torch.pi)) + normal(0, 100) * 0.2
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    return Regression(x, y, likelihood), likelihood, x, y


@program("gpytorch", "posterior mean and variance of an exact GP")
def posterior(compile: Compile) -> Built:
    import gpytorch

    model, likelihood, _, _ = regression()
    model.eval(), likelihood.eval()
    compiled = compile(model)

    @torch.no_grad()
    def call(x: Tensor) -> Any:
        with gpytorch.settings.fast_pred_var():
            prediction = likelihood(compiled(x))
        return prediction.mean, prediction.variance

    return Built(call, lambda n: {"x": uniform(n, 51)}, (model, likelihood))


@program("gpytorch", "training step: marginal likelihood of an exact GP, Adam", trains=True)
def marginal_likelihood(compile: Compile) -> Built:
    import gpytorch

    model, likelihood, x, y = regression()
    model.train(), likelihood.train()
    compiled = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def call() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = -likelihood_of(compiled(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return Built(call, no_inputs, (model, likelihood))


@program("botorch", "expected improvement of a `SingleTaskGP` at 64 candidates")
def expected_improvement(compile: Compile) -> Built:
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    x = uniform(0, 20, 2).double()
    y = 1 - (x - 0.5).norm(dim=-1, keepdim=True) + 0.1 * normal(0, 20, 1).double()
    acquisition = LogExpectedImprovement(SingleTaskGP(x, y), best_f=y.max())
    acquisition.eval()
    compiled = compile(acquisition)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": uniform(n, 64, 1, 2).double()}, ())


@program("pyro-ppl", "log density of a mixture by `pyro.distributions`")
def mixture(compile: Compile) -> Built:
    import pyro.distributions as dist

    def log_density(x: Tensor, logits: Tensor, means: Tensor, scales: Tensor) -> Tensor:
        components = dist.Normal(means, scales.exp()).to_event(1)
        return dist.MixtureSameFamily(dist.Categorical(logits=logits), components).log_prob(x)

    def inputs(n: int) -> dict[str, Tensor]:
        return {"x": normal(n, 500, 2), "logits": normal(n + 1, 5), "means": normal(2, 5, 2), "scales": normal(3, 5, 2)}

    return Built(compile(log_density), inputs)


@program("pyro-ppl", "SVI step of a linear regression with an automatic guide, encoder compiled", trains=True)
def svi(compile: Compile) -> Built:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDiagonalNormal
    from pyro.nn import PyroModule, PyroSample
    from pyro.optim import Adam

    class Regression(PyroModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = PyroModule[nn.Linear](3, 1)
            self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))
            self.linear.bias = PyroSample(dist.Normal(0.0, 10.0).expand([1]).to_event(1))

        def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
            sigma = pyro.sample("sigma", dist.Uniform(0.0, 10.0))
            mean = self.linear(x).squeeze(-1)
            with pyro.plate("data", x.shape[0]):
                pyro.sample("obs", dist.Normal(mean, sigma), obs=y)
            return mean

    pyro.clear_param_store()
    model = Regression()
    guide = AutoDiagonalNormal(model)
    step = SVI(compile(model), guide, Adam({"lr": 0.03}), loss=Trace_ELBO())

    def call(x: Tensor, y: Tensor) -> Any:
        loss = step.step(x, y)
        return torch.tensor(loss), [p.detach() for p in guide.parameters()]

    return Built(call, lambda n: {"x": normal(n, 100, 3), "y": normal(n + 1, 100)}, (model,))


@program("normflows", "RealNVP: log densities")
def real_nvp(compile: Compile) -> Built:
    import normflows as nf

    flows: list[Any] = []
    for _ in range(6):
        network = nf.nets.MLP([1, 32, 32, 2], init_zeros=False)
        flows += [nf.flows.AffineCouplingBlock(network), nf.flows.Permute(2, mode="swap")]
    model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), flows).eval()
    log_density = compile(model.log_prob)
    return Built(torch.no_grad()(lambda x: log_density(x)), lambda n: {"x": normal(n, 400, 2)}, (model,))


@program("nflows", "masked autoregressive flow: log densities")
def autoregressive_flow(compile: Compile) -> Built:
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.permutations import ReversePermutation

    steps: list[Any] = []
    for _ in range(4):
        steps += [ReversePermutation(features=4), MaskedAffineAutoregressiveTransform(features=4, hidden_features=32)]
    flow = Flow(CompositeTransform(steps), StandardNormal(shape=[4])).eval()
    log_density = compile(flow.log_prob)
    return Built(torch.no_grad()(lambda x: log_density(x)), lambda n: {"x": normal(n, 400, 4)}, (flow,))


@program("nflows", "rational quadratic spline coupling: log densities")
def spline_flow(compile: Compile) -> Built:
    from nflows.nn.nets import ResidualNet
    from nflows.transforms.coupling import PiecewiseRationalQuadraticCouplingTransform

    coupling = PiecewiseRationalQuadraticCouplingTransform(
        mask=torch.tensor([0, 1, 0, 1]),
        transform_net_create_fn=lambda i, o: ResidualNet(i, o, hidden_features=32, num_blocks=1),
        tails="linear",
        tail_bound=3.0,
    ).eval()
    compiled = compile(coupling)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": normal(n, 400, 4)}, (coupling,))
