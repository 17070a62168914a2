. ./assert.sh

complains 3 "no cpuidle driver" reveille hold --latency 100us
complains 3 "no idle states to limit" reveille limit --deepest C1
begin reveille hold --latency 0 --cpu 1
wait_for 20 grep -q 'Held until' /tmp/begun
says "hold --latency 0" "CPU 1 kept awake by a thread" "$(cat /tmp/begun)"
# Ticks of idle time: fields 4 of a CPU's line, 100 a second.
idle() { awk -v cpu="cpu$1" '$1 == cpu { print $5 }' /proc/stat; }
before=$(idle 1)
sleep 1
[ $(($(idle 1) - before)) -le 20 ] || fail "CPU 1 was idle for $(($(idle 1) - before)) of 100 ticks"
kill "$begun"
ends 0
