#!/usr/bin/env bash
# The tests of one build, C++ first: see --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    cat <<'EOF'
usage: tools/run_tests.sh [pytest arguments]

Runs the unit tests (ctest) of $BUILD and then the Python tests with $VENV. Fails when either fails; both always run.

environment:
  BUILD  build folder         (default: build/release)
  VENV   virtual environment  (default: .venv)
EOF
    exit 0
    ;;
esac

BUILD=${BUILD:-build/release}
VENV=${VENV:-.venv}
failed=0
started=$SECONDS

echo "== unit tests"
ctest --test-dir "$BUILD" --output-on-failure --no-tests=error --timeout 300 || failed=1

echo "== Python tests"
# The build under test is imported, whatever the environment contains.
PYTHONPATH="$PWD/$BUILD/python:$PWD" VESTA_BUILD="$BUILD" "$VENV/bin/python" -m pytest -v --durations=12 -m "not slow" "$@" || failed=1

if [ "$failed" = 1 ]; then echo "make test: FAILED ($((SECONDS - started)) s)"; else echo "make test: ok ($((SECONDS - started)) s)"; fi
exit "$failed"
