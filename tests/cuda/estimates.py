"""vesta.estimate for a GPU: more of traps.TRAPS."""

from __future__ import annotations

import time

import torch
from torch import nn

from tests.cuda.traps import alone, trap


class Stack(nn.Module):
    """Layers as those of transformers have, without attention."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


@trap
@alone
def an_estimate_is_near_what_a_call_takes() -> None:
    import vesta

    model = Stack(1024, 6).eval().cuda().bfloat16()
    x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)
    estimated = vesta.estimate(model, x)
    assert not estimated.eager and estimated.kernels and estimated.calls, estimated
    measuring = torch.cuda.memory_allocated() - estimated.parameter_bytes - estimated.input_bytes  # left by it
    compiled = vesta.compile(model)
    with torch.no_grad():
        for _ in range(4):
            compiled(x)
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(20):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(1_000_000)
            begin.record()
            compiled(x)
            end.record()
            torch.cuda.synchronize()
            times.append(1e3 * begin.elapsed_time(end))
    took, peak = sorted(times)[len(times) // 2], torch.cuda.max_memory_allocated() - measuring
    assert 0.9 < estimated.peak_bytes / peak < 1.1, (estimated.peak_bytes, peak)
    assert 0.5 < estimated.call_us / took < 2, (estimated.call_us, took)  # other processes use the GPU, too


@trap
def a_model_larger_than_the_gpu_is_estimated() -> None:
    import vesta

    with torch.device("meta"):
        model = Stack(16384, 80).eval().bfloat16()
        x = torch.empty(1, 128, 16384, dtype=torch.bfloat16)
    before, start = torch.cuda.memory_allocated(), time.perf_counter()
    estimated = vesta.estimate(model, x, device="cuda")
    assert time.perf_counter() - start < 30  # ten where nothing else computes
    assert estimated.parameter_bytes > 300 << 30 and estimated.peak_bytes > estimated.parameter_bytes
    assert torch.cuda.memory_allocated() - before < 256 << 20  # workspaces of libraries
    assert all(p.is_meta for p in model.parameters())
