. ./assert.sh

[ -c /dev/hpet ] || fail "the guest has no HPET"
line=/proc/irq/16/smp_affinity_list
run 0 reveille measure --cpu 1 --source hpet --state C1 --distance 3ms..8ms --datapoints 500 --out /tmp/hpet
equal "the datapoints" "$(datapoints /tmp/hpet source | sort | uniq -c | tr -s ' ')" " 500 hpet"
# The governor may choose POLL once in a while; what is deeper is off.
at_least "the datapoints of C1" "$(datapoints /tmp/hpet requested_state C1)" 450
equal "the deeper states" "$(datapoints /tmp/hpet requested_state | sort -u | grep -v -e C1 -e POLL)" ""
contains "the result" 'HPET timer 2, interrupt 16 (IO-APIC .*hpet2), not shared' "$(cat /tmp/hpet/result.json)"
equal "the line's CPUs" "$(cat $line)" "0-1"

# Of a tick of 10 ns and the narrowest bracket in an emulator; half of them, since the host may be busy.
errors=$(datapoints /tmp/hpet launch_error_ns | sort -n)
at_least "the smallest error, ns" "$(printf '%s\n' "$errors" | head -n 1)" 5
median=$(printf '%s\n' "$errors" | sed -n 250p)
[ "$median" -le 2000 ] || fail "half of the launches are known to no better than $median ns"

# Distances are the driver's frequencies.
distances=$(datapoints /tmp/hpet launch_distance_ns | sort -n | sed -n '250p')
at_least "the median distance, ns" "$distances" 3000000
[ "$distances" -le 9000000 ] || fail "the median distance is $distances ns"
