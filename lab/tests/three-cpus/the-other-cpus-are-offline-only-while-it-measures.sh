. ./assert.sh

one_is_offline() {
  [ "$(cat "$cpus/online")" != 0-2 ]
}
# When a CPU goes offline, the kernel moves its interrupt to another CPU, and leaves it there.
moved=''
for affinity in /proc/irq/*/smp_affinity_list; do
  before=$(cat "$affinity")
  if echo 2 >"$affinity" 2>/dev/null && [ "$(cat "$affinity")" = 2 ]; then
    moved=$affinity
    break
  fi
done
[ -n "$moved" ] || fail "no interrupt can be bound to CPU 2"
# CPU 0 cannot go offline in this kernel; CPU 2 can, if the reader is on CPU 0.
begin reveille measure --cpu 1 --offline-others --duration 100s --out /tmp/alone
wait_for 120 one_is_offline
equal "CPUs online while measuring" "$(cat "$cpus/online")" 0-1
[ "$(cat "$moved")" != 2 ] || fail "$moved was not moved by the kernel"
gathers /tmp/alone 20
kill -s TERM "$begun"
ends 130
equal "CPUs online afterwards" "$(cat "$cpus/online")" 0-2
equal "the CPUs of $moved" "$(cat "$moved")" 2
echo "$before" >"$moved"
at_least "datapoints" "$(datapoints /tmp/alone cpu 1)" 20
