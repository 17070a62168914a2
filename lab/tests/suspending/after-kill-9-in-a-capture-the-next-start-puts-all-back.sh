. ./assert.sh
before=$(settings)
for undoes in 'restore' 'states'; do
  captures --mode mem --wake-after 5s --repeat 50
  said '^reveille: cycle 1: asleep'
  kill -9 "$begun"
  ends 137
  equal "what the kernel is told to print" "$(cat /sys/power/pm_print_times)" 1
  test -d /sys/kernel/tracing/instances/reveille-* || fail "there is no instance of the tracer"
  run 0 reveille $undoes
  says "reveille $undoes" 'pm_print_times\|put back' "$output"
  equal "the settings after reveille $undoes" "$(settings)" "$before"
  # The killed capture's files are readable.
  run 0 reveille resume analyze /tmp/capture
done
