# Long distances, so that the menu governor expects a sleep that is worth C2 and C3.
. ./assert.sh

run 0 reveille measure --cpu 1 --each-state --distance 4ms..16ms --duration 8s --out /tmp/each
datapoints /tmp/each requested_state | sort | uniq -c
for name in POLL C1 C2 C3; do contains "measure --each-state" "$name" "$output"; done
for name in POLL C1 C2 C3; do has_or_gathers /tmp/each "$name"; done
