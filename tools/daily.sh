#!/usr/bin/env bash
# tools/daily.sh: what one does daily: one test, what the compiler makes of one program, this tree beside an earlier commit
#
# usage: tools/daily.sh one TEST | show PROGRAM [STAGES] | compare COMMIT [CASES]     (make one, show, compare)
#
# Environment: VENV (default .venv), PRESET (default release)
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh
VENV=${VENV:-.venv}
PRESET=${PRESET:-release}

one() {
  case ${1:-} in
    tests/*.py | tests/*.py::*)
      tools/build.sh "$PRESET" _core
      exec "$VENV/bin/python" -m pytest -n0 "$1"
      ;;
    test_*)
      local program=${1%%:*} filter='*'
      case $1 in *:*) filter=${1#*:} ;; esac
      tools/build.sh "$PRESET" "$program"
      exec "build/$PRESET/tests/$program" --gtest_filter="$filter"
      ;;
    *) die "which test? T=tests/torch/test_cut.py, T=tests/torch/test_cut.py::name, T=test_ir or T='test_ir:Graph.*'" ;;
  esac
}

show() {
  [ -f "${1:-}" ] || die "which program? F=model.py is a Python program that calls something compiled"
  tools/build.sh "$PRESET" _core
  rm -rf build/show
  HOLOGRAM_CACHE_DIR=off HOLOGRAM_DUMP=${2:-plan,asm} HOLOGRAM_DUMP_DIR=build/show "$VENV/bin/python" "$1"
  wc -l build/show/*
}

# The earlier commit is built in a work tree of its own, which stays for the next time.
compare() {
  local commit before=build/before
  commit=$(git rev-parse --verify --quiet "$1^{commit}") || die "no commit '$1'"
  if [ -d "$before" ]; then
    git -C "$before" checkout -q --detach "$commit"
  else
    git worktree prune
    git worktree add -q --detach "$before" "$commit"
    ln -s "$(cd "$VENV" && pwd)" "$before/.venv"
  fi
  tools/build.sh release _core
  (cd "$before" && VENV=.venv tools/build.sh release _core)
  exec "$VENV/bin/python" bench/run.py --before "$before" --peers hologram ${2:+--cases "$2"}
}

case ${1:-} in
  one | show | compare) "$@" ;;
  *) die "usage: tools/daily.sh one TEST | show PROGRAM [STAGES] | compare COMMIT [CASES]" ;;
esac
