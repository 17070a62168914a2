. ./assert.sh

refused() {
  complains "$1" "$2" reveille measure --cpu 1 --source "$3" --datapoints 5 --out /tmp/refused
  [ ! -e /tmp/refused ] || fail "a refused run left its folder"
}
# neighbour PATTERN [STATUS]: one that cannot be measured with.
neighbour() { refused "${2:-3}" "$1" reply:eth0,192.0.2.9; }

refused 2 "invalid value 'neighbour'" reply:eth0,neighbour
refused 2 'names no neighbour' reply:eth0
refused 2 'only one card and neighbour' reply:eth0,192.0.2.8,reply:eth0,192.0.2.9
refused 2 'no network interface "eth9"' reply:eth9,192.0.2.9
refused 3 'has no card' reply:lo,192.0.2.9
ip addr flush dev eth0
neighbour 'has eth0 an address in its network'
ip addr add 192.0.2.1/24 dev eth0
refused 2 "this machine's own address" reply:eth0,192.0.2.1
refused 2 'is a broadcast address' reply:eth0,192.0.2.255

parameters=/sys/module/card/parameters
echo 1 >$parameters/lose_answer_every
neighbour 'does not answer pings through eth0'
echo 0 >$parameters/lose_answer_every

# As ptp4l sets it.
echo 12 >/sys/kernel/debug/card/filter
neighbour 'another program.*filter 12'
equal "the card's filter" "$(cat /sys/kernel/debug/card/filter)" 12
# Another program that has every packet timestamped keeps that.
echo 1 >/sys/kernel/debug/card/filter
run 0 reveille measure --cpu 1 --source reply:eth0,192.0.2.9 --datapoints 5 --out /tmp/shared
equal "the card's filter" "$(cat /sys/kernel/debug/card/filter)" 1
echo 0 >/sys/kernel/debug/card/filter

echo 1 >/sys/class/net/eth0/threaded
neighbour 'polled by threads'
echo 0 >/sys/class/net/eth0/threaded
echo 1 >/sys/class/net/eth0/queues/rx-0/rps_cpus
neighbour 'RPS'
echo 0 >/sys/class/net/eth0/queues/rx-0/rps_cpus
ip link set eth0 down
neighbour 'is down'

rmmod card
run 0 insmod /lab/card.ko driver=igb stamps=0
ip link set eth0 up
neighbour 'driver igb) does not timestamp every packet'
rmmod card
run 0 insmod /lab/card.ko driver=igb
ip link set eth0 up
