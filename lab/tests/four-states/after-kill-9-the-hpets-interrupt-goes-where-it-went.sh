. ./assert.sh

line=/proc/irq/16/smp_affinity_list
begin reveille measure --cpu 1 --source hpet --duration 60s --out /tmp/hpet
moved() { [ "$(cat $line)" = 1 ]; }
wait_for 30 moved
kill -9 "$begun"
# Closed, the device interrupts no more.
quiet() {
  local before
  before=$(grep hpet2 /proc/interrupts || true)
  sleep 0.3
  [ "$(grep hpet2 /proc/interrupts || true)" = "$before" ]
}
wait_for 10 quiet
run 0 reveille restore
equal "the line's CPUs" "$(cat $line)" "0-1"
