. ./assert.sh

ip addr add 192.0.2.1/24 dev eth0 2>/dev/null || true
number=$(sed -n 's/^ *\([0-9]*\):.* eth0$/\1/p' /proc/interrupts)
line=/proc/irq/$number/smp_affinity_list
before=$(cat "$line")
begin reveille measure --cpu 1 --source reply:eth0,192.0.2.9 --duration 60s --out /tmp/killed
moved() { [ "$(cat "$line")" = 1 ] && [ "$(cat /sys/kernel/debug/card/filter)" = 1 ]; }
wait_for 30 moved
gathers /tmp/killed 1
kill -9 "$begun"
ends 137
run 0 reveille restore
contains "restore" 'hwtstamp' "$output"
equal "the interrupt's CPUs" "$(cat "$line")" "$before"
equal "the card's filter" "$(cat /sys/kernel/debug/card/filter)" 0
