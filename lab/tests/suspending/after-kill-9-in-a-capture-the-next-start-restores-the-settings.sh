. ./assert.sh
before=$(settings)
for undoes in 'restore' 'states'; do
  captures --mode mem --wake-after 5s --repeat 50
  prints '^reveille: cycle 1: asleep'
  kill -9 "$begun"
  ends 137
  equal "pm_print_times" "$(cat /sys/power/pm_print_times)" 1
  test -d /sys/kernel/tracing/instances/reveille-* || fail "there is no instance of the tracer"
  run 0 reveille $undoes
  contains "reveille $undoes" 'pm_print_times\|restored' "$output"
  equal "the settings after reveille $undoes" "$(settings)" "$before"
  # The killed capture's files are readable.
  run 0 reveille resume analyze /tmp/capture
done
