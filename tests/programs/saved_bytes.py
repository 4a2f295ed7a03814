"""How many bytes autograd's nodes hold between the forward and the backward pass of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch


def saved_bytes(call: Callable[[], torch.Tensor], alive: Iterable[torch.Tensor]) -> int:
    """Of distinct storages, without those of ``alive`` and of the result."""
    saved: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        saved.append(t.detach())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = call()
    known = {t.untyped_storage().data_ptr() for t in (*alive, result)}
    held: dict[int, int] = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
    return sum(n for place, n in held.items() if place not in known)


def gradients(loss: torch.Tensor, *of: Any) -> list[torch.Tensor | None]:
    """Those of modules' parameters and of tensors, which have none before and after."""
    loss.backward()
    leaves = [p for x in of for p in (x.parameters() if isinstance(x, torch.nn.Module) else [x])]
    found = [p.grad for p in leaves]
    for p in leaves:
        p.grad = None
    return found
