. ./assert.sh

begin reveille measure --cpu 1 --state C2 --duration 100s --out /tmp/undisturbed
wait_for 120 limited_to 1 C3
run 0 reveille states
run 0 reveille restore
# It may have reached the floor, for which it disables the others, too.
[ -n "$(disabled 1)" ] || fail "no state is disabled after restore"
kill -s TERM "$begun"
ends 130
