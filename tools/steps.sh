# tools/steps.sh: one line of progress per step; sourced by the other scripts of this folder
#
#   step "C++ library" build/logs/build.log ninja -C build/release
#
# prints "==> C++ library ... 41 s", keeps the command's output in the log, and on failure shows the end
# of the log and returns the command's status. On a terminal the line counts up; elsewhere a line of
# the log is shown every minute, so that a long step is seen to move.

#   begin "PyPI packages" build/logs/pip.log pip install ...
#   ...other steps...
#   finish
#
# runs one step beside others; it ends with the script at the latest.

step() {
  launch "${@:2}"
  follow "$launched" "$1" "$2" "$SECONDS"
}

begin() {
  begun_label=$1 begun_log=$2 begun_start=$SECONDS
  printf '==> %s ... begun\n' "$begun_label"
  launch "${@:2}"
  begun_pid=$launched
  trap 'kill -- "-$begun_pid" 2>/dev/null' EXIT
}

finish() {
  local status=0
  follow "$begun_pid" "$begun_label" "$begun_log" "$begun_start" || status=$?
  trap - EXIT
  return "$status"
}

# launch <log> <command>...: in the background; sets `launched` to its process.
launch() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  # Job control gives the step a process group, so that interrupting make ends all of it.
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  launched=$!
  set +m
}

# follow <process> <label> <log> <start>: waits for a launched step; returns its status.
follow() {
  local pid=$1 label=$2 log=$3 start=$4 status=0 seconds last_note=0 over=0
  if [ -t 1 ]; then printf '==> %s ...' "$label"; else printf '==> %s ...\n' "$label"; fi
  # What ended before anyone looked ended about when it wrote last.
  if ! kill -0 "$pid" 2>/dev/null; then over=$(($(date +%s) - $(date -r "$log" +%s))); fi
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
  seconds=$((SECONDS - start - over))
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
