#!/usr/bin/env bash
# tools/bootstrap.sh: installs what a make target needs: Debian packages, virtual environment, PyPI packages
#
# usage: tools/bootstrap.sh build|cross|web|docs|test|demo|bench [COMMAND...]
#
# The command (a build) runs beside the download of the packages that only the level's programs need.
#
# Environment: VENV (default .venv), PYTHON (default python3), HOLOGRAM_SKIP_SYSTEM=1 (take the system's
# packages as they are: for systems that are not Debian).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

level=${1:-build}
if [ $# -gt 0 ]; then shift; fi
VENV=${VENV:-.venv}
logs=build/logs
mkdir -p "$logs"

system_packages=(build-essential cmake ninja-build ccache mold llvm-19-dev libfmt-dev libb2-dev libxxhash-dev
                 zlib1g-dev libzstd-dev libgtest-dev)
web_packages=(clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32 libc++-19-dev-wasm32 libc++abi-19-dev-wasm32)
case $level in
  build) extras=dev ;;
  web)
    extras=dev
    system_packages+=("${web_packages[@]}")
    ;;
  cross)
    extras=dev
    system_packages+=(g++-aarch64-linux-gnu)
    ;;
  test)
    extras=dev,torch,test,docs,demo,examples
    system_packages+=(g++-aarch64-linux-gnu qemu-user libclang-rt-19-dev "${web_packages[@]}" nodejs
                      node-typescript chromium-headless-shell mesa-vulkan-drivers graphviz)
    ;;
  docs)
    extras=dev,torch,docs
    system_packages+=(graphviz)
    ;;
  demo) extras=dev,torch,demo ;;
  bench)
    extras=dev,torch,demo,bench,architectures
    system_packages+=(libbenchmark-dev)
    ;;
  *) die "unknown level '$level'; expected build, cross, web, docs, test, demo or bench" ;;
esac

# --- Python interpreter -----------------------------------------------------------------------------
good_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
find_python() {
  local name
  for name in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.10; do
    if command -v "$name" >/dev/null && good_python "$name"; then
      command -v "$name"
      return
    fi
  done
  return 1
}

# --- virtual environment and PyPI packages --------------------------------------------------------------
# The two packages of this repository are editable: Python files are used in place. wheel.cmake=false: the native
# module comes from tools/build.sh, not from this install.
editable=(-C wheel.cmake=false -C wheel.py-api= -C editable.mode=inplace)
pip_install() {
  "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input --no-compile --progress-bar off "$@"
}
# uv downloads and unpacks with less than half of pip's processor time, but knows none of pip's settings.
get_installers() {
  pip_install "pip>=23.1" || return 1 # Debian 12's knows no -C
  if ! "$VENV/bin/python" -m pip config list | grep -qE 'index|proxy'; then
    pip_install --only-binary uv uv || true
  fi
}
packages() {
  if [ -x "$VENV/bin/uv" ] && "$VENV/bin/uv" pip install --python "$VENV/bin/python" "$@" "${editable[@]}"; then return; fi
  pip_install "$@" "${editable[@]}"
}
make_environment() {
  if [ -x "$VENV/bin/python" ] && ! good_python "$VENV/bin/python"; then
    die "$VENV has no working Python >= 3.10; remove that folder and run make again"
  fi
  if [ ! -x "$VENV/bin/pip" ]; then
    step "virtual environment $VENV ($("$python" -V))" "$logs/venv.log" "$python" -m venv "$VENV" ||
      die "python -m venv failed; on Debian: apt-get install python3-venv"
  fi
  wanted=$({ cat pyproject.toml; pwd; echo "$extras"; } | sha256sum)
  if [ "$(cat "$VENV/.hologram-$level" 2>/dev/null)" = "$wanted" ]; then wanted=; fi
  if [ -z "$wanted" ]; then return; fi
  step "pip and uv" "$logs/pip.log" get_installers || die "pip could not be updated"
  step "PyPI packages [dev]" "$logs/pip.log" packages -e ".[dev]" || die "pip could not install the packages"
  if [ "$extras" != dev ]; then
    begin "PyPI packages [$extras]" "$logs/pip.log" packages -e ".[$extras]"
  fi
}

# --- system packages --------------------------------------------------------------------------------
explain_packages() {
  printf '%s\n' \
    "Hologram is built with: a C++20 compiler (GCC 12 or newer), CMake >= 3.25, Ninja," \
    "LLVM 19.1 (headers and static libraries), fmt >= 9.1, libb2, libxxhash, zlib and zstd (static libraries)," \
    "GoogleTest, Python >= 3.10 with its headers and the venv module; for wheels for AArch64 also" \
    "g++-aarch64-linux-gnu; for archives in browsers clang 19, lld 19, wasi-libc and libc++ 19 for wasm32; for the" \
    "tests these, qemu-user, clang 19's run-time libraries (for libFuzzer), Node, TypeScript, Chromium and Mesa's software" \
    "Vulkan; for the site and the tests Graphviz; for the benchmarks Google Benchmark." \
    "ccache and mold are used when present." \
    "When they are installed, run the same command with HOLOGRAM_SKIP_SYSTEM=1."
}
missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      printf '%s ' "$package"
  done
}
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }
apt_install() {
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

python=$(find_python || true)
missing=
if [ "${HOLOGRAM_SKIP_SYSTEM:-0}" != 1 ]; then
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    printf 'error: this is not a Debian system, so its packages are not installed by this script.\n' >&2
    explain_packages >&2
    exit 1
  fi
  # Another Python than the system's brings its own headers and venv module.
  case $python in "" | /usr/bin/* | /bin/*) system_packages+=(python3 python3-venv python3-dev) ;; esac
  missing=$(missing_packages "${system_packages[@]}")
  if [ -n "$missing" ] && [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      die "these Debian packages are missing, and installing them needs root or sudo:" "$missing" \
        "as root: apt-get install $missing"
    fi
    # sudo may have to ask for a password: that happens here, where the terminal is.
    sudo -n true 2>/dev/null || sudo -v
  fi
fi

# Where this Python can make it, the environment comes first: PyPI's packages are downloaded beside Debian's.
made=0
if [ -n "$python" ] && "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  make_environment
  made=1
fi
if [ -n "$missing" ]; then
  # shellcheck disable=SC2086  # a list of package names
  step "Debian packages (${missing% })" "$logs/apt.log" apt_install $missing ||
    die "apt-get could not install the packages (LLVM 19 needs Debian 12 or newer)"
  if [ -z "$python" ]; then python=$(find_python || true); fi
fi
[ -n "$python" ] || die "Python >= 3.10 was not found" \
  "install it, or name one: make PYTHON=/path/to/python3"

if [ "$made" = 0 ]; then make_environment; fi
"$VENV/bin/python" - <<'PY' || die "the headers of $python are missing; on Debian: apt-get install python3-dev"
import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").is_file())
PY

if [ $# -gt 0 ]; then "$@"; fi
if [ -n "$wanted" ]; then
  if [ "$extras" != dev ]; then finish || die "pip could not install the packages"; fi
  printf '%s\n' "$wanted" >"$VENV/.hologram-$level"
fi
