"""Kernels for GPUs of a few models and random programs; of all by `python -m tests.programs.cuda_kernels --all --random
500`. No GPU is needed."""

from __future__ import annotations

import pytest

from tests.programs.cuda_kernels import Task, run

TASKS = [
    Task("bert", schedules=12),
    Task("bert", "bfloat16"),
    Task("llama"),
    Task("llama", "bfloat16", schedules=6),
    Task("gpt2", "float16"),
    Task("t5"),
    Task("vit"),
    Task("swin"),
    Task("convnext_small"),
    Task("resnet_small"),
    Task("unet", "bfloat16"),
    Task("denoiser"),
    Task("graph_net"),
    Task("llama", training=True),
    Task("resnet_small", training=True),
    Task(seed=400),
]
LONG = [Task("losses", schedules=12), Task(seed=0, schedules=4)]


@pytest.mark.parametrize("task", [*TASKS, *(pytest.param(task, marks=pytest.mark.slow) for task in LONG)], ids=str)
def test_kernels_of(task: Task) -> None:
    (verdict,) = run([task])
    assert not verdict.failure, verdict.failure
    assert verdict.graphs > 0
