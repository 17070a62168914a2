. ./assert.sh

ip link set lo up
# It ends with its standard input.
sleep 100 | nc -l -p 7777 >/dev/null &
listening=$!
wait_for 120 grep -q ':1E61 0*:0000 0A' /proc/net/tcp /proc/net/tcp6
(while sleep 0.2; do echo x; done) | nc 127.0.0.1 7777 &
sending=$!
run 0 reveille path --nic lo --port 7777 --count 5 --duration 60s
kill "$listening" "$sending" 2>/dev/null || true
contains "path" "^Followed .*; 5 of" "$output"
contains "path" "reader's first instruction" "$output"
contains "path" "^Readers: nc 5" "$output"
