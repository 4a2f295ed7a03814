"""Tests that need a GPU: `tools/test_cuda.sh` runs them all and writes docs/cuda-results.md."""

import os

# Calls wait for compiles: these tests compare what is compiled. The traps of deadlines set their own.
os.environ.setdefault("VESTA_DEADLINE_MS", "-1")
