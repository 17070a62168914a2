# 6.1 does not report what sends interrupts; timers still have their owner.
. ./assert.sh

taskset 2 sh -c 'while :; do sleep 0.02; done' &
sleeping=$!
begin reveille top --json --interval 1s
for name in POLL C1 C2 C3; do
  prints "\"name\":\"$name\""
done
prints '"counted_by":"trace"'
prints '"wake_latency":{"count":[1-9]'
prints '"leaving_percent":[0-9]'
prints '"kind":"timer","name":"hrtimer_wakeup","command":"sleep"'
prints 'this kernel does not report what sends'
kill $sleeping
kill -s TERM "$begun"
ends 0
run 0 reveille top --json --count 2 --interval 500ms
equal "the number of lines" "$(printf '%s\n' "$output" | wc -l)" 2
