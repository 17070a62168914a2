. ./assert.sh

begin reveille hold --latency 50us
wait_for 120 grep -q 'Held until' /tmp/begun
grep -q 'C2 *33  left' /tmp/begun || fail "what it leaves: $(cat /tmp/begun)"
grep -q 'C3 *133  stopped' /tmp/begun || fail "what it stops: $(cat /tmp/begun)"
# Each CPU has left the C3 that it was in, and chosen again.
enters 0 C2
enters 1 C2
c3_0=$(uses 0 C3) c3_1=$(uses 1 C3)
sleep 1
enters 0 C2
enters 1 C2
equal "entries into C3 of CPU 0" "$(($(uses 0 C3) - c3_0))" 0
equal "entries into C3 of CPU 1" "$(($(uses 1 C3) - c3_1))" 0
# The kernel drops the request with its holder.
kill -9 "$begun"
ends 137
enters 1 C3
