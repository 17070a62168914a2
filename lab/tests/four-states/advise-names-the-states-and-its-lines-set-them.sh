# C2 and C3 are not measured, so they are forbidden whatever the guest's latencies are.
. ./assert.sh

begin reveille measure --cpu 1 --state C1 --distance 1ms..4ms --duration 100s --out /tmp/advice
gathers /tmp/advice 50 C1
kill -s TERM "$begun"
ends 130
advise() {
  reveille advise /tmp/advice --budget 1s --percentile 90 "$@" 2>/dev/null
}
run 0 reveille advise /tmp/advice --budget 1s --percentile 90
printf '%s\n' "$output"
contains "the advice" "[Aa]llow C1; keep out of C2 and C3" "$output"
contains "the advice on C3" "C3: not measured" "$output"

equal "the kernel's parameter" "$(advise --form kernel)" "processor.max_cstate=1"
bound=$(cat "$(state 1 C1)/latency")
equal "the rule's bound" "$(advise --form udev | sed -n 's/.*latency_us}="\(.*\)"/\1/p')" "$bound"
equal "the line that holds" "$(advise --form hold)" "reveille hold --latency ${bound}us"
line=$(advise --form limit)
equal "the line that limits" "$line" "reveille limit --deepest C1"
# shellcheck disable=SC2086  # a line of words
begin $line
wait_for 120 limited_to 1 "C2 C3"
equal "CPU 0's disabled states" "$(disabled 0)" "C2 C3"
kill "$begun"
ends 0
equal "CPU 1's disabled states afterwards" "$(disabled 1)" ""

# No state has enough datapoints for that percentile, so there is no advice; and the driver takes no table.
complains 3 "too few datapoints" reveille advise /tmp/advice --budget 1s --percentile 99.99 --form kernel
complains 3 "only intel_idle takes one" reveille advise /tmp/advice --table
