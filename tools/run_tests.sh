#!/usr/bin/env bash
# The tests of one build: see --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
usage: tools/run_tests.sh [--long] [pytest arguments]

Without arguments: the unit tests in C++ (ctest) of $BUILD, then every Python test that is not marked `slow`, with $VENV.
Both always run; one that fails fails the run.

  --long            only the Python tests marked `slow`, with their seconds; those marked `alone` come last, one by one
  pytest arguments  these Python tests alone, in this process, whatever their marks:
                      tools/run_tests.sh tests/programs/test_large.py
                      tools/run_tests.sh tests/capture/test_front.py -k keyword_only -x
                    One unit test in C++: build/release/tests/unit/test_graph --gtest_filter='Passes.*'

environment:
  BUILD    build folder                       (default: build/release)
  VENV     virtual environment                (default: .venv)
  WORKERS  processes that run tests at a time (default: one a core, as far as 3 GB are free for each)
USAGE
}

long=0
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  --long) long=1; shift ;;
esac

BUILD=${BUILD:-build/release}
VENV=${VENV:-.venv}
if [ -z "${WORKERS:-}" ]; then
  WORKERS=$(awk -v cores="$(nproc)" '/MemAvailable/ { n = int($2 / 3000000); print n < 1 ? 1 : n < cores ? n : cores }' /proc/meminfo)
fi
failed=0
started=$SECONDS

# The build under test is imported, whatever else the environment may hold.
python_tests() {
  PYTHONPATH="$PWD/$BUILD/python:$PWD" VESTA_BUILD="$BUILD" "$VENV/bin/python" -m pytest -v "$@" || failed=1
}
# Of tests that run side by side, each with threads for all cores, a thread with nothing to do sleeps, and takes no other's
# core. A test that runs alone measures times, and small products of PyTorch take ten times as long with such threads.
side_by_side=(-n "$WORKERS" --dist worksteal)
wait_policy=${OMP_WAIT_POLICY:-}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

if [ $# -gt 0 ]; then
  name="these tests"
  python_tests "$@"
elif [ "$long" = 1 ]; then
  name="make test-long"
  python_tests "${side_by_side[@]}" --durations=0 --durations-min=1 -m "slow and not alone"
  if [ -z "$wait_policy" ]; then unset OMP_WAIT_POLICY; fi
  python_tests --durations=0 -m alone
else
  name="make test"
  echo "== unit tests"
  ctest --test-dir "$BUILD" --parallel "$WORKERS" --output-on-failure --no-tests=error --timeout 600 || failed=1
  echo "== Python tests"
  python_tests "${side_by_side[@]}" --durations=12 -m "not slow"
fi

if [ "$failed" = 1 ]; then echo "$name: FAILED ($((SECONDS - started)) s)"; else echo "$name: ok ($((SECONDS - started)) s)"; fi
exit "$failed"
