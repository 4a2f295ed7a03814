"""Backward passes are compiled: fused kernels compute them, and only products and their like are calls into ATen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import vesta
from tests.programs.zoo import ZOO

pytestmark = pytest.mark.kernels

# What libraries compute, and the scattered sums of pooling.
LIBRARY_CALLS = {
    "linear",
    "convolution_backward",
    "max_pool2d_with_indices_backward",
}


def loss_of(result: Any) -> torch.Tensor:
    leaves = [t for t in pytree.tree_leaves(result if isinstance(result, torch.Tensor) else dict(result))]
    return sum((t.float().square().mean() for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad), start=0)


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "vit", "resnet_small"])
def test_kernels_compute_the_backward_pass(name: str) -> None:
    entry = ZOO[name]
    module = entry.build().train()
    compiled = vesta.compile(module)
    loss_of(compiled(**entry.inputs(0, entry.lengths[0]))).backward()
    assert all(p.grad is not None for p in module.parameters() if p.requires_grad) or name == "bert"
    graphs = vesta.explain(compiled).explanation.graphs
    halves = [half for graph in graphs for half in graph.backward]
    assert halves and not any(graph.backward_failures for graph in graphs)
    calls = {e.op.removeprefix("aten::").partition(".")[0] for half in halves for e in half.externs}
    assert calls <= LIBRARY_CALLS
    fused = [op for half in halves for kernel in half.kernels for op in kernel.ops]
    assert len(fused) > 10
