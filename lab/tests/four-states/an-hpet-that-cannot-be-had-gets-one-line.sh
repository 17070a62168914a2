. ./assert.sh

# Another program has the only free timer.
sleep 100 </dev/hpet &
holder=$!
complains 3 'all of its timers are in use' reveille measure --cpu 1 --source hpet --datapoints 5 --out /tmp/busy
kill $holder
wait $holder 2>/dev/null || true

mv /dev/hpet /dev/hpet-away
output=$(reveille measure --cpu 1 --source hpet --datapoints 5 --out /tmp/none 2>&1) && fail "it ran without an HPET"
mv /dev/hpet-away /dev/hpet
contains "without an HPET" 'this machine has no HPET' "$output"
equal "the lines of '$output'" "$(printf '%s\n' "$output" | wc -l)" 1
[ ! -e /tmp/busy ] && [ ! -e /tmp/none ] || fail "a refused run left a folder"
run 0 reveille measure --cpu 1 --source hpet --state C1 --datapoints 5 --out /tmp/again
