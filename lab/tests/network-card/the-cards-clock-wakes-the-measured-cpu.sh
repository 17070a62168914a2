. ./assert.sh

run 0 reveille measure --cpu 1 --source nic:eth0 --nic-pin SDP0 --state C1 --distance 3ms..8ms --datapoints 500 --out /tmp/nic
equal "the datapoints" "$(datapoints /tmp/nic source | sort | uniq -c | tr -s ' ')" " 500 nic"
# The governor may choose POLL once in a while; what is deeper is off.
at_least "the datapoints of C1" "$(datapoints /tmp/nic requested_state C1)" 450
equal "the deeper states" "$(datapoints /tmp/nic requested_state | sort -u | grep -v -e C1 -e POLL)" ""
contains "the result" 'eth0 (igb), interrupt [0-9]* (.*eth0), not shared; .* pin SDP0; ASPM' "$(cat /tmp/nic/result.json)"
keeps /tmp/nic
true_times /tmp/nic /sys/kernel/debug/card/launches
# Half of them, since the host may be busy.
median=$(datapoints /tmp/nic launch_error_ns | sort -n | sed -n 250p)
[ "$median" -le 20000 ] || fail "half of the launches are known to no better than $median ns"
distance=$(datapoints /tmp/nic launch_distance_ns | sort -n | sed -n 250p)
at_least "the median distance, ns" "$distance" 3000000
[ "$distance" -le 9000000 ] || fail "the median distance is $distance ns"

off() {
  equal "the pin" "$(cat /sys/class/ptp/ptp0/pins/SDP0)" "0 0"
  contains "the card" '^on 0' "$(cat /sys/kernel/debug/card/counts)"
  contains "the card" '^in_frequency_mode 0' "$(cat /sys/kernel/debug/card/counts)"
}
off

# A source from outside beside it: their floors are compared.
run 0 reveille measure --cpu 1 --source hpet,nic:eth0 --nic-pin SDP0 --state C1 --duration 6s --out /tmp/with-hpet
at_least "the datapoints of hpet" "$(datapoints /tmp/with-hpet source hpet)" 50
at_least "the datapoints of nic" "$(datapoints /tmp/with-hpet source nic)" 50
run 0 reveille report /tmp/with-hpet --markdown
contains "the report" 'Floors of hpet and nic' "$output"
off
