"""diffusers: pipelines whose denoiser is compiled, its transformers and its autoencoder."""

from __future__ import annotations

import torch

from tests.ecosystem.program import Built, Compile, integers, no_inputs, normal, program


@program("diffusers", "`DDIMPipeline`, `pipe.unet` compiled, 4 steps")
def ddim(compile: Compile) -> Built:
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    unet = UNet2DModel(
        sample_size=32,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).eval()
    pipe = DDIMPipeline(unet=unet, scheduler=DDIMScheduler(num_train_timesteps=100))
    pipe.set_progress_bar_config(disable=True)
    pipe.unet = compile(pipe.unet)

    def call() -> torch.Tensor:
        image = pipe(batch_size=1, num_inference_steps=4, output_type="np").images
        return torch.from_numpy(image)

    return Built(call, no_inputs, (unet,))


@program("diffusers", "`StableDiffusionPipeline` with guidance, `pipe.unet` and the VAE's decoder compiled, 4 steps")
def stable_diffusion(compile: Compile) -> Built:
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel

    unet = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
    ).eval()
    vae = AutoencoderKL(block_out_channels=(32, 32), latent_channels=4, norm_num_groups=8).eval()
    pipe = StableDiffusionPipeline(
        vae=vae,
        text_encoder=None,
        tokenizer=None,
        unet=unet,
        scheduler=DDIMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    pipe.unet = compile(pipe.unet)
    pipe.vae.decoder = compile(pipe.vae.decoder)

    def call(prompt_embeds: torch.Tensor, negative_prompt_embeds: torch.Tensor) -> torch.Tensor:
        return pipe(
            prompt_embeds=prompt_embeds,
            negative_prompt_embeds=negative_prompt_embeds,
            num_inference_steps=4,
            guidance_scale=7.5,
            output_type="pt",
        ).images

    def inputs(n: int) -> dict[str, torch.Tensor]:
        return {"prompt_embeds": normal(n, 1, 16, 32), "negative_prompt_embeds": normal(n + 1, 1, 16, 32)}

    return Built(call, inputs, (unet, vae))


@program("diffusers", "`FluxTransformer2DModel`")
def flux(compile: Compile) -> Built:
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        in_channels=16,
        num_layers=1,
        num_single_layers=2,
        attention_head_dim=32,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(8, 12, 12),
        guidance_embeds=True,
    ).eval()
    compiled = compile(model)

    @torch.no_grad()
    def call(**inputs: torch.Tensor) -> torch.Tensor:
        return compiled(**inputs, return_dict=False)[0]

    def inputs(n: int) -> dict[str, torch.Tensor]:
        return {
            "hidden_states": normal(n, 1, 64, 16),
            "encoder_hidden_states": normal(n + 1, 1, 24, 32),
            "pooled_projections": normal(n + 2, 1, 32),
            "timestep": torch.tensor([0.9 - 0.1 * n]),
            "img_ids": integers(n, 8, 64, 3).float(),
            "txt_ids": torch.zeros(24, 3),
            "guidance": torch.tensor([3.5]),
        }

    return Built(call, inputs, (model,))


@program("diffusers", "a UNet's training step: noise added by the scheduler, AdamW", trains=True)
def training_step(compile: Compile) -> Built:
    from diffusers import DDPMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=32,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    compiled = compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def call(clean: torch.Tensor, noise: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        noisy = scheduler.add_noise(clean, noise, timesteps)
        loss = torch.nn.functional.mse_loss(compiled(noisy, timesteps, return_dict=False)[0], noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def inputs(n: int) -> dict[str, torch.Tensor]:
        return {
            "clean": normal(n, 2, 3, 32, 32),
            "noise": normal(n + 1, 2, 3, 32, 32),
            "timesteps": integers(n, 1000, 2),
        }

    return Built(call, inputs, (model,))
