#!/usr/bin/env bash
# tools/test.sh: runs every test of a built preset; ctest's and pytest's own summaries close it
#
# usage: tools/test.sh PRESET
set -uo pipefail
cd "$(dirname "$0")/.."
preset=$1
VENV=${VENV:-.venv}
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
status=0

echo "==> C++ tests"
ctest --preset "$preset" -j "$jobs" || status=1

echo "==> Python tests"
"$VENV/bin/python" -m pytest || status=1

exit "$status"
