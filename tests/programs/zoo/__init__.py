"""Small randomly initialised models of many families, with inputs of a given size. One row a model."""

from tests.programs.torchvision_operators import declare_torchvision_operators

declare_torchvision_operators()  # transformers and timm both import torchvision

from tests.programs.zoo import images, language, modules, multimodal  # noqa: E402, F401
from tests.programs.zoo.entry import ZOO, Entry  # noqa: E402

__all__ = ["ZOO", "Entry"]
