"""Image models of timm."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn

from tests.programs.zoo.entry import entry, normal


def image(name: str, model: str, size: int = 64, tests: tuple[str, ...] = (), **options: Any) -> None:
    """One of timm's models, with `options` that make it smaller."""

    def build() -> nn.Module:
        torch.manual_seed(0)
        made = importlib.import_module("timm").create_model(model, pretrained=False, num_classes=10, **options)
        return made.eval()  # type: ignore[no-any-return]

    entry(name, build, lambda seed, size: {"x": normal(seed, 2, 3, size, size)}, (size,), tests)


# ---- convolutions ----------------------------------------------------------------------------------------------------
image("resnet50", "resnet50", tests=("inference",))
image("resnet_small", "resnet50", 32, ("training",), layers=(1, 1, 1, 1))
image("mobilenetv3", "mobilenetv3_large_100", tests=("inference",), drop_rate=0.0)
image("mobilenetv3_small", "mobilenetv3_small_050", 64, ("training",), drop_rate=0.0)
image("convnext", "convnext_atto", tests=("inference",))
image("convnext_small", "convnext_atto", 32, ("training",), depths=(1, 1, 1, 1))
image("efficientnet", "efficientnet_b0", tests=("inference",), drop_rate=0.0)
image("efficientnet_lite", "efficientnet_lite0", 32, drop_rate=0.0)
image("regnet", "regnety_002")
image("densenet", "densenet121", memory_efficient=False)
image("vgg", "vgg11_bn", 32)
image("ghostnet", "ghostnet_050", drop_rate=0.0)
image("hrnet", "hrnet_w18_small")
image("dla", "dla46_c")
image("dpn", "dpn48b")
image("inception", "inception_v3", 96, aux_logits=False)
image("inception_next", "inception_next_atto")
image("res2net", "res2net50_14w_8s", layers=(1, 1, 1, 1))
image("resnest", "resnest14d")
image("resnetv2", "resnetv2_18")
image("nfnet", "nf_regnet_b1", drop_rate=0.0)
image("rexnet", "rexnet_100", drop_rate=0.0)
image("selecsls", "selecsls42b")
image("sknet", "skresnet18")
image("xception", "xception41p")
image("vovnet", "ese_vovnet19b_slim_dw")
image("cspnet", "cspresnet50")
image("convmixer", "convmixer_768_32")
image("fasternet", "fasternet_t0")
image("hgnet", "hgnetv2_b0")
image("starnet", "starnet_s050")
image("repvit", "repvit_m0_9")
image("repghost", "repghostnet_050", drop_rate=0.0)
image("seresnet", "seresnet50", layers=(1, 1, 1, 1))
image("gcresnet", "gcresnet33ts")
image("mambaout", "mambaout_femto", depths=(1, 1, 2, 1))
image("rdnet", "rdnet_tiny", 64)
image("tresnet", "tresnet_m")
image("focalnet", "focalnet_tiny_srf")

# ---- attention -------------------------------------------------------------------------------------------------------
image(
    "swin",
    "swin_tiny_patch4_window7_224",
    56,
    ("inference",),
    img_size=56,
    depths=(1, 1, 2, 1),
)
image("swinv2", "swinv2_tiny_window8_256", img_size=64, depths=(1, 1, 2, 1), window_size=4)
image("swin_cr", "swinv2_cr_tiny_224", 64, img_size=64, depths=(1, 1, 1, 1), window_size=2)
image("vit_timm", "vit_tiny_patch16_224", img_size=64)
image("vit_relpos", "vit_relpos_small_patch16_224", img_size=64, depth=2)
image("vit_hybrid", "vit_tiny_r_s16_p8_224", img_size=64, depth=2)
image("deit", "deit_tiny_distilled_patch16_224", img_size=64, depth=2)
image("deit3", "deit3_small_patch16_224", img_size=64, depth=2)
image("beit_timm", "beit_base_patch16_224", img_size=64, depth=2, embed_dim=96, num_heads=4)
image("eva02", "eva02_tiny_patch14_224", 56, img_size=56, depth=2)
image("cait", "cait_xxs24_224", img_size=64, depth=2)
image("xcit", "xcit_nano_12_p16_224", img_size=64, depth=2)
image("maxvit", "maxvit_rmlp_pico_rw_256", img_size=64, depths=(1, 1, 1, 1))
image("coatnet", "coatnet_nano_rw_224", img_size=64, depths=(1, 1, 2, 1))
image("coat", "coat_lite_tiny", img_size=64)
image("convit", "convit_tiny", img_size=64, depth=2, local_up_to_layer=1)
image("crossvit", "crossvit_9_240", 240)
image("davit", "davit_tiny", depths=(1, 1, 1, 1))
image("edgenext", "edgenext_xx_small")
image("efficientformer", "efficientformer_l1", 224, depths=(1, 1, 1, 1))
image("efficientformerv2", "efficientformerv2_s0", 224)
image("efficientvit_mit", "efficientvit_b0")
image("efficientvit_msra", "efficientvit_m0", 224)
image("efficientvim", "efficientvim_m1", 64)
image("fastvit", "fastvit_t8")
image("gcvit", "gcvit_xxtiny", 224)
image("hiera", "hiera_tiny_224", 224, stages=(1, 1, 1, 1))
image("levit", "levit_128s", 224, depth=(1, 1, 1))
image("mixer", "mixer_s16_224", img_size=64)
image("gmlp", "gmlp_ti16_224", img_size=64)
image("resmlp", "resmlp_12_224", img_size=64)
image("mobilevit", "mobilevit_xxs")
image("mobilevitv2", "mobilevitv2_050")
image("mvit", "mvitv2_tiny", 224)
image("nest", "nest_tiny", 64, img_size=64)
image("nextvit", "nextvit_small")
image("pit", "pit_ti_224", 224, depth=(1, 1, 1))
image("poolformer", "poolformer_s12")
image("caformer", "caformer_s18")
image("pvt", "pvt_v2_b0", depths=(1, 1, 1, 1))
image("sequencer", "sequencer2d_s", 64, img_size=64, layers=(1, 1, 1, 1))
image("shvit", "shvit_s1")
image("swiftformer", "swiftformer_xs")
image("tiny_vit", "tiny_vit_5m_224", 224)
image("tnt", "tnt_s_patch16_224", 64, img_size=64, depth=2)
image("twins", "twins_svt_small", 64, img_size=64, depths=(1, 1, 1, 1))
image("visformer", "visformer_tiny", 224)
image("volo", "volo_d1_224", 64, img_size=64)
image("samvit", "samvit_base_patch16", 64, img_size=64, depth=2, embed_dim=48, num_heads=4)
