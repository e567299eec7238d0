# tools/steps.sh: one line of progress per step; sourced by the other scripts of this folder
#
#   step "C++ library" build/logs/build.log ninja -C build/release
#
# prints "==> C++ library ... 41 s", keeps the command's output in the log, and on failure shows the end
# of the log and returns the command's status. On a terminal the line counts up; elsewhere a line of
# the log is shown every minute, so that a long step is seen to move.

step() {
  local label=$1 log=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  local start=$SECONDS status=0 seconds last_note=0
  if [ -t 1 ]; then printf '==> %s ...' "$label"; else printf '==> %s ...\n' "$label"; fi
  # Job control gives the step a process group, so that interrupting make ends all of it.
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  local pid=$!
  set +m
  trap 'kill -- "-$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    seconds=$((SECONDS - start))
    if [ -t 1 ]; then
      printf '\r==> %s ... %d s' "$label" "$seconds"
    elif [ $((seconds - last_note)) -ge 60 ]; then
      last_note=$seconds
      printf '    %d s: %s\n' "$seconds" "$(tail -n 1 "$log" | cut -c1-100)"
    fi
  done
  wait "$pid" || status=$?
  trap - INT TERM
  seconds=$((SECONDS - start))
  if [ "$status" -eq 0 ]; then
    if [ -t 1 ]; then printf '\r==> %s ... %d s\n' "$label" "$seconds"; else
      printf '    done in %d s\n' "$seconds"; fi
  else
    printf '\n==> %s FAILED (exit status %d); the end of %s:\n' "$label" "$status" "$log" >&2
    tail -n 60 "$log" >&2
  fi
  return "$status"
}

# die <text>...: what went wrong and what to do about it, then exit 1
die() {
  printf 'error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}
