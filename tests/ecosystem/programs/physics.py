"""e3nn's equivariant layers, denoising-diffusion-pytorch's sampler."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.ecosystem.program import Built, Compile, integers, no_inputs, normal, program


@program("e3nn", "equivariant convolution: spherical harmonics, tensor product, scatter")
def convolution(compile: Compile) -> Built:
    from e3nn import o3
    from e3nn.math import soft_one_hot_linspace
    from e3nn.nn import FullyConnectedNet

    class Convolution(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.harmonics = o3.Irreps.spherical_harmonics(2)
            self.product = o3.FullyConnectedTensorProduct(
                "8x0e + 4x1o", self.harmonics, "8x0e + 4x1o", shared_weights=False
            )
            self.weights = FullyConnectedNet([10, 16, self.product.weight_numel], torch.relu)

        def forward(self, features: Tensor, positions: Tensor, source: Tensor, target: Tensor) -> Tensor:
            edge = positions[target] - positions[source]
            harmonics = o3.spherical_harmonics(self.harmonics, edge, True, normalization="component")
            radial = soft_one_hot_linspace(
                edge.norm(dim=1), 0.0, 3.0, number=10, basis="smooth_finite", cutoff=True
            ).mul(10**0.5)
            messages = self.product(features[source], harmonics, self.weights(radial))
            return messages.new_zeros(features.shape).index_add_(0, target, messages) / 4

    model = Convolution().eval()
    compiled = compile(model)

    def inputs(n: int) -> dict[str, Tensor]:
        return {
            "features": normal(n, 50, 20),
            "positions": normal(n + 1, 50, 3),
            "source": integers(n, 50, 300),
            "target": integers(n + 1, 50, 300),
        }

    return Built(torch.no_grad()(lambda **given: compiled(**given)), inputs, (model,))


def diffusion(compile: Compile) -> tuple[nn.Module, nn.Module]:
    """The network, and the process around the compiled one."""
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    network = Unet(dim=16, dim_mults=(1, 2), flash_attn=False)
    process = GaussianDiffusion(compile(network), image_size=16, timesteps=50, sampling_timesteps=4)
    return network, process


@program("denoising-diffusion-pytorch", "DDIM sampling, 4 steps, the network compiled")
def diffusion_sample(compile: Compile) -> Built:
    network, process = diffusion(compile)
    process.eval()
    return Built(lambda: process.sample(batch_size=2), no_inputs, (network, process))


@program("denoising-diffusion-pytorch", "training step, Adam", trains=True)
def diffusion_training(compile: Compile) -> Built:
    network, process = diffusion(compile)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def call(images: Tensor) -> Tensor:
        loss: Tensor = process(images)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Built(call, lambda n: {"images": normal(n, 2, 3, 16, 16).sigmoid()}, (network, process))
