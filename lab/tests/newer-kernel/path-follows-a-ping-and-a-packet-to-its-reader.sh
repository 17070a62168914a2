. ./assert.sh

# This kernel reports which socket got data (sock:sk_data_ready); the older guest's does not.
ip link set lo up
ping -i 0.1 127.0.0.1 >/dev/null &
pinging=$!
run 0 reveille path --ping --count 10 --duration 60s
contains "path" "^ICMP echo  reply is made" "$output"
kill "$pinging"

# It ends with its standard input.
sleep 100 | nc -l -p 7777 >/dev/null &
listening=$!
wait_for 120 grep -q ':1E61 0*:0000 0A' /proc/net/tcp /proc/net/tcp6
(while sleep 0.2; do echo x; done) | nc 127.0.0.1 7777 &
sending=$!
run 0 reveille path --nic lo --port 7777 --count 5 --duration 60s
kill "$listening" "$sending" 2>/dev/null || true
contains "path" "reader's first instruction" "$output"
contains "path" "^Readers: nc 5" "$output"
