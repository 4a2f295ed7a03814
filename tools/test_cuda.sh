#!/usr/bin/env bash
# The tests that need a GPU: see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    cat <<'EOF'
usage: tools/test_cuda.sh [arguments of python -m tests.cuda]

Programs, traps (allocators, captures, streams, threads) and samples of operators on the GPU of this machine, compared
with eager. Writes docs/cuda-results.md. Fails if a test fails or there is no GPU.

environment:
  PYTHON  interpreter that has a CUDA build of PyTorch and Vesta  (default: .venv/bin/python)
EOF
    exit 0
    ;;
esac

PYTHON=${PYTHON:-.venv/bin/python}
# No cache: entries of an earlier build would hide errors of this one.
VESTA_CACHE_DIR='' "$PYTHON" -m tests.cuda --write docs/cuda-results.md "$@"
