"""Ctrl-C interrupts a wait for a compile. The compile goes on in the background."""

from __future__ import annotations

import os

import pytest

from tests import processes

# A stage of the compile takes 20 s. Ctrl-C comes while the program waits for it.
PROGRAM = """
import os, signal, sys, threading, time, torch, vesta
stage, what = sys.argv[1:]
x = torch.randn(16, 64)
def f(x):
    calls.append(len(calls))
    return (x.sin() * 2).softmax(-1)
calls = []
options = {"deadline_ms": -1, "background": what in ("wait", "wait for all")}
compiled = vesta.compile(f, options=options, fullgraph=what == "fullgraph")
directly = vesta.trace_and_compile(lambda x: x.cos(), **options)
waits = {
    "call": lambda: compiled(x),
    "fullgraph": lambda: compiled(x),
    "direct": lambda: directly(x),
    "warm": lambda: vesta.warm(compiled, [x]),
    "wait": lambda: (compiled(x), vesta.wait(compiled)),
    "wait for all": lambda: (compiled(x), vesta.wait()),
}
vesta._C.inject_fault(stage, "delay", 20)
start = time.monotonic()
def interrupt():
    time.sleep(0.3)
    if what.startswith("wait"):
        os.kill(os.getpid(), signal.SIGUSR1)  # its handler raises nothing: the wait goes on
        time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
handled = []
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with SIGINT ignored
signal.signal(signal.SIGUSR1, lambda *_: handled.append(time.monotonic() - start))
threading.Thread(target=interrupt, daemon=True).start()
try:
    waits[what]()
    raise AssertionError("it was not interrupted")
except KeyboardInterrupt:
    took = time.monotonic() - start
assert 0.2 < took < 6 and len(handled) == what.startswith("wait"), (took, handled)
vesta._C.inject_fault(stage, "none")
if what == "call":
    assert calls == []  # the program did not run
    torch.testing.assert_close(compiled(x), (x.sin() * 2).softmax(-1))
print("interrupted")
"""


@pytest.mark.parametrize(
    ("stage", "what"),
    [
        ("codegen", "call"),
        *(("plan", what) for what in ("call", "fullgraph", "direct", "warm", "wait", "wait for all")),
    ],
)
def test_waits_end(stage: str, what: str) -> None:
    done = processes.run(PROGRAM, stage, what, env=os.environ | {"VESTA_CACHE_DIR": ""}, timeout=18)
    assert done.returncode == 0 and done.stdout.split() == ["interrupted"], done.stderr
