"""Memory of outputs that the caller has freed is kept for the next ones (src/runtime/free_blocks.h)."""

from __future__ import annotations

import pytest

from tests import processes

PROGRAM = """
import resource
import torch
import vesta

COUNT, MIB = 12, 40  # outputs of a step, MiB of each output
x = torch.zeros(MIB << 18)
plus = vesta.compile(lambda x, y: x + y, options={"only_if_faster": False})  # each call is compiled code


def step() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    outputs = [plus(x, torch.tensor(float(i))) for i in range(COUNT)]
    assert all(o[0] == i and o[-1] == i for i, o in enumerate(outputs))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def lent() -> int:
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) >> 10 for line in lines if line.startswith("LazyFree:"))


step()
assert vesta.stats().pool_bytes <= 256 << 20  # no step has allocated again what an earlier one freed
step(), step()
assert vesta.stats().pool_bytes >= COUNT * MIB << 20
assert lent() >= 128, lent()  # the rest beyond 256 MiB, but for parts of huge pages
faults = [step() for _ in range(3)]
assert max(faults) < 64, faults
"""


@pytest.mark.kernels
def test_steps_of_a_loop_cause_no_page_faults() -> None:
    done = processes.run(PROGRAM)
    assert done.returncode == 0, done.stderr
