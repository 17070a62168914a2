. ./assert.sh

top=/sys/fs/cgroup
mount -t cgroup2 none "$top"
mkdir "$top/background" "$top/foreground"
# It would keep CPU 1 awake.
taskset 2 sh -c 'while :; do :; done' &
burner=$!
echo "$burner" >"$top/background/cgroup.procs"
# It waits for the time alone.
sh -c 'while :; do sleep 0.5; done' &
waiter=$!
echo "$waiter" >"$top/foreground/cgroup.procs"

# In ticks of the kernel's clock.
used() { awk '{ print $14 + $15 }' "/proc/$burner/stat"; }
# over COMMAND...: what the burner uses while that runs, per cent of the time; $output is the command's.
over() {
  local used began
  used=$(used)
  began=$(cut -d ' ' -f 1 /proc/uptime)
  run 0 "$@"
  share=$(awk -v used=$(($(used) - used)) -v began="$began" '{ printf "%d", used / ($1 - began) }' /proc/uptime)
}

over sleep 10
at_least "what the background uses, per cent" "$share" 70
as_is=$share
before=$(cat "$cpus"/cpu1/cpuidle/state*/usage | awk '{ sum += $1 } END { print sum }')
over reveille quiet run --freeze background --foreground foreground --within 400ms -- sleep 10
[ "$share" -le $((as_is * 9 / 10)) ] || fail "frozen while the foreground waits, the background uses $share% instead of $as_is%: $output"
# It runs in between: nothing waits for longer than it may.
at_least "what the background uses then, per cent" "$share" $((as_is / 5))
slept=$(cat "$cpus"/cpu1/cpuidle/state*/usage | awk '{ sum += $1 } END { print sum }')
at_least "how often CPU 1 slept meanwhile" $((slept - before)) 5
equal "the freezer after it" "$(cat "$top/background/cgroup.freeze")" 0

# After kill -9 the next start undoes it.
begin reveille quiet run --freeze background --foreground foreground --within 10s
is_frozen() { [ "$(cat "$top/background/cgroup.freeze")" = 1 ]; }
wait_for 60 is_frozen
kill -9 "$begun"
wait "$begun" || true
equal "the freezer after kill -9" "$(cat "$top/background/cgroup.freeze")" 1
run 0 reveille restore
equal "the freezer after restore" "$(cat "$top/background/cgroup.freeze")" 0

kill "$burner" "$waiter"
wait "$burner" "$waiter" || true
# The last `sleep` ends by itself.
wait_for 30 rmdir "$top/foreground"
rmdir "$top/background"
umount "$top"
