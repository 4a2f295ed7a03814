"""A few models of each family under `vesta.compile`; all of them by `python -m tests.capture.sweep_models`."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch

import vesta
from tests.capture.sweep_models import run_row
from tests.programs.zoo import ZOO
from vesta.explain import captured_of
from vesta.explain_capture import explain_captured

WHOLE = ("llama", "gpt2", "bert", "t5", "mixtral", "mamba", "vit", "clip", "resnet_small", "convnext_small", "lstm")
BROKEN = {"xlm": "needs the value of a tensor"}  # asks for a number in the middle


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", WHOLE)
def test_model_is_one_graph(name: str) -> None:
    row = run_row(name)
    assert not row.failure, row.failure
    assert not row.recompiles
    assert row.whole, row.stops


@pytest.mark.parametrize("name", BROKEN)
def test_model_with_a_break(name: str) -> None:
    row = run_row(name)
    assert not row.failure, row.failure
    assert not row.recompiles
    assert {s.reason for s in row.stops if BROKEN[name] not in s.reason} <= {
        "advances or reads an iterator that was made outside of the compiled function"
    }
    assert row.graphs > 1


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_generation_with_a_growing_cache(name: str) -> None:
    module: Any = ZOO[name].build()
    for config in (module.config, module.generation_config):
        config.use_cache = True
    inputs = ZOO[name].inputs(0, 8)
    compiled: Any = vesta.compile(copy.deepcopy(module))
    options = {"max_new_tokens": 16, "do_sample": False}
    with torch.no_grad():
        assert torch.equal(compiled.generate(**inputs, **options), module.generate(**inputs, **options))
        captured = captured_of(compiled)
        assert captured is not None
        first = explain_captured(captured)
        assert torch.equal(compiled.generate(**inputs, **options), module.generate(**inputs, **options))
    again = explain_captured(captured)
    assert not first.breaks
    # The prompt, the first step with a filled cache, and all others: its length is symbolic from the second length on.
    assert len(first.graphs) <= 4
    assert len(again.graphs) == len(first.graphs)
