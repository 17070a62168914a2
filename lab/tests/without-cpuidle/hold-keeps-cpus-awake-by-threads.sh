. ./assert.sh

complains 3 "no cpuidle driver" reveille hold --latency 100us
complains 3 "no idle states to limit" reveille limit --deepest C1
begin reveille hold --latency 0 --cpu 1
wait_for 120 grep -q 'Held until' /tmp/begun
contains "hold --latency 0" "CPU 1 kept awake by a thread" "$(cat /tmp/begun)"
# Ticks of idle time, and of all: the fourth number of a CPU's line, and the first eight.
ticks() { awk '$1 == "cpu1" { for (i = 2; i <= 9; i++) all += $i; print $5, all }' /proc/stat; }
before=$(ticks)
sleep 2
after=$(ticks)
idle=$((${after% *} - ${before% *})) all=$((${after#* } - ${before#* }))
at_least "the ticks of CPU 1" "$all" 50
[ $((idle * 5)) -le $all ] || fail "CPU 1 was idle for $idle of $all ticks"
kill "$begun"
ends 0
