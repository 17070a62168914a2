# 6.1 does not tell who sends interrupts; timers have their owner all the same.
. ./assert.sh

taskset 2 sh -c 'while :; do sleep 0.02; done' &
sleeping=$!
run 0 reveille top --json --count 2 --interval 3s
kill $sleeping
last=$(printf '%s\n' "$output" | tail -n 1)
equal "the number of lines" "$(printf '%s\n' "$output" | wc -l)" 2
for name in POLL C1 C2 C3; do
  says "top" "\"name\":\"$name\"" "$last"
done
says "top" '"counted_by":"trace"' "$last"
says "top" '"wake_latency":{"count":[1-9]' "$last"
says "top" '"leaving_percent":[0-9]' "$last"
says "top" '"kind":"timer","name":"hrtimer_wakeup","command":"sleep"' "$last"
says "top's notes" 'not told by this kernel' "$last"
