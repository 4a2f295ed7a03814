"""Compiled models in two processes: gradients are eager's, and buckets are sent while the backward pass goes on."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from tests.programs.distributed_steps import run_pair

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no process groups on CPUs"
)


@pytest.mark.parametrize("scenario", ["ddp", "sharded"])
def test_gradients_are_eagers(scenario: str) -> None:
    found = run_pair(scenario)
    assert found
    assert {name: why for name, why in found.items() if why} == {}


def test_buckets_are_sent_during_the_backward_pass() -> None:
    found = run_pair("overlap")
    assert found["eager"]["buckets"] > 2
    for kind in ("inside", "outside"):
        assert found[kind]["buckets"] == found["eager"]["buckets"]
        assert "VestaBackward" in found[kind]["later nodes"]
