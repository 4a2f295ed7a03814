#!/usr/bin/env bash
# Builds and tests Vesta with other versions of torch and Python: see --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Python and torch of each row, and further arguments for cmake.
rows=("3.12 2.11.0" "3.13 2.15.0" "3.11 2.13.0" "3.11 2.13.0 -DVESTA_LLVM=OFF")

case "${1:-}" in
  -h | --help)
    cat <<EOF
usage: tools/test_matrix.sh [PYTHON | no-llvm]...

For each row (Python, torch): ${rows[*]/%/;}
makes .venv-<python>, builds in build/python-<python> and runs the tests; Python 3.11 uses .venv and build/release, and
the build without LLVM build/no-llvm. Arguments choose rows by Python version, "no-llvm" the one without LLVM.
A row whose interpreter is not on this machine is skipped with one line that names it; where all rows are, the exit
status is 77.
EOF
    exit 0
    ;;
esac

interpreter() {
  local candidate
  for candidate in "python$1" "$HOME"/.pyenv/versions/"$1".*/bin/python"$1" /opt/python/*"$1"*/bin/python"$1"; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import ensurepip' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

results=()
failed=0
tested=0
for row in "${rows[@]}"; do
  read -r python torch arguments <<<"$row"
  name=$python
  [ -z "$arguments" ] || name=no-llvm
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  title="Python $python, torch $torch${arguments:+, $arguments}"
  if ! found=$(interpreter "$python"); then
    results+=("$title: skipped, no python$python on this machine")
    continue
  fi
  echo "== $title"
  tested=1
  setup=()
  export PYTHON=$found VENV=.venv-$python BUILD=build/python-$python TORCH=$torch CMAKE_ARGS=$arguments
  if [ "$python" = 3.11 ]; then export VENV=.venv BUILD=build/release; unset TORCH; fi
  if [ "$name" = no-llvm ]; then export BUILD=build/no-llvm; setup=(--no-link); fi
  if tools/setup.sh "${setup[@]}" && tools/run_tests.sh; then
    results+=("$title: passed")
  else
    results+=("$title: FAILED")
    failed=1
  fi
done
printf '%s\n' "== matrix" "${results[@]}"
[ "$tested" = 1 ] || exit 77
exit "$failed"
