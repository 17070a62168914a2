. ./assert.sh

# By counts: C2 and C3 of this guest return at once.
entries() { cat "$(state "$1" C3)/usage"; }
bound() { cat "$cpus/cpu$1/power/pm_qos_resume_latency_us"; }
is_bound() { [ "$(bound 1)" = "$1" ]; }

ip link set lo up
cat >/rules.toml <<'END'
[[rule]]
name = "ping"
latency = "100us"
quiet = "500ms"
when.traffic = { interface = "lo", protocol = "icmp" }
END
run 0 reveille govern check /rules.toml
contains "check" '100 µs *C3 *POLL, C1, C2 *table' "$output"

reveille govern --config /rules.toml >/log 2>&1 &
service=$!
wait_for 30 reveille govern status >/dev/null
equal "the bounds without traffic" "$(bound 0) $(bound 1)" "0 0"

# A burst, whose packets come on CPU 1: until all of it has been seen.
taskset 2 ping -q -w 120 -i 0.02 127.0.0.1 >/dev/null &
burst=$!
wait_for 10 is_bound 100
equal "the bound of the other CPU" "$(bound 0)" 0
held=$(entries 1) other=$(entries 0)
sleep 1
# The governor chose one state before the bound, at most.
[ $(($(entries 1) - held)) -le 1 ] || fail "C3 of CPU 1 was entered $(($(entries 1) - held)) times under the bound"
at_least "entries of C3 of CPU 0 meanwhile" $(($(entries 0) - other)) 1
run 0 reveille govern explain --cpu 1
contains "explain" 'ping *yes' "$output"
kill -INT $burst
wait $burst

wait_for 10 is_bound 0
released=$(entries 1)
sleep 1
at_least "entries of C3 of CPU 1 after the burst" $(($(entries 1) - released)) 1
run 0 reveille govern status
contains "status" 'ping .* 1 ' "$output"
kill $service
wait $service || fail "the service ended with $?: $(cat /log)"
# The guest has no D-Bus.
equal "what the service printed" "$(grep -v 'D-Bus is not served: no system bus' /log)" ""
equal "the files that it left" "$(ls /run/reveille)" ""
