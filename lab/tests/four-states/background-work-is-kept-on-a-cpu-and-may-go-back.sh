. ./assert.sh

top=/sys/fs/cgroup
mount -t cgroup2 none "$top"
echo +cpuset >"$top/cgroup.subtree_control"
mkdir "$top/background"
sleep 3600 &
sleeper=$!
echo "$sleeper" >"$top/background/cgroup.procs"

allowed() { sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$sleeper/status"; }
equal "the sleeper's CPUs" "$(allowed)" 0-1

# The kernel takes no empty list back: the cgroup gets one of its own first.
complains 3 'has an empty cpuset.cpus' reveille quiet run --cgroup background --cpus 1
echo 0-1 >"$top/background/cpuset.cpus"

# While a command runs.
# shellcheck disable=SC2016 # for the shell there
run 0 reveille quiet run --cgroup background --cpus 1 -- \
  sh -c 'sed -n "s/^Cpus_allowed_list:\t/ran on /p" "/proc/$0/status"' "$sleeper"
contains "what the command saw" 'ran on 1$' "$output"
contains "what it said" 'runs on CPU 1' "$output"
equal "the sleeper's CPUs after it" "$(allowed)" 0-1

# After kill -9 the next start undoes it.
reveille quiet run --cgroup background --cpus cheapest >/dev/null 2>&1 &
quiet=$!
restricted() { [ "$(allowed)" = 0 ]; }
wait_for 30 restricted
kill -9 "$quiet"
wait "$quiet" || true
run 0 reveille restore
equal "the sleeper's CPUs after restore" "$(allowed)" 0-1
equal "the setting" "$(cat "$top/background/cpuset.cpus")" 0-1

# What would not be so is refused, and nothing changes.
complains 2 'nor a list of CPUs' reveille quiet run --cgroup background --cpus ,
complains 2 'there is no CPU 7' reveille quiet run --cgroup background --cpus 7
echo 0 >"$cpus/cpu1/online"
complains 2 'CPU 1 is offline' reveille quiet run --cgroup background --cpus 1
echo 1 >"$cpus/cpu1/online"
echo 0-1 >"$top/background/cpuset.cpus"
mkdir "$top/narrow"
echo 0 >"$top/narrow/cpuset.cpus"
echo +cpuset >"$top/narrow/cgroup.subtree_control"
mkdir "$top/narrow/below"
echo 0 >"$top/narrow/below/cpuset.cpus"
complains 3 'the cgroup above it may not use 1' reveille quiet run --cgroup narrow/below --cpus 1
equal "the list of a cgroup that may not" "$(cat "$top/narrow/below/cpuset.cpus")" 0
rmdir "$top/narrow/below" "$top/narrow"
if echo root >"$top/background/cpuset.cpus.partition" 2>/dev/null &&
  [ "$(cat "$top/background/cpuset.cpus.partition")" != member ]; then
  complains 3 'is a partition' reveille quiet run --cgroup background --cpus 1
  echo member >"$top/background/cpuset.cpus.partition"
fi

# A restore that does not see the cgroup keeps what is to be undone.
reveille quiet run --cgroup background --cpus 0 >/dev/null 2>&1 &
quiet=$!
wait_for 30 restricted
kill -9 "$quiet"
wait "$quiet" || true
run 1 unshare -m sh -c "umount $top; exec reveille restore"
contains "the restore without cgroup2" 'not visible here' "$output"
run 0 reveille restore
equal "the setting after the whole restore" "$(cat "$top/background/cpuset.cpus")" 0-1

complains 2 'nor a list of CPUs' reveille quiet run --cgroup background --cpus some
echo -cpuset >"$top/cgroup.subtree_control"
complains 3 'has no cpuset.cpus' reveille quiet run --cgroup background --cpus 1
kill "$sleeper"
wait "$sleeper" || true
rmdir "$top/background"
umount "$top"
