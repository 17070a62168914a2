. ./assert.sh

# CPU 0 sends over the loopback, and CPU 1 handles the packets: it must be woken for that.
ip link set lo up
echo 2 >/sys/class/net/lo/queues/rx-0/rps_cpus
taskset 1 ping -i 0.1 127.0.0.1 >/dev/null &
pinging=$!
run 0 reveille path --all --ping --count 20 --duration 60s --out /tmp/pings
kill "$pinging"
echo 0 >/sys/class/net/lo/queues/rx-0/rps_cpus
contains "path" "^Followed .*; 20 of" "$output"
contains "path" "^With the CPU asleep in \(C1\|C2\|C3\) (for" "$output"
contains "path" "^wake       first code after idle" "$output"
contains "path" "Announced by: another CPU" "$(printf '%s' "$output" | tr '\n' ' ')"
contains "path" "^lo, packet steering (RPS): queue 0: handled by CPU 1" "$output"
run 0 reveille report /tmp/pings
contains "the page" "Latency of pings by stage" "$(cat /tmp/pings/report.html)"
