"""Makes the entry points of PyTorch's own compilers raise: Vesta compiles programs and their gradients by itself."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from unittest import mock

__all__ = ["ENTRY_POINTS", "forbidden"]

ENTRY_POINTS = (
    "torch._functorch.aot_autograd.aot_function",
    "torch._functorch.aot_autograd.aot_module",
    "torch._functorch.aot_autograd.aot_module_simplified",
    "torch._functorch.aot_autograd.create_aot_state",
    "torch._functorch.aot_autograd.aot_stage1_graph_capture",
    "torch.fx.experimental.proxy_tensor.make_fx",
    "torch._dynamo.convert_frame._compile",
)


@contextlib.contextmanager
def forbidden() -> Iterator[list[str]]:
    """Gives the list of the entry points that were called. A call raises, which Vesta may answer by an eager call."""
    called: list[str] = []

    def refuse(name: str) -> object:
        def raising(*_args: object, **_kwargs: object) -> None:
            called.append(name)
            raise AssertionError(f"{name} is called")

        return raising

    with contextlib.ExitStack() as stack:
        for name in ENTRY_POINTS:
            module, _, attribute = name.rpartition(".")
            stack.enter_context(mock.patch.object(importlib.import_module(module), attribute, refuse(name)))
        yield called
