"""torch.autograd.set_detect_anomaly: a compiled function runs eager, so that errors name eager's operator and line."""

from __future__ import annotations

import warnings

import pytest
import torch

import vesta


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(x * 0 - 1).sum()


def test_the_error_and_the_line_are_eagers() -> None:
    compiled = vesta.compile(program)
    compiled(torch.ones(3, requires_grad=True)).backward()
    with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values"):
            compiled(torch.ones(3, requires_grad=True)).backward()
    assert any("return torch.sqrt(x * 0 - 1).sum()" in str(w.message) for w in told)
    fallbacks = vesta.explain(compiled).explanation.fallbacks
    assert any("set_detect_anomaly" in f.reason for f in fallbacks)


def test_calls_after_it_are_compiled_again() -> None:
    compiled = vesta.compile(program, options={"only_if_faster": False})
    x = torch.ones(3)
    compiled(x)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        compiled(x)
    compiled(x)
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert graph.hits == 2
