. ./assert.sh

ip addr add 192.0.2.1/24 dev eth0 2>/dev/null || true
run 0 reveille measure --cpu 1 --source reply:eth0,192.0.2.9 --state C1 --distance 3ms..8ms --datapoints 400 --out /tmp/reply
equal "the datapoints" "$(datapoints /tmp/reply source | sort | uniq -c | tr -s ' ')" " 400 reply"
at_least "the datapoints of C1" "$(datapoints /tmp/reply requested_state C1)" 200
contains "the result" 'pings of 192.0.2.9 through eth0 (igb), interrupt [0-9]* (.*eth0)' "$(cat /tmp/reply/result.json)"
keeps /tmp/reply
true_times /tmp/reply /sys/kernel/debug/card/arrivals
equal "the card's filter" "$(cat /sys/kernel/debug/card/filter)" 0

# The governor chooses among all states; another source takes turns.
run 0 reveille measure --cpu 1 --source timer,reply:eth0,192.0.2.9 --duration 6s --out /tmp/both
at_least "the datapoints of reply" "$(datapoints /tmp/both source reply)" 5
at_least "the datapoints of timer" "$(datapoints /tmp/both source timer)" 5
