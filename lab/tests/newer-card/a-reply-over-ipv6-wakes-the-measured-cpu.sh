. ./assert.sh

has_address() { ip -6 addr show dev eth0 | grep -q 'inet6 fe80.* scope link *$'; }
wait_for 20 has_address
run 0 reveille measure --cpu 1 --source reply:eth0,fe80::9 --state C1 --distance 3ms..8ms --datapoints 500 --out /tmp/reply
equal "the datapoints" "$(datapoints /tmp/reply source | sort | uniq -c | tr -s ' ')" " 500 reply"
contains "the result" 'pings of fe80::9 through eth0 (igc)' "$(cat /tmp/reply/result.json)"
keeps /tmp/reply
true_times /tmp/reply /sys/kernel/debug/card/arrivals
