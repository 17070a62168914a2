. ./assert.sh

taskset 2 sh -c 'while :; do sleep 0.02; done' &
sleeping=$!
run 0 reveille top --json --count 2 --interval 3s
kill $sleeping
last=$(printf '%s\n' "$output" | tail -n 1)
says "top" '"counted_by":"trace"' "$last"
says "top" '"wake_latency":{"count":[1-9]' "$last"
says "top" '"kind":"timer","name":"hrtimer_wakeup","command":"sleep"' "$last"
if printf '%s\n' "$last" | grep -q 'not told by this kernel'; then fail "it has ipi:ipi_send_cpu"; fi
