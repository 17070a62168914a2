. ./assert.sh

number=$(sed -n 's/^ *\([0-9]*\):.* eth0$/\1/p' /proc/interrupts)
line=/proc/irq/$number/smp_affinity_list
before=$(cat "$line")
begin reveille measure --cpu 1 --source nic:eth0 --nic-pin SDP2 --duration 60s --out /tmp/card-killed
gathers /tmp/card-killed 5
equal "the pin" "$(cat /sys/class/ptp/ptp0/pins/SDP2)" "2 0"
kill -9 "$begun"
ends 137
contains "the card" '^on 1' "$(cat /sys/kernel/debug/card/counts)"
run 0 reveille restore
contains "the card" '^on 0' "$(cat /sys/kernel/debug/card/counts)"
equal "the pin" "$(cat /sys/class/ptp/ptp0/pins/SDP2)" "0 0"
equal "the interrupt's CPUs" "$(cat "$line")" "$before"

# Another program moves the interrupt: its launches are dropped, by that reason.
begin reveille measure --cpu 1 --source nic:eth0 --nic-pin SDP2 --state C1 --duration 4s --out /tmp/moved
gathers /tmp/moved 5
echo 0 >"$line"
wait "$begun" || true
contains "the result" 'its interrupt came on another CPU' "$(cat /tmp/moved/result.json)"
echo "$before" >"$line"
