#!/usr/bin/env bash
# tools/sysroot.sh: unpacks Debian's arm64 packages that a build for AArch64 links with and its tests run with
#
# usage: tools/sysroot.sh FOLDER      (what cmake/aarch64.cmake looks in; needs no root, and installs nothing)
#
# apt works on its own lists of the system's sources and an empty list of what is installed, so that the system's
# packages and foreign architectures stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
arch=arm64
stamp=$(sha256sum <tools/sysroot.sh)
if [ "$(cat "$folder/.complete" 2>/dev/null)" = "$stamp" ]; then exit 0; fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/packages"
: >"$work/state/status"

of_arch() { # <program> <argument>...
  "$1" -q -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State=$work/state" -o "Dir::Cache=$work/cache" \
    -o "Dir::State::status=$work/state/status" -o APT::Sandbox::User=root -o Acquire::Languages=none "${@:2}"
}
of_arch apt-get update

# The libraries (cmake/HologramDependencies.cmake), GoogleTest, and Python with its headers, with all that they need but
# the C library's headers, of which the cross compiler has its own. LLVM's archives come without the programs and the
# shared library that its package asks for.
of_arch apt-get -s install --no-install-recommends libfmt-dev libb2-dev libxxhash-dev zlib1g-dev libzstd-dev libgtest-dev \
  libstdc++6 libpython3-dev python3 >"$work/plan"
sed -n 's/^Inst \([^ ]*\) .*/\1/p' "$work/plan" | grep -vxE '(libc6|linux-libc|libc|libcrypt|libtirpc|libnsl)-dev|libc-dev-bin' >"$work/names"
echo llvm-19-dev >>"$work/names"
mapfile -t names <"$work/names"
(cd "$work/packages" && of_arch apt-get download "${names[@]}")
rm -rf "${folder:?}"/*
for package in "$work"/packages/*.deb; do dpkg -x "$package" "$folder"; done
# LLVM's CMake files look for the shared libraries too.
sed -i '/_cmake_import_check_files_for_.*\.so/d' "$folder"/usr/lib/llvm-19/lib/cmake/llvm/LLVMExports-*.cmake
printf '%s\n' "$stamp" >"$folder/.complete"
