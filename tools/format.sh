#!/usr/bin/env bash
# Formats every tracked C++ and Python file in place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  -h | --help) echo "usage: tools/format.sh    formats every tracked C++ and Python file in place"; exit 0 ;;
esac

VENV=${VENV:-.venv}
git ls-files -z '*.cpp' '*.h' | xargs -0 -r clang-format-19 -i
"$VENV/bin/ruff" check --quiet --fix-only .
"$VENV/bin/ruff" format --quiet .
