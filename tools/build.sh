#!/usr/bin/env bash
# tools/build.sh: configures and builds one preset, and links its Python module into python/hologram
#
# usage: tools/build.sh PRESET [TARGET...]      (after tools/bootstrap.sh; for the presets aarch64 and wasm: its levels cross and web)
#
# Environment: VENV (default .venv), JOBS, CMAKE_OPTIONS (-DNAME=VALUE..., which the build tree keeps)
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

preset=$1
shift
VENV=${VENV:-.venv}
build=build/$preset
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
python=$(cd "$(dirname "$VENV")" && pwd)/$(basename "$VENV")/bin/python

if [ "$preset" = wasm ] && [ "${HOLOGRAM_SKIP_SYSTEM:-0}" = 1 ] && ! command -v wasm-ld-19 >/dev/null; then
  echo "==> no hologram_rt.wasm: clang 19, lld 19, wasi-libc and libc++ 19 for wasm32 are not all here"
  exit 0
fi
if [ "$preset" = aarch64 ]; then
  step "Debian packages of arm64" build/logs/sysroot.log tools/sysroot.sh build/sysroot-aarch64
fi
configuration=$({ cat CMakePresets.json; pwd; echo "$python"; "$python" -V; } | sha256sum)
if [ ! -f "$build/build.ninja" ] || [ "$(cat "$build/.configured" 2>/dev/null)" != "$configuration" ]; then
  step "configure ($preset)" "build/logs/configure-$preset.log" \
    cmake --fresh --preset "$preset" "-DPython_EXECUTABLE=$python"
  printf '%s\n' "$configuration" >"$build/.configured"
fi
if [ -n "${CMAKE_OPTIONS:-}" ]; then
  # shellcheck disable=SC2086  # a list of options
  step "configure ($preset, $CMAKE_OPTIONS)" "build/logs/configure-$preset.log" cmake $CMAKE_OPTIONS "$build"
fi
step "build ($preset)" "build/logs/build-$preset.log" \
  cmake --build "$build" -j "$jobs" ${1+--target "$@"}

if [ "$preset" = aarch64 ]; then exit 0; fi # its module does not run here
if [ "$preset" = wasm ]; then
  ln -sfn "../$build/hologram_rt.wasm" js/hologram_rt.wasm
  exit 0
fi
for module in "$build"/python/hologram/_core*.so; do
  if [ -e "$module" ]; then
    rm -f python/hologram/_core*.so # of another name it might be imported first
    ln -sfn "../../$module" "python/hologram/$(basename "$module")"
  fi
done
