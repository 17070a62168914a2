. ./assert.sh

# Another program has the only free timer.
exec 9</dev/hpet
complains 3 'all of its timers are in use' reveille measure --cpu 1 --source hpet --datapoints 5 --out /tmp/busy
exec 9<&-

mv /dev/hpet /dev/hpet-away
none=$(reveille measure --cpu 1 --source hpet --datapoints 5 --out /tmp/none 2>&1) && fail "it ran without an HPET"
# Before the sources that are there have measured anything.
run 3 reveille measure --cpu 1 --source timer,hpet --datapoints 5 --out /tmp/later
mv /dev/hpet-away /dev/hpet
contains "without an HPET" 'this machine has no HPET' "$output"
equal "the lines of '$output'" "$(printf '%s\n' "$output" | wc -l)" 1
output=$none
contains "without an HPET" 'this machine has no HPET' "$output"
equal "the lines of '$output'" "$(printf '%s\n' "$output" | wc -l)" 1
for folder in /tmp/busy /tmp/none /tmp/later; do
  [ ! -e $folder ] || fail "a refused run left $folder"
done
run 0 reveille measure --cpu 1 --source hpet --state C1 --datapoints 5 --out /tmp/again
