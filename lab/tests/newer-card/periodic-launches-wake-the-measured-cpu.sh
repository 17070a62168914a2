. ./assert.sh

run 0 reveille measure --cpu 1 --source nic:eth0 --nic-pin SDP0 --state C1 --distance 3ms..8ms --datapoints 100 --out /tmp/nic
equal "the datapoints" "$(datapoints /tmp/nic source | sort | uniq -c | tr -s ' ')" " 100 nic"
contains "the result" 'eth0 (igc), .* a launch each 70 ms' "$(cat /tmp/nic/result.json)"
keeps /tmp/nic
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

# A longer distance would have the launch before in it.
complains 2 'at most 65 ms ahead' reveille measure --cpu 1 --source nic:eth0 --nic-pin SDP0 --distance 66ms --datapoints 5 --out /tmp/longer

# A reset ends the periodic launches, too, and a clock that is set back delays them; they are begun anew, also if that was
# in another source's turn.
begin reveille measure --cpu 1 --source timer,nic:eth0 --nic-pin SDP0 --state C1 --distance 64ms --duration 14s --no-report --out /tmp/reset
nic_has() { has_lines "$1" ',nic,' /tmp/reset/datapoints.partial.csv; }
timer_has_its_turn() { tail -n 1 /tmp/reset/datapoints.partial.csv | grep -q ,timer,; }
wait_for 120 nic_has 3
wait_for 60 timer_has_its_turn
echo 3600000000000 >/sys/kernel/debug/card/back
wait_for 60 nic_has $(($(grep -c ',nic,' /tmp/reset/datapoints.partial.csv) + 3))
echo 20 >/sys/module/card/parameters/reset_every
ends 0
echo 0 >/sys/module/card/parameters/reset_every
contains "the result" 'the card did not interrupt' "$(cat /tmp/reset/result.json)"
true_times /tmp/reset /sys/kernel/debug/card/launches
