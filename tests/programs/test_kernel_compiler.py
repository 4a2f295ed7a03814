"""Kernels that are too large for the memory of a compile are compiled in a process of its own, which may fail."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import vesta
from tests import processes
from tests.programs.test_compile_memory import chain
from vesta import _C

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(
        not (Path(_C.__file__).parent / "vesta_kernel_compiler").exists(), reason="a build with a sanitizer has none"
    ),
]
N = 200
FAULTS = ("kernel-compiler:crash", "kernel-compiler:memory")


def compiled(memory: int, **options: Any) -> Any:
    return vesta.compile(chain(N), options={"compile_memory": memory, "cache": False, **options})


def _captured(f: object) -> Any:
    return vesta.explain(f).explanation.captures[0]


@pytest.fixture(scope="module")
def memory() -> int:
    """A budget of which generators get less than the estimate for the kernel, and as much as it takes."""
    f = compiled(1 << 30)
    f(torch.randn(4096))
    return int(1.6 * _captured(f).graphs[0].compiled.kernel_memory)


@pytest.fixture(autouse=True)
def _no_faults() -> Iterator[None]:
    yield
    for fault in FAULTS:
        _C.spoil(fault, False)
    assert vesta.wait(timeout=60)


def test_it_makes_the_kernel(memory: int) -> None:
    x = torch.randn(4096)
    with vesta.events(True) as recorded:
        f = compiled(memory)
        torch.testing.assert_close(f(x), chain(N)(x))
    e = _captured(f)
    assert len(e.graphs) == 1 and not e.skipped
    assert any(event.detail == "compiled in a process of its own" for event in recorded)


@pytest.mark.parametrize(
    ("fault", "why"),
    [("kernel-compiler:crash", "it crashed (Aborted)"), ("kernel-compiler:memory", "it took more than these")],
)
def test_its_failure_is_a_refusal(memory: int, fault: str, why: str) -> None:
    x = torch.randn(4096)
    _C.spoil(fault)
    f = compiled(memory)
    for _ in range(2):
        torch.testing.assert_close(f(x), chain(N)(x))
    assert any(f"in a process of its own, {why}" in s.reason for s in _captured(f).skipped), vesta.explain(f)


# A process whose call does not wait, and which ends while the other one works. Ctrl-C reaches this one alone.
PROGRAM = r"""
import os, signal, sys, time
import torch, vesta
from pathlib import Path
from tests.programs.test_compile_memory import chain
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with SIGINT ignored
vesta._C.spoil("kernel-compiler:delay")
options = {"compile_memory": int(sys.argv[2]), "cache": False, "background": True}
f = vesta.compile(chain(int(sys.argv[1])), options=options)
f(torch.randn(4096))
def compilers():
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = [pid for file in children for pid in file.read_text().split()]
    return [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().startswith("vesta_kernel")]
end = time.monotonic() + 60
while not compilers() and time.monotonic() < end:
    time.sleep(0.01)
print(*compilers(), flush=True)
os.setpgid(0, 0)
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(10)
except KeyboardInterrupt:
    print(*compilers(), vesta.wait(f, timeout=0))
"""


@pytest.mark.slow
def test_it_ends_with_its_process(memory: int) -> None:
    start = time.perf_counter()
    done = processes.run(PROGRAM, str(N), str(memory), env=os.environ | {"VESTA_CACHE_DIR": ""}, timeout=120)
    assert done.returncode == 0, done.stderr
    (compiler,), (still, finished) = (line.split() for line in done.stdout.splitlines())
    assert compiler == still and finished == "False"
    assert time.perf_counter() - start < 30
    end = time.monotonic() + 10
    while Path(f"/proc/{compiler}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(f"/proc/{compiler}").exists()
