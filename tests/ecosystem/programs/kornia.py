"""kornia: image operators on batches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.ecosystem.program import Built, Compile, program, uniform


def image(n: int) -> dict[str, Tensor]:
    return {"x": uniform(n, 2, 3, 96, 128)}


@program("kornia", "blur, colour space, Sobel edges, rotation")
def filters(compile: Compile) -> Built:
    import kornia as K

    def chain(x: Tensor) -> Tensor:
        y = K.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5))
        y = K.color.rgb_to_hsv(y)
        y = K.color.hsv_to_rgb(y)
        e = K.filters.sobel(K.color.rgb_to_grayscale(y))
        return K.geometry.transform.rotate(y * e, torch.tensor([30.0, -15.0]))

    return Built(compile(chain), image)


@program("kornia", "augmentations: flip, affine, colour jitter")
def augmentations(compile: Compile) -> Built:
    import kornia.augmentation as A

    model = nn.Sequential(
        A.RandomHorizontalFlip(p=0.5), A.RandomAffine(degrees=20.0, p=1.0), A.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0)
    )
    compiled = compile(model)
    return Built(lambda x: compiled(x), image)


@program("kornia", "Harris corners and non-maximum suppression")
def corners(compile: Compile) -> Built:
    import kornia as K

    def detect(x: Tensor) -> Tensor:
        response = K.feature.harris_response(K.color.rgb_to_grayscale(x), k=0.04)
        return K.geometry.subpix.nms2d(response, (5, 5))

    return Built(compile(detect), image)


@program("kornia", "warp by homographies found from four points")
def homography(compile: Compile) -> Built:
    import kornia.geometry as KG

    def warp(x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        matrix = KG.transform.get_perspective_transform(source, target)
        return KG.transform.warp_perspective(x, matrix, dsize=(64, 64))

    corners = torch.tensor([[0.0, 0.0], [127.0, 0.0], [127.0, 95.0], [0.0, 95.0]]).expand(2, 4, 2)

    def inputs(n: int) -> dict[str, Tensor]:
        return {**image(n), "source": corners + 10 * uniform(n, 2, 4, 2), "target": corners / 2}

    return Built(compile(warp), inputs)


@program("kornia", "losses: SSIM, total variation, PSNR")
def losses(compile: Compile) -> Built:
    import kornia.losses as L

    def total(x: Tensor, y: Tensor) -> Tensor:
        return L.ssim_loss(x, y, 5) + L.total_variation(x).mean() + L.psnr_loss(x, y, 1.0)

    return Built(compile(total), lambda n: {**image(n), "y": image(n + 1)["x"]})
