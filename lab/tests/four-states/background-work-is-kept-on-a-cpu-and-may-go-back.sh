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

# A cgroup that is removed and made again, as that of a service, is kept there, too, once it has CPUs of its own; and
# another one beside it.
mkdir "$top/other"
echo 0-1 >"$top/other/cpuset.cpus"
begin reveille quiet run --cgroup background --cgroup other --cpus 0
both_kept() { grep -q Ctrl-C /tmp/begun; }
wait_for 60 both_kept
equal "the sleeper's CPUs" "$(allowed)" 0
kill "$sleeper"
wait "$sleeper" || true
both_removed() { rmdir "$top/background" && rmdir "$top/other"; }
wait_for 10 both_removed
mkdir "$top/background" "$top/other"
sleep 3600 &
sleeper=$!
echo "$sleeper" >"$top/background/cgroup.procs"
complained() { [ "$(grep -c 'made again, and is not kept on its CPUs: .* has an empty cpuset.cpus' /tmp/begun)" = 2 ]; }
wait_for 60 complained
echo 0-1 >"$top/background/cpuset.cpus"
wait_for 60 restricted
kill -TERM "$begun"
ends 1
equal "the sleeper's CPUs after it" "$(allowed)" 0-1
equal "the setting of the new cgroup" "$(cat "$top/background/cpuset.cpus")" 0-1
rmdir "$top/other"

# After kill -9 of a run that followed one.
reveille quiet run --cgroup background --cpus 0 >/dev/null 2>&1 &
quiet=$!
wait_for 30 restricted
kill "$sleeper"
wait "$sleeper" || true
removed() { rmdir "$top/background"; }
wait_for 10 removed
mkdir "$top/background"
echo 0-1 >"$top/background/cpuset.cpus"
sleep 3600 &
sleeper=$!
echo "$sleeper" >"$top/background/cgroup.procs"
wait_for 60 restricted
kill -9 "$quiet"
wait "$quiet" || true
run 0 reveille restore
equal "the sleeper's CPUs after restore" "$(allowed)" 0-1
equal "the setting after restore" "$(cat "$top/background/cpuset.cpus")" 0-1

# The cheapest CPUs are those that a result of power cpus shows. On this machine all orders are the same.
turns() {
  for round in 0 1 2 3 4 5; do
    printf '{"round":%s,"order":"fill","busy":1,"power_w":4%s},' $round $round
    printf '{"round":%s,"order":"spread","busy":1,"power_w":3%s},' $round $round
  done | sed 's/,$//'
}
curve() { printf '{"order":"%s","cpus":%s,"points":[],"first_w":null,"further_w":null}' "$1" "$2"; }
model=$(sed -n 's/^model name\t: //p' /proc/cpuinfo | head -n 1)
cat >/tmp/power-cpus.json <<END
{"schema_version":1,"tool":"reveille","name":"made up","started":"2026-11-29T00:00:00Z","command_line":[],
 "ended":"completed","machine":{"cpu_model":"$model"},"driver":null,"governor":null,
 "meter":{"name":"made-up","scope":"wall","counts":"power","resolution":null,"range_j":null,
  "readings":9,"reading_s":0.1,"refresh_s":1,"least_change":null,"power_w":40},
 "rounds":6,"dwell_s":30,"settle_s":1,"seed":1,"notes":[],
 "orders":[$(curve fill '[0,1]'),$(curve spread '[0,1]')],"turns":[$(turns)]}
END
run 0 reveille quiet run --cgroup background --cpus cheapest --power /tmp/power-cpus.json -- cat "/proc/$sleeper/status"
contains "the sleeper's CPUs" '^Cpus_allowed_list:	0$' "$output"
contains "why" 'busy (order spread) the meter showed 32.5 W; with as many, 42.5 W in order fill' "$output"
sed -i "s/\"$model\"/\"other\"/" /tmp/power-cpus.json
complains 2 'another processor' reveille quiet run --cgroup background --cpus cheapest --power /tmp/power-cpus.json
complains 2 'is for --cpus cheapest' reveille quiet run --cgroup background --cpus 1 --power /tmp/power-cpus.json

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
