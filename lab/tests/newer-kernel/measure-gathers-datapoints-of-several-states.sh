# Not of C2 and C3: this kernel's menu governor learns that the CPU leaves both at once, and chooses them
# too rarely for a launch to fall into one.
. ./assert.sh

run 0 reveille measure --cpu 1 --each-state --distance 4ms..16ms --duration 8s --out /tmp/each
datapoints /tmp/each requested_state | sort | uniq -c
for name in POLL C1; do has_or_gathers /tmp/each "$name"; done
