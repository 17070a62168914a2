. ./assert.sh

has_address() { ip -6 addr show dev eth0 | grep -q 'inet6 fe80.* scope link *$'; }
wait_for 20 has_address
run 0 reveille measure --cpu 1 --source reply:eth0,fe80::9 --state C1 --distance 3ms..8ms --datapoints 500 --out /tmp/reply
equal "the datapoints" "$(datapoints /tmp/reply source | sort | uniq -c | tr -s ' ')" " 500 reply"
contains "the result" 'pings of fe80::9 through eth0 (igc)' "$(cat /tmp/reply/result.json)"
keeps /tmp/reply
true_times /tmp/reply /sys/kernel/debug/card/arrivals

# The card's setting is restored though its interface has another name by then.
begin reveille measure --cpu 1 --source reply:eth0,fe80::9 --state C1 --duration 3s --no-report --out /tmp/renamed
gathers /tmp/renamed 5
run 0 ip link set eth0 name lan0
ends 0
equal "the card's filter" "$(cat /sys/kernel/debug/card/filter)" 0
run 0 ip link set lan0 name eth0
