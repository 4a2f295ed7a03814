#!/usr/bin/env bash
# Tests under sanitizers and under valgrind: see --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    cat <<'EOF'
usage: tools/test_sanitize.sh [address,undefined | thread | compiled | capture]...

address,undefined, thread  builds the torch-free tests with these sanitizers in build/sanitize-* and runs them
compiled                   runs the C++ tests of $BUILD that compile programs and modules under valgrind, which finds
                           bad accesses of Vesta and of the code that it generates
capture                    builds libvesta and vesta._C with address,undefined and with assertions in
                           build/sanitize-capture and runs the tests of vesta.compile over them
Without arguments: all four.

environment:
  BUILD   build folder whose tests run under valgrind  (default: build/release)
  FILTER  which of these tests, as GoogleTest takes it (default: all but those of deadlines, which need usual speed)
  VENV    virtual environment                          (default: .venv)
EOF
    exit 0
    ;;
esac

BUILD=${BUILD:-build/release}
# Compiles take long here, and the tests wait for them.
export VESTA_DEADLINE_MS=-1

# NVRTC, which one of the locked packages brings, compiles the kernels of these tests.
# Some tests fork while a store's thread runs, and the child begins threads of its own (die_after_fork).
sanitized() {
  local -x LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
  LD_LIBRARY_PATH+=:$(realpath "${VENV:-.venv}"/lib/python3.*/site-packages/nvidia/cu13/lib)
  local folder=build/sanitize-${1%%,*}
  cmake -G Ninja -S . -B "$folder" -DVESTA_TORCH=OFF -DVESTA_SANITIZE="$1" >/dev/null && ninja -C "$folder" --quiet || return 1
  ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    TSAN_OPTIONS=halt_on_error=1:die_after_fork=0 ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 2400
}

compiled() {
  command -v valgrind >/dev/null || { echo "no valgrind on this machine (Debian: apt-get install valgrind)"; return 1; }
  ninja -C "$BUILD" --quiet test_capture || return 1
  # One thread, because threads of at::parallel_for wait in a loop, which is slow on valgrind's one core. The address
  # sanitizer checks for leaks.
  OMP_NUM_THREADS=1 valgrind --quiet --error-exitcode=9 --leak-check=no --fair-sched=yes --num-callers=25 \
    "$BUILD/tests/unit/test_capture" --gtest_brief=1 --gtest_filter="${FILTER:--*Deadline*}"
}

capture() {
  local folder=build/sanitize-capture python=${VENV:-.venv}/bin/python failed=0
  cmake -G Ninja -S . -B "$folder" -DVESTA_TESTS=OFF -DVESTA_SANITIZE=address,undefined -DPython_EXECUTABLE="$PWD/$python" \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 >/dev/null && ninja -C "$folder" --quiet || return 1
  # Python and torch are not instrumented. They are loaded first, and what they free at exit is not checked.
  checked() {
    PYTHONPATH="$PWD/$folder/python:$PWD" PYTHONMALLOC=malloc \
      LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" \
      ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 "$python" "$@" || failed=1
  }
  checked -m tests.capture.run --limit 120
  checked -m pytest -q -m "not slow" tests/capture/test_{evaluator,front,guards,lifetime,mutation_fuzz,switches}.py
  checked -m tests.capture.random_functions --seeds 0:100
  return $failed
}

[ $# -gt 0 ] || set -- address,undefined thread compiled capture
failed=()
for row in "$@"; do
  echo "== $row"
  case "$row" in
    compiled | capture) "$row" ;;
    *) sanitized "$row" ;;
  esac || failed+=("$row")
done
[ ${#failed[@]} = 0 ] || echo "test-sanitize: FAILED: ${failed[*]}"
exit ${#failed[@]}
