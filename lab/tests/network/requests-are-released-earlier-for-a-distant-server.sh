# shellcheck shell=dash
. ./assert.sh

# The server has a namespace of its own, and the link to it delays packets and loses some.
unshare -n sh -c 'echo $$ >/tmp/server; exec sleep 1000' &
holder=$!
trap 'kill "$holder" 2>/dev/null || true; [ -z "$begun" ] || kill -9 "$begun" 2>/dev/null || true' EXIT
wait_for 30 test -s /tmp/server
there() { nsenter -t "$(cat /tmp/server)" -n "$@"; }
# The shell prefers applets of its own, which know neither veth nor netem.
ip() { /bin/ip "$@"; }
tc() { /bin/tc "$@"; }
ip link set lo up
ip link add near type veth peer name far
ip link set far netns "$(cat /tmp/server)"
ip addr add 10.9.0.1/24 dev near
ip link set near up
there /bin/ip addr add 10.9.0.2/24 dev far
there /bin/ip link set far up
mkdir -p /tmp/files
echo answer >/tmp/files/small
there httpd -p 10.9.0.2:80 -h /tmp/files
asked() { wget -q -T 10 -O /dev/null "http://127.0.0.1:$1/small"; }
wait_for 30 wget -q -O /dev/null http://10.9.0.2/small

# account NAME: that figure of /status.
account() {
  wget -q -O - http://127.0.0.1:9817/status | tr '{},' '\n' | sed -n "s/^ *\"$1\": *\([0-9]*\).*/\1/p" | head -n 1
}
# The mean of how long requests were held, ms.
mean_hold() {
  wget -q -O - http://127.0.0.1:9817/status | tr '{},' '\n' |
    sed -n 's/^ *"held_mean_s": *//p' | awk 'NR == 1 { printf "%d\n", $1 * 1000 }'
}

# load: requests at their instants, whether or not earlier ones are answered.
load() {
  begin reveille stage --listen 127.0.0.1:8080 --upstream http://10.9.0.2:80 --deadline 500ms --metrics 9817
  wait_for 60 asked 8080
  clients=''
  nth=0
  while [ $nth -lt 300 ]; do
    asked 8080 &
    clients="$clients $!"
    sleep 0.15
    nth=$((nth + 1))
  done
  for client in $clients; do wait "$client" || fail 'a request was not answered'; done
  requests=$(account requests)
  held=$(account held)
  missed=$(account missed)
  late=$(account late)
  hold=$(mean_hold)
  kill -s TERM "$begun"
  ends 0
  echo "$requests requests, $held held for $hold ms on average, $missed missed, $late late" >&2
  at_least 'requests' "$requests" 300
  at_least 'held requests' "$held" 30
  # At p99.9 one of 300 is the first that may miss.
  [ "$missed" -le 1 ] || fail "$missed of $requests requests missed their deadline because of the hold: $(cat /tmp/begun)"
}

load
near=$hold
tc qdisc add dev near root netem delay 20ms 5ms loss 1%
there /bin/tc qdisc add dev far root netem delay 20ms 5ms loss 1%
load
# A connection and an answer take two times there and back, 80 ms together.
[ "$hold" -le $((near - 40)) ] || fail "requests are held for $hold ms, and without the delay for $near ms"
echo "held for $near ms, with the delay for $hold ms"
ip link del near
