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
# get PORT PATH: the whole response.
get() { printf 'GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' "$2" | nc -w 20 127.0.0.1 "$1"; }
asked() { get 8080 /small | grep -q '^answer'; }
wait_for 30 wget -q -O /dev/null http://10.9.0.2/small

# account NAME: that figure of /status.
account() {
  get 9817 /status | sed -n "s/^ *\"$1\": *\([0-9.]*\).*/\1/p" | head -n 1
}

# load: requests at their instants, whether or not earlier ones are answered.
load() {
  begin reveille stage --listen 127.0.0.1:8080 --upstream http://10.9.0.2:80 --deadline 500ms --metrics 9817
  wait_for 60 asked
  clients=''
  nth=0
  while [ $nth -lt 200 ]; do
    asked &
    clients="$clients $!"
    sleep 0.15
    nth=$((nth + 1))
  done
  for client in $clients; do wait "$client" || fail 'a request was not answered'; done
  requests=$(account requests)
  held=$(account held)
  missed=$(account missed)
  late=$(account late)
  hold=$(account held_mean_s | awk '{ printf "%d", $1 * 1000 }')
  takes=$(account one_request_s | awk '{ printf "%d", $1 * 1000 }')
  kill -s TERM "$begun"
  ends 0
  echo "$requests requests, $held held for $hold ms on average, $missed missed, $late late; one request takes $takes ms" >&2
  at_least 'requests' "$requests" 200
  # A request misses its deadline only if it takes longer than each one before it: after the 20 that only teach, that
  # happens ln(200 / 20) = 2.3 times on average, and more than 9 times in 1 of 6,000 runs.
  [ "$missed" -le 9 ] || fail "$missed of $requests requests missed their deadline because of the hold: $(cat /tmp/begun)"
}

# quick_load MS: where other load leaves this guest too little of a CPU, the answers alone take up the deadline. It is tried
# again once.
again=''
quick_load() {
  load
  if [ "$takes" -gt 250 ] && [ -z "$again" ]; then
    again=yes
    load
  fi
  [ "$takes" -le 250 ] || skip "one request takes $takes ms, of which the link delays it by $1"
}

quick_load 0
at_least 'held requests' "$held" 66
tc qdisc add dev near root netem delay 20ms 5ms
there /bin/tc qdisc add dev far root netem delay 20ms 5ms
quick_load 80
at_least 'held requests of a distant server' "$held" 33
# A connection and an answer take two times there and back, 80 ms together, or some 5 ms less each way. Who did not release
# so much earlier would miss the deadlines of most.
at_least 'ms that one request takes' "$takes" 65
# A lost packet is sent again after 200 ms and more: few requests can be held then, and none is late because of it.
tc qdisc change dev near root netem delay 20ms 5ms loss 1%
there /bin/tc qdisc change dev far root netem delay 20ms 5ms loss 1%
load
ip link del near
