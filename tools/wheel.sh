#!/usr/bin/env bash
# tools/wheel.sh: makes a wheel of a finished build, with the tag of the oldest systems that it runs on
#
# usage: tools/wheel.sh BUILD FOLDER      (after tools/build.sh; the wheel lands in FOLDER)
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
build=$(cd "$1" && pwd)
out=$2
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT

PYTHONWARNINGS=ignore "$VENV/bin/python" -m pip wheel --disable-pip-version-check --no-deps --no-build-isolation \
  --no-index -w "$raw" . -C "build-dir=$raw/build" -C "cmake.define.HOLOGRAM_PREBUILT=$build"
# Checks every library in the wheel against the policy, and names the wheel after it.
PATH="$VENV/bin:$PATH" "$VENV/bin/python" -m auditwheel repair --plat "manylinux_2_28_$(uname -m)" -w "$out" "$raw"/*.whl
