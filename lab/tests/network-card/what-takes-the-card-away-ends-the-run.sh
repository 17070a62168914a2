. ./assert.sh

ip addr add 192.0.2.1/24 dev eth0 2>/dev/null || true
# measures ARGUMENT... --out RESULT
measures() { begin reveille measure --cpu 1 --duration 200s --no-report "$@"; }
# ends_soon RESULT PATTERN: the run ends long before its time, for that reason, and keeps what it has.
ends_soon() {
  local since
  since=$(now)
  ends 1
  [ $(($(now) - since)) -lt 60 ] || fail "it ended only after $(($(now) - since)) s"
  contains "the end" "$2" "$(cat /tmp/begun)"
  at_least "the datapoints" "$(described "$1" kept)" 1
}

# Another run that ends does not take the timestamps away.
measures --source reply:eth0,192.0.2.9 --out /tmp/first
first=$begun
gathers /tmp/first 1
measures --source reply:eth0,192.0.2.9 --state C1 --distance 1ms..4ms --out /tmp/second
gathers /tmp/second 1
kill -TERM "$first"
wait "$first" || true
gathers /tmp/second $(($(wc -l </tmp/second/datapoints.partial.csv) + 10))
# Another program does, as ptp4l when it starts.
echo 12 >/sys/kernel/debug/card/filter
ends_soon /tmp/second 'eth0 no longer timestamps the replies'
equal "the card's filter" "$(cat /sys/kernel/debug/card/filter)" 12
echo 0 >/sys/kernel/debug/card/filter

# The kernel moves the interrupt off a CPU that goes offline, once it has stopped the measuring thread; in the end it goes
# where it went, also where a busy CPU takes its time for the former.
number=$(sed -n 's/^ *\([0-9]*\):.* eth0$/\1/p' /proc/interrupts)
before=$(cat "/proc/irq/$number/smp_affinity_list")
taskset -c 0 sh -c 'while :; do :; done' &
loop=$!
for try in 1 2 3; do
  measures --source reply:eth0,192.0.2.9 --out "/tmp/offline$try"
  gathers "/tmp/offline$try" 1
  echo 0 >"$cpus/cpu1/online"
  echo 1 >"$cpus/cpu1/online"
  ends 1
  equal "the interrupt's CPUs" "$(cat "/proc/irq/$number/smp_affinity_list")" "$before"
done
kill "$loop"

measures --source nic:eth0 --nic-pin SDP0 --out /tmp/gone
gathers /tmp/gone 1
rmmod card
ends_soon /tmp/gone "source nic: the card's clock, /dev/ptp0, could not be read"
run 0 insmod /lab/card.ko driver=igb
ip link set eth0 up
