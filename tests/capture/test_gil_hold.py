"""The GIL hold, on and off: no other thread sees what a trace writes, and the program gets eager's results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import vesta

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")

# Writes to a list and an attribute between operators, while another thread looks whether a write is ever taken back.
_PROGRAM = """
import json, sys, threading
import torch, vesta

sys.setswitchinterval(1e-6)

class State:
    pass

state, steps = State(), []
state.seen = 0

def f(x):
    y = x.sin()
    steps.append(len(steps))
    state.seen = state.seen + 1
    for _ in range({operators}):
        y = y + 1
    return y * len(steps)

taken_back, done = [], threading.Event()

def watch():
    most = 0
    while not done.is_set():
        now = len(steps) + state.seen
        if now < most:
            taken_back.append((most, now))
        most = max(most, now)

watcher = threading.Thread(target=watch)
watcher.start()
x = torch.ones(3)
expected = [(x.sin() + {operators}) * n for n in (1, 2)]
explained = vesta.explain(f)
results = [explained.compiled(x) for _ in range(2)]
done.set()
watcher.join()
(capture,) = explained.explanation.captures
print(json.dumps({{
    "right": all(torch.allclose(a, b) for a, b in zip(results, expected)),
    "steps": steps,
    "seen": state.seen,
    "taken back": taken_back,
    "breaks": sorted({{b.name for b in capture.breaks}}),
    "graphs": len(explained.explanation.graphs),
}}))
"""


def outcome(hold: str | None, operators: int = 200) -> tuple[dict[str, Any], str]:
    environment = {**os.environ, "VESTA_LOG": "fallbacks"}
    environment.pop("VESTA_GIL_HOLD", None)
    if hold is not None:
        environment["VESTA_GIL_HOLD"] = hold
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(operators=operators)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(run.stdout), run.stderr


def test_on() -> None:
    """The hold leaves the writes to the end of the graph."""
    found, log = outcome(None, operators=2000)
    assert found["right"] and found["steps"] == [0, 1] and found["seen"] == 2
    assert found["breaks"] == []
    assert found["taken back"] == []
    assert "release the GIL" not in log


def test_off() -> None:
    """The trace stops before the operator that follows the writes, and says why."""
    found, log = outcome("0")
    assert found["right"] and found["steps"] == [0, 1] and found["seen"] == 2
    assert "operator-after-write" in found["breaks"]
    assert found["taken back"] == []
    (line,) = [line for line in log.splitlines() if "release the GIL" in line]
    assert "VESTA_GIL_HOLD=0 is set" in line


def test_off_without_writes_is_one_graph() -> None:
    """Operators before the writes, and writes to new objects, break nothing."""
    program = """
import torch, vesta
log = []
def f(x):
    new = []
    for i in range(3):
        new.append(x + i)
    y = torch.stack(new).sum()
    log.append(1)
    return y
e = vesta.explain(f)
assert e.compiled(torch.ones(2)) == 12 and log == [1]
(capture,) = e.explanation.captures
assert not capture.breaks and len(e.explanation.graphs) == 1, capture
"""
    environment = {**os.environ, "VESTA_GIL_HOLD": "0"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
