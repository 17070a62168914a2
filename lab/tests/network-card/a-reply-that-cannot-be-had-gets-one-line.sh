. ./assert.sh

refused() {
  local status=$1 pattern=$2 source=$3
  complains "$status" "$pattern" reveille measure --cpu 1 --source "$source" --datapoints 5 --out /tmp/refused
  [ ! -e /tmp/refused ] || fail "a refused run left its folder"
}
refused 2 "invalid value .neighbour" reply:eth0,neighbour
refused 2 'no network interface eth9' reply:eth9,192.0.2.9
refused 3 'has no card' reply:lo,192.0.2.9
ip addr flush dev eth0
refused 3 'no way to 192.0.2.9' reply:eth0,192.0.2.9
ip addr add 192.0.2.1/24 dev eth0 2>/dev/null || true
echo 1 >/sys/module/card/parameters/lose_answer_every
refused 3 'does not answer pings through eth0' reply:eth0,192.0.2.9
echo 0 >/sys/module/card/parameters/lose_answer_every
echo 1 >/sys/class/net/eth0/threaded
refused 3 'polled by threads' reply:eth0,192.0.2.9
echo 0 >/sys/class/net/eth0/threaded
echo 1 >/sys/class/net/eth0/queues/rx-0/rps_cpus
refused 3 'RPS' reply:eth0,192.0.2.9
echo 0 >/sys/class/net/eth0/queues/rx-0/rps_cpus
ip link set eth0 down
refused 3 'is down' reply:eth0,192.0.2.9
ip link set eth0 up
