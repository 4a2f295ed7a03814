#!/usr/bin/env bash
# Prepares a machine and a checkout: see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOF'
usage: tools/setup.sh [--lint] [--valgrind] [--chromium] [--peers] [--no-tests] [--no-build] [--no-link] [--no-system]

Runs the steps that are still missing, in this order:
  system   Debian packages (apt-get as root or by sudo)
  python   .venv with the exact packages of requirements.lock and requirements-nodeps.lock
  peers    with --peers: the engines of requirements-peers.lock in a folder of their own
  build    cmake and ninja in build/release, and .venv made to import that build

  --lint       also clang-format and clang-tidy
  --valgrind   also valgrind
  --chromium   also Chromium, in which a test shows the page that explain writes
  --peers      also the engines that `make bench-peers` compares with
  --no-tests   build what a program needs, and none of the tests in C++
  --no-build   stop before configuring
  --no-link    build, but do not change what .venv imports
  --no-system  do not install system packages

environment:
  PYTHON       interpreter for .venv          (default: python3.11)
  VENV         virtual environment            (default: .venv)
  BUILD        build folder                   (default: build/release)
  PEERS        folder of the engines          (default: build/peers)
  TORCH        torch version instead of the lock file's
  CMAKE_ARGS   more arguments for cmake
  JOBS         parallel compilations          (default: by cores and memory)
EOF
}

lint=0 valgrind=0 chromium=0 peers=0 target=all build=1 link=1 system=1
while [ $# -gt 0 ]; do
  case "$1" in
    --lint) lint=1 ;;
    --valgrind) valgrind=1 ;;
    --chromium) chromium=1 ;;
    --peers) peers=1 ;;
    --no-link) link=0 ;;
    --no-tests) target=vesta_python ;;
    --no-build) build=0 ;;
    --no-system) system=0 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "setup: unknown argument $1 (see --help)" >&2; exit 2 ;;
  esac
  shift
done

PYTHON=${PYTHON:-python3.11}
VENV=${VENV:-.venv}
BUILD=${BUILD:-build/release}
PEERS=${PEERS:-build/peers}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# --- system packages -------------------------------------------------------------------------------------------------

have_python() { "$1" -c 'import ensurepip, sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 126; fi
}

system_packages() {
  local packages=(g++ cmake ninja-build ccache git llvm-19-dev libzstd-dev zlib1g-dev libfmt-dev libxxhash-dev
    nlohmann-json3-dev libgtest-dev libflatbuffers-dev flatbuffers-compiler)
  if [ "$lint" = 1 ]; then packages+=(clang-format-19 clang-tidy-19); fi
  if [ "$valgrind" = 1 ]; then packages+=(valgrind); fi
  if [ "$chromium" = 1 ]; then packages+=(chromium); fi
  if [ "$PYTHON" = python3.11 ] && ! have_python "$PYTHON"; then packages+=(python3.11 python3.11-dev python3.11-venv); fi
  command -v dpkg-query >/dev/null || { say "not a Debian system: these are taken to be there: ${packages[*]}"; return; }

  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed$' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing system packages: ${missing[*]}"
  local log; log=$(mktemp)
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}")
  if ! as_root "${install[@]}" >"$log" 2>&1; then
    # A new machine has no package lists, and an old one may have outdated lists.
    as_root apt-get update >>"$log" 2>&1 || true
    as_root "${install[@]}" >>"$log" 2>&1 || {
      tail -n 5 "$log" >&2
      rm -f "$log"
      die "cannot install: ${missing[*]} (as root: apt-get install ${missing[*]})"
    }
  fi
  rm -f "$log"
}

# --- Python packages -------------------------------------------------------------------------------------------------

python_packages() {
  command -v "$PYTHON" >/dev/null || die "no $PYTHON on this machine; name another interpreter with PYTHON=..."
  if [ ! -x "$VENV/bin/python" ]; then
    have_python "$PYTHON" || die "$PYTHON has no venv module or no headers (Debian: apt-get install python3-venv python3-dev)"
    say "making $VENV with $("$PYTHON" --version)"
    "$PYTHON" -m venv "$VENV"
  fi
  local key stamp
  key=$({ cat requirements.lock requirements-nodeps.lock; echo "torch ${TORCH:+==$TORCH}"; } | sha256sum | cut -c1-16)
  stamp="$VENV/.vesta-packages-$key"
  [ ! -e "$stamp" ] || return 0
  say "installing Python packages into $VENV"
  local lock
  lock=$(mktemp --suffix=.txt)
  # Another torch has its own dependencies, so locked versions are kept only for packages that no torch pins.
  if [ -n "${TORCH:-}" ]; then
    sed "s/^torch==.*/torch==$TORCH/; /^\(sympy\|networkx\|fsspec\|filelock\|Jinja2\|setuptools\)==/d" requirements.lock >"$lock"
  else
    cp requirements.lock "$lock"
  fi
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -r "$lock" ||
    die "cannot install the Python packages of requirements.lock${TORCH:+ with torch $TORCH} (the lines above name the one)"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-nodeps.lock ||
    die "cannot install the Python packages of requirements-nodeps.lock (the lines above name the one)"
  rm -f "$lock" "$VENV"/.vesta-packages-*
  touch "$stamp"
}

# No other Python than the benchmark's processes imports from this folder.
peer_packages() {
  local key stamp
  key=$({ cat requirements-peers.lock; "$VENV/bin/python" --version; } | sha256sum | cut -c1-16)
  stamp="$PEERS/.vesta-packages-$key"
  [ ! -e "$stamp" ] || return 0
  say "installing OpenVINO and ONNX Runtime into $PEERS"
  mkdir -p "$PEERS"
  rm -f "$PEERS"/.vesta-packages-*
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target "$PEERS" \
    -r requirements-peers.lock || die "cannot install the packages of requirements-peers.lock (the lines above name the one)"
  touch "$stamp"
}

# --- build -----------------------------------------------------------------------------------------------------------

jobs() {
  # A file that includes torch takes about 1.5 GB while it compiles.
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
  if [ "$memory" -lt 1 ]; then memory=1; fi
  echo $((cores < memory ? cores : memory))
}

build_tree() {
  local python; python=$("$VENV/bin/python" -c 'import sys; print(sys.executable)')
  if [ ! -e "$BUILD/build.ninja" ] || [ -n "${CMAKE_ARGS:-}" ]; then
    say "configuring $BUILD"
    local log; log=$(mktemp)
    # shellcheck disable=SC2086
    cmake -G Ninja -S . -B "$BUILD" -DPython_EXECUTABLE="$python" ${CMAKE_ARGS:-} >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; die "cmake failed"; }
    rm -f "$log"
  fi
  NINJA_STATUS="build: [%f/%t] %es " ninja -C "$BUILD" -j "${JOBS:-$(jobs)}" "$target" || die "the build failed"

  [ "$link" = 1 ] || return 0
  # .venv imports the build folder's package, entry points included; a rebuild needs no installation.
  local site; site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  if [ "$(cat "$site/vesta-build.pth" 2>/dev/null)" != "$(realpath "$BUILD")/python" ]; then
    echo "$(realpath "$BUILD")/python" >"$site/vesta-build.pth"
  fi
}

if [ "$system" = 1 ]; then system_packages; fi
python_packages
if [ "$peers" = 1 ]; then peer_packages; fi
if [ "$build" = 1 ]; then build_tree; fi
