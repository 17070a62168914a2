. ./assert.sh

begin reveille measure --cpu 1 --state C1 --duration 60s --out /tmp/killed
wait_for 120 limited_to 1 "C2 C3"
kill -9 "$begun"
ends 137
# It may have reached the floor, for which it disables C1, too.
[ -n "$(disabled 1)" ] || fail "no state is disabled after kill -9"
run 0 reveille states
equal "CPU 1's disabled states after the next start" "$(disabled 1)" ""
