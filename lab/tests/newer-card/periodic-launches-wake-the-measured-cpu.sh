. ./assert.sh

run 0 reveille measure --cpu 1 --source nic:eth0 --nic-pin SDP0 --state C1 --distance 3ms..8ms --datapoints 100 --out /tmp/nic
equal "the datapoints" "$(datapoints /tmp/nic source | sort | uniq -c | tr -s ' ')" " 100 nic"
contains "the result" 'eth0 (igc), .* a launch each 70 ms' "$(cat /tmp/nic/result.json)"
kept_at_least 60 /tmp/nic
true_times /tmp/nic /sys/kernel/debug/card/launches
# The message, and not the launch before, begins the wait.
distance=$(datapoints /tmp/nic launch_distance_ns | sort -n | sed -n 50p)
at_least "the median distance, ns" "$distance" 3000000
[ "$distance" -le 9000000 ] || fail "the median distance is $distance ns"
silent=$(datapoints /tmp/nic silent_time_ns | sort -n | sed -n 50p)
[ "$silent" -le 9000000 ] || fail "the median silent time is $silent ns"
equal "the pin" "$(cat /sys/class/ptp/ptp0/pins/SDP0)" "0 0"
contains "the card" '^on 0' "$(cat /sys/kernel/debug/card/counts)"
contains "the card" '^in_frequency_mode 0' "$(cat /sys/kernel/debug/card/counts)"

# A reset ends the periodic launches, too; they are begun anew.
echo 20 >/sys/module/card/parameters/reset_every
run 0 reveille measure --cpu 1 --source nic:eth0 --nic-pin SDP0 --state C1 --distance 3ms..8ms --duration 9s --out /tmp/reset
echo 0 >/sys/module/card/parameters/reset_every
at_least "the datapoints" "$(datapoints /tmp/reset source nic)" 20
contains "the result" 'the card did not interrupt' "$(cat /tmp/reset/result.json)"
true_times /tmp/reset /sys/kernel/debug/card/launches
