. ./assert.sh

naps() {
  # shellcheck disable=SC2016  # the inner shell expands it
  run 0 reveille cost --out "$1" -- sh -c 'for i in $(seq 30); do sleep 0.05; done'
}
naps /tmp/naps
contains "the table" "woken by" "$output"
contains "the table" '^C[123] ' "$output"
json=/tmp/naps/cost.json
at_least "wake-ups" "$(sed -n 's/^  "wakeups": \([0-9]*\),/\1/p' $json)" 20
at_least "wake-ups that met a sleeping CPU" \
  "$(sed -n 's/^  "met_sleeping_cpu": \([0-9]*\),/\1/p' $json)" 5
contains "the timer among the interrupts" '"interrupt": "timer"' "$(cat $json)"
run 0 reveille report /tmp/naps
[ -s /tmp/naps/report.html ] || fail "no page"
equal "journals left" "$(find /run/reveille -type f 2>/dev/null)" ""
