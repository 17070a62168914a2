# Run by the other machine's sh. Its answers are lines that begin with one word; before them may be what a login prints,
# with or without the end of its line.
trap "" PIPE
umask 077
say() { printf "\nreveille-far %s\n" "$*"; }
p=$(command -v reveille) && h=$(sha256sum "$p" 2>/dev/null) || h=-
say machine "$(uname -s)" "$(uname -m)" "${h%% *}"
read -r size || exit 1
# size: of the program that follows, 0 if the one here is the same
kib=$((size / 1024 + 4096))
if [ -n "$TMPDIR" ]; then set -- "$TMPDIR"; else set -- /tmp /var/tmp /dev/shm "$HOME"; fi
d="" why=""
for t; do
  if ! d=$(mktemp -d "$t/reveille.XXXXXXXXXX" 2>/dev/null); then
    why="no folder can be made in $t"
  elif [ "$(df -Pk "$d" | tail -n 1 | { read -r _ _ _ free _; echo "$free"; })" -lt "$kib" ]; then
    why="$t has no space for $kib KiB"
    rm -rf "$d"
  elif printf "#!/bin/sh\n" >"$d/reveille" && chmod 700 "$d/reveille" && "$d/reveille" 2>/dev/null; then
    break
  else
    why="$t does not let programs run"
    rm -rf "$d"
  fi
  d=""
done
[ -n "$d" ] || { say refused "$why"; exit 1; }
# shellcheck disable=SC2317  # the trap calls it
end() {
  n=0
  # What still ends there may make it fail.
  while ! rm -rf "$d" 2>/dev/null && [ "$n" -lt 5 ]; do n=$((n + 1)); sleep 1; done
}
trap end EXIT
trap "exit 1" HUP INT TERM
exec 3<&0
if [ "$size" -gt 0 ]; then
  p=$d/reveille
  head -c "$size" <&3 >"$p" 2>/dev/null &
  h=$!
  # Says how much has come, and ends it if nothing more comes: a connection that is lost need not be closed.
  (
    before=-1 idle=0
    while sleep 2 4>&-; do
      kill -0 $$ || { rm -rf "$d"; kill "$h"; exit; }
      now=$(wc -c <"$p")
      idle=$((idle + 1))
      [ "$now" -eq "$before" ] || { idle=0; say arrived "$now" >&4; }
      [ "$idle" -lt 3 ] || { kill "$h"; exit; }
      before=$now
    done
  ) 4>&1 >/dev/null 2>&1 3<&- </dev/null &
  w=$!
  wait "$h"
  c=$?
  kill "$w" 2>/dev/null
  # Before frames follow.
  wait "$w"
  # Not killed, and not at the end of what came.
  [ "$c" -ne 1 ] || { say refused "the program cannot be written in $t; is there space for $kib KiB?"; exit 1; }
  got=$(wc -c <"$p")
  [ "$got" -eq "$size" ] || { say refused "only $((got)) of $size bytes of the program arrived in $t"; exit 1; }
  chmod 700 "$p"
else
  rm "$d/reveille"
fi
say ready "$d"
"$p" far "$d" <&3 3<&-
c=$?
# Killed: its command ends by itself, and what that does not undo is undone here.
[ "$c" -lt 128 ] || "$p" restore --killed </dev/null >/dev/null 2>&1
exit "$c"
