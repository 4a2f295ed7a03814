"""Encoders with decoders: segmentation-models-pytorch, MONAI; timm and torchvision's transforms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.ecosystem.program import Built, Compile, normal, program, uniform


def inference(compile: Compile, model: Any, *size: int) -> Built:
    model = model.eval()
    compiled = compile(model)
    return Built(torch.no_grad()(lambda x: compiled(x)), lambda n: {"x": normal(n, *size)}, (model,))


@program("segmentation-models-pytorch", "`Unet` on a ResNet-18")
def smp_unet(compile: Compile) -> Built:
    import segmentation_models_pytorch as smp

    return inference(compile, smp.Unet("resnet18", encoder_weights=None, classes=3), 1, 3, 96, 96)


@program("segmentation-models-pytorch", "`DeepLabV3Plus` on a MobileNetV2")
def smp_deeplab(compile: Compile) -> Built:
    import segmentation_models_pytorch as smp

    return inference(compile, smp.DeepLabV3Plus("mobilenet_v2", encoder_weights=None, classes=3), 1, 3, 96, 96)


@program("segmentation-models-pytorch", "`FPN` training step: Dice loss, Adam", trains=True)
def smp_training(compile: Compile) -> Built:
    import segmentation_models_pytorch as smp

    model = smp.FPN("resnet18", encoder_weights=None, classes=1, decoder_dropout=0.0)
    compiled = compile(model)
    loss_of = smp.losses.DiceLoss(smp.losses.BINARY_MODE, from_logits=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def call(x: Tensor, mask: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = loss_of(compiled(x), mask)
        loss.backward()
        optimizer.step()
        return loss

    def inputs(n: int) -> dict[str, Tensor]:
        return {"x": normal(n, 2, 3, 64, 64), "mask": (uniform(n, 2, 1, 64, 64) > 0.7).float()}

    return Built(call, inputs, (model,))


@program("monai", "3D `UNet` in `sliding_window_inference`")
def monai_sliding_window(compile: Compile) -> Built:
    from monai.inferers import sliding_window_inference
    from monai.networks.nets import UNet

    model = UNet(
        spatial_dims=3, in_channels=1, out_channels=2, channels=(8, 16, 32), strides=(2, 2), num_res_units=1
    ).eval()
    compiled = compile(model)

    @torch.no_grad()
    def call(volume: Tensor) -> Tensor:
        return sliding_window_inference(volume, (32, 32, 32), 4, compiled, overlap=0.25)

    return Built(call, lambda n: {"volume": normal(n, 1, 1, 48, 48, 48)}, (model,))


@program("monai", "`SwinUNETR`")
def monai_swin(compile: Compile) -> Built:
    from monai.networks.nets import SwinUNETR

    model = SwinUNETR(in_channels=1, out_channels=2, feature_size=12, spatial_dims=2)
    return inference(compile, model, 1, 1, 64, 64)


@program("monai", "`DiceCELoss` and Dice metric on labels")
def monai_losses(compile: Compile) -> Built:
    from monai.losses import DiceCELoss
    from monai.metrics.meandice import compute_dice
    from monai.networks.utils import one_hot

    loss_of = DiceCELoss(to_onehot_y=True, softmax=True)

    def measured(logits: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        predicted = one_hot(logits.argmax(1, keepdim=True), num_classes=3)
        return loss_of(logits, label), compute_dice(predicted, one_hot(label, num_classes=3))

    def inputs(n: int) -> dict[str, Tensor]:
        return {"logits": normal(n, 2, 3, 64, 64), "label": (3 * uniform(n, 2, 1, 64, 64)).floor()}

    return Built(compile(measured), inputs)


@program("timm", "features of an EfficientNet at four scales")
def timm_features(compile: Compile) -> Built:
    import timm

    return inference(compile, timm.create_model("efficientnet_b0", features_only=True), 1, 3, 96, 96)


@program("timm", "Vision Transformer, embeddings by `forward_features` and `forward_head`")
def timm_embeddings(compile: Compile) -> Built:
    import timm

    model = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=0).eval()

    @compile
    def embed(x: Tensor) -> Tensor:
        features = model.forward_features(x)
        return model.forward_head(features, pre_logits=True)

    return Built(torch.no_grad()(lambda x: embed(x)), lambda n: {"x": normal(n, 2, 3, 64, 64)}, (model,))


@program("torchvision", "`transforms.v2`: resize, crop, flip, normalise on a batch")
def torchvision_transforms(compile: Compile) -> Built:
    from tests.programs.torchvision_operators import declare_torchvision_operators

    declare_torchvision_operators()
    from torchvision.transforms import v2

    chain = v2.Compose(
        [
            v2.Resize((72, 72), antialias=True),
            v2.CenterCrop(64),
            v2.RandomHorizontalFlip(1.0),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    compiled = compile(chain)

    def inputs(n: int) -> dict[str, Tensor]:
        return {"x": (256 * uniform(n, 4, 3, 96, 96)).to(torch.uint8)}

    return Built(lambda x: compiled(x), inputs)
