#!/usr/bin/env bash
# tools/test.sh: runs every test of a built preset and the fuzz targets for a bounded time; ctest's and
# pytest's own summaries close it
#
# usage: tools/test.sh PRESET
set -uo pipefail
cd "$(dirname "$0")/.."
preset=$1
VENV=${VENV:-.venv}
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
status=0

# HOLOGRAM_FUZZ=0 leaves the fuzz targets out.
if [ "${HOLOGRAM_FUZZ:-1}" != 0 ] && compgen -G 'tests/fuzz/*.cpp' >/dev/null; then
  if tools/build.sh fuzz fuzzers; then
    ctest --preset fuzz -j "$jobs" || status=1
  else
    status=1
  fi
fi

echo "==> C++ tests"
ctest --preset "$preset" -j "$jobs" || status=1

echo "==> Python tests"
"$VENV/bin/python" -m pytest -n "$jobs" --dist loadfile || status=1

exit "$status"
