. ./assert.sh

# The workload prints the setting that is in force: how many idle states are disabled.
cat >/tmp/disabled.sh <<'END'
cat /sys/devices/system/cpu/cpu*/cpuidle/state*/disable | awk '{ sum += $1 } END { print "disabled " sum }'
END
run 0 reveille trial --all --settings C1 --setting 'limit --disable C2 --cpu 1' --rounds 2 --settle 50ms \
  --figure 'disabled ([0-9]+)' --out /tmp/trial -- sh /tmp/disabled.sh
contains "the trial" "^as is  *2  *2  *0  *0 " "$output"
contains "the trial" "^up to C1  *2  *2  *0  *4 " "$output"
contains "the trial" "^limit --disable C2 --cpu 1  *2  *2  *0  *1 " "$output"
run 0 reveille report /tmp/trial
complains 2 "is there already" reveille trial --out /tmp/trial -- true

# Under no sleep the CPUs poll, and the trial itself observes that.
run 0 reveille trial --settings no-sleep --rounds 1 --settle 50ms --json -- sleep 0.3
awake=$(printf '%s\n' "$output" | sed -n 's/^ *"awake_percent": \([0-9]*\).*/\1/p' | tail -n 1)
at_least "the share of time awake under no sleep" "$awake" 90
