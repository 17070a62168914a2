. ./assert.sh

run 0 reveille states
contains "reveille states" "acpi_idle" "$output"
contains "reveille states" "menu" "$output"
for name in POLL C1 C2 C3; do contains "reveille states" "$name" "$output"; done
run 0 reveille states --json --cpu 1
for latency in 0 2 33 133; do contains "states --json" "\"exit_latency_us\": $latency,*\$" "$output"; done
