#!/usr/bin/env bash
# All linters: see --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help)
    cat <<'EOF'
usage: tools/lint.sh

clang-format (check), clang-tidy on the C++ files changed since the merge base with the main branch (on the main branch:
since the commit before), ruff, mypy, the direction of includes, private words, the sizes of files and classes, the names
in documents. Runs all, fails when one fails.

environment:
  LINT_BUILD    folder of the flags that clang-tidy uses  (default: build/lint)
  VENV          virtual environment                       (default: .venv)
  TIDY_SECONDS  time for clang-tidy; files past it are named and left out  (default: 300)
EOF
    exit 0
    ;;
esac

BUILD=${LINT_BUILD:-build/lint}
VENV=${VENV:-.venv}
TIDY_SECONDS=${TIDY_SECONDS:-300}
bin=$VENV/bin
failed=()

check() {
  local name=$1
  shift
  if "$@"; then echo "lint: $name: ok"; else echo "lint: $name: FAILED"; failed+=("$name"); fi
}

# Names the files only: `make format` repairs them.
format() {
  local bad
  bad=$(git ls-files -z '*.cpp' '*.h' | xargs -0 -r clang-format-19 --dry-run 2>&1 | sed -n 's/^\([^ :]*\):[0-9].*warning:.*/\1/p' | sort -u)
  [ -z "$bad" ] || { printf 'clang-format: %s (make format)\n' $bad; return 1; }
}

changed() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null) || base=""
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then base=$(git rev-parse -q --verify HEAD~) || return 0; fi
  # Files that include torch take longest: last.
  git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'tests/unit/*.cpp' 'python/bindings/*.cpp' |
    awk '{ print /src\/(trace|runtime|pipeline|capture)|bindings/ ? 1 : 0, $0 }' | sort -s -k1,1n | cut -d' ' -f2-
}

tidy() {
  local files; mapfile -t files < <(changed)
  [ ${#files[@]} -gt 0 ] || { echo "clang-tidy: no C++ file changed"; return 0; }
  if [ ! -e "$BUILD/compile_commands.json" ]; then
    cmake -G Ninja -S . -B "$BUILD" -DVESTA_UNITY=OFF -DPython_EXECUTABLE="$(realpath -s "$bin/python")" >/dev/null || return 1
  fi
  ninja -C "$BUILD" --quiet vesta_generated || return 1
  local deadline=$((SECONDS + TIDY_SECONDS)) file left=() bad=0 status
  for file in "${files[@]}"; do
    # A file of a code generator that is not built has no compile command. clang needs its own omp.h, which is not
    # installed.
    grep -q "/$file\"" "$BUILD/compile_commands.json" || continue
    if [ $SECONDS -ge $deadline ]; then left+=("$file"); continue; fi
    timeout $((deadline - SECONDS + 1)) clang-tidy-19 -p "$BUILD" --quiet --extra-arg=-fno-openmp "$file" 2>/dev/null
    status=$?
    if [ $status = 124 ]; then left+=("$file"); elif [ $status != 0 ]; then bad=1; fi
  done
  [ ${#left[@]} = 0 ] || echo "clang-tidy: out of time (${TIDY_SECONDS} s), not checked: ${left[*]}"
  return $bad
}

check "clang-format" format
check "clang-tidy" tidy
check "ruff" "$bin/ruff" check --quiet .
check "ruff format" "$bin/ruff" format --quiet --check .
check "mypy" "$bin/mypy" --no-error-summary
check "include direction" "$bin/python" tools/check_includes.py
check "words" "$bin/python" tools/check_words.py
check "file sizes" "$bin/python" tools/size_report.py --quiet
check "class sizes" "$bin/python" tools/check_classes.py
check "documents" "$bin/python" tools/check_docs.py

if [ ${#failed[@]} -gt 0 ]; then
  echo "lint: FAILED: $(IFS=,; echo "${failed[*]}")"
  exit 1
fi
echo "lint: ok"
