# Selection is real here: the CPU does not enter disabled states, and enters the others.
. ./assert.sh

c3=$(state 1 C3)
echo 1 >"$c3/disable"
enters 1 C2
before=$(uses 1 C3)
sleep 1
enters 1 C2
after=$(uses 1 C3)
echo 0 >"$c3/disable"
equal "entries into the disabled C3" "$((after - before))" 0
