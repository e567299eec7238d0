#!/usr/bin/env bash
# tools/wheel.sh: makes a wheel of a finished build, with the tag of the oldest systems that it runs on
#
# usage: tools/wheel.sh BUILD FOLDER [ARCH]      (after tools/build.sh; the wheel lands in FOLDER; ARCH: that of the build)
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
build=$(cd "$1" && pwd)
out=$2
arch=${3:-$(uname -m)}
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT

export _PYTHON_HOST_PLATFORM="linux-$arch" # Python's word for what a build is made for
PYTHONWARNINGS=ignore "$VENV/bin/python" -m pip wheel --disable-pip-version-check --no-deps --no-build-isolation \
  --no-index -w "$raw" . -C "build-dir=$raw/build" -C "cmake.define.HOLOGRAM_PREBUILT=$build"
# Checks every library in the wheel against the policy, and names the wheel after it. Of another machine it knows no policy
# by name, and takes that of the oldest systems that the wheel runs on.
policy=manylinux_2_28_$arch
if [ "$arch" != "$(uname -m)" ]; then policy=auto; fi
PATH="$VENV/bin:$PATH" "$VENV/bin/python" -m auditwheel repair -z 9 --plat "$policy" -w "$out" "$raw"/*.whl
