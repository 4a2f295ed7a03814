"""Tests that need a GPU: `tools/test_cuda.sh` runs them all and writes docs/cuda-results.md."""
