"""Compiled models in two processes: gradients are eager's, and buckets are sent while the backward pass goes on."""

from __future__ import annotations

from typing import Any

import pytest
import torch.distributed as dist

from tests.programs.distributed_steps import run_pair

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no process groups on CPUs"
)


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    return run_pair()


@pytest.mark.parametrize("scenario", ["ddp", "sharded"])
def test_gradients_are_eagers(found: dict[str, dict[str, Any]], scenario: str) -> None:
    assert found[scenario]
    assert {name: why for name, why in found[scenario].items() if why} == {}


def test_buckets_are_sent_during_the_backward_pass(found: dict[str, dict[str, Any]]) -> None:
    told = found["overlap"]
    assert told["eager"]["buckets"] > 2
    for kind in ("inside", "outside"):
        assert told[kind]["buckets"] == told["eager"]["buckets"]
        assert "VestaBackward" in told[kind]["later nodes"]
