#!/usr/bin/env bash
# The torch-free unit tests under sanitizers: see --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    cat <<'EOF'
usage: tools/test_sanitize.sh [address,undefined | thread]...

Builds the torch-free tests with each sanitizer (default: both) in build/sanitize-* and runs them.
EOF
    exit 0
    ;;
esac

[ $# -gt 0 ] || set -- address,undefined thread
failed=0
for sanitizer in "$@"; do
  folder=build/sanitize-${sanitizer%%,*}
  echo "== $sanitizer"
  cmake -G Ninja -S . -B "$folder" -DVESTA_TORCH=OFF -DVESTA_SANITIZE="$sanitizer" >/dev/null &&
    ninja -C "$folder" --quiet || { failed=1; continue; }
  ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    TSAN_OPTIONS=halt_on_error=1 ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 600 || failed=1
done
exit "$failed"
