. ./assert.sh

taskset 2 sh -c 'while :; do sleep 0.02; done' &
sleeping=$!
begin reveille top --json --interval 1s
prints '"counted_by":"trace"'
prints '"wake_latency":{"count":[1-9]'
prints '"kind":"timer","name":"hrtimer_wakeup","command":"sleep"'
kill $sleeping
kill -s TERM "$begun"
ends 0
if grep -q 'this kernel does not report what sends' /tmp/begun; then fail "it has ipi:ipi_send_cpu"; fi
