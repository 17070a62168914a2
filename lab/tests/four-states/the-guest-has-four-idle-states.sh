# Every other test in this guest relies on this.
. ./assert.sh

equal "the driver" "$(cat "$cpus/cpuidle/current_driver")" acpi_idle
for cpu in 0 1; do
  found=$(for s in "$cpus/cpu$cpu"/cpuidle/state*; do echo "$(cat "$s/name")=$(cat "$s/latency")"; done | tr '\n' ' ')
  equal "CPU $cpu's states and exit latencies, µs" "$found" "POLL=0 C1=2 C2=33 C3=133 "
done
