"""torch._logging.set_logs and TORCH_LOGS show what Vesta does."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import vesta

x = torch.ones(3)


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((record.name.rpartition("__")[2], record.getMessage()))


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    logger = logging.getLogger("torch")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    torch._logging.set_logs()


def program(t: torch.Tensor, factor: Any) -> torch.Tensor:
    t = t * factor
    print(end="")
    return t + 1


def test_graph_breaks(kept: Kept) -> None:
    torch._logging.set_logs(graph_breaks=True)
    compiled = vesta.compile(program)
    for _ in range(3):
        compiled(x, 2)
    ((artifact, text),) = kept.records  # one record: the graph is written when it is compiled
    assert artifact == "graph_breaks"
    line = program.__code__.co_firstlineno + 2
    assert text.startswith(f"Graph break in user code at {__file__}:{line}, in program\nReason: calls print")
    assert "\nHint: " in text and text.endswith("\nName: print")


def test_recompiles(kept: Kept) -> None:
    torch._logging.set_logs(recompiles=True)
    compiled = vesta.compile(lambda t, flag: t + 1 if flag else t - 1)
    compiled(x, True)
    assert not kept.records
    compiled(x, False)
    ((artifact, text),) = kept.records
    assert artifact == "recompiles"
    assert f"{__file__}:" in text and "triggered by: flag is True" in text


def test_graph_code(kept: Kept) -> None:
    torch._logging.set_logs(graph_code=True)
    vesta.compile(lambda t: t.sin() + 1)(x)
    ((artifact, text),) = kept.records
    assert artifact == "graph_code" and "aten::sin" in text and "aten::add" in text


def test_operators_of_a_pass_have_the_lines_of_the_program(kept: Kept) -> None:
    def loss(t: torch.Tensor) -> torch.Tensor:
        y = t.exp()
        return y.sin().sum()

    def step(t: torch.Tensor) -> torch.Tensor:
        y = loss(t)
        y.backward()
        return y

    torch._logging.set_logs(graph_code=True)
    first = loss.__code__.co_firstlineno
    for called in (loss, step):  # the pass runs later, or inside of the function
        vesta.compile(called)(x.clone().requires_grad_())
        _, text = kept.records.pop()
        assert f"ExpBackward0, {__file__}:{first + 1}" in text
        assert f"SinBackward0, {__file__}:{first + 2}" in text
        assert f"SumBackward0, {__file__}:{first + 2}" in text


def test_nothing_is_written_by_default(kept: Kept) -> None:
    compiled = vesta.compile(program)
    for factor in (2, 2.5, True):
        compiled(x, factor)
    assert not kept.records


def test_a_handler_that_raises_costs_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(record: logging.LogRecord) -> None:
        raise ValueError("broken on purpose")

    torch._logging.set_logs(graph_breaks=True)
    monkeypatch.setattr(kept, "handle", broken)
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    assert torch.equal(vesta.compile(program)(x, 2), x * 2 + 1)
    assert [str(t.exc_value) for t in told] == ["broken on purpose"]


def test_the_environment(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, vesta\ndef f(x):\n    x = x + 1\n    print(end='')\n    return x\n"
        "vesta.compile(f)(torch.ones(2))\n"
    )
    environment = {**os.environ, "TORCH_LOGS": "graph_breaks,recompiles,graph_code"}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
    assert "[__graph_breaks] Graph break in user code at" in done.stderr
    assert "[__graph_code] Traced graph" in done.stderr
