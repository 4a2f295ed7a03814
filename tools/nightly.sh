#!/usr/bin/env bash
# Everything that takes too long for each change: see --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# A name, and the command that it stands for.
rows=(
  "test-long|tools/run_tests.sh --long"
  "matrix-3.11|tools/test_matrix.sh 3.11"
  "matrix-3.12|tools/test_matrix.sh 3.12"
  "matrix-3.13|tools/test_matrix.sh 3.13"
  "matrix-no-llvm|tools/test_matrix.sh no-llvm"
  "sanitize-address|tools/test_sanitize.sh address,undefined"
  "sanitize-thread|tools/test_sanitize.sh thread"
  "sanitize-compiled|tools/test_sanitize.sh compiled"
  "sanitize-capture|tools/test_sanitize.sh capture"
)

usage() {
  cat <<'EOF'
usage: tools/nightly.sh [ROW]...

Runs these rows one after another, or those that are named, and ends with a table of their times and results. A row that
fails fails the run, and the rows after it still run. A row whose interpreter is not on this machine is skipped. What a
row prints is kept in build/nightly/ROW.txt.

EOF
  local row
  for row in "${rows[@]}"; do printf '  %-18s %s\n' "${row%%|*}" "${row#*|}"; done
  printf '\n%s\n' "environment: BUILD and VENV, as for tools/run_tests.sh"
}

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
esac

chosen=()
for row in "${rows[@]}"; do
  if [ $# -eq 0 ] || [[ " $* " == *" ${row%%|*} "* ]]; then chosen+=("$row"); fi
done
[ $# -eq 0 ] || [ ${#chosen[@]} = $# ] || { echo "nightly: not all of these are rows (see --help): $*" >&2; exit 2; }

mkdir -p build/nightly
table=()
failed=0
for row in "${chosen[@]}"; do
  name=${row%%|*}
  echo "== nightly: $name"
  started=$SECONDS
  ${row#*|} 2>&1 | tee "build/nightly/$name.txt"
  case ${PIPESTATUS[0]} in
    0) result=ok ;;
    77) result=skipped ;;
    *) result=FAILED failed=1 ;;
  esac
  table+=("$(printf '%-18s %6d s  %s' "$name" $((SECONDS - started)) "$result")")
done

printf '%s\n' "== nightly" "${table[@]}"
if [ $failed = 1 ]; then echo "nightly: FAILED (see build/nightly)"; else echo "nightly: ok"; fi
exit $failed
