. ./assert.sh

one_is_offline() {
  [ "$(cat "$cpus/online")" != 0-2 ]
}
# CPU 0 cannot go offline in this kernel: CPU 2 can, where the reader is on CPU 0.
begin reveille measure --cpu 1 --offline-others --duration 100s --out /tmp/alone
wait_for 120 one_is_offline
equal "CPUs online while measuring" "$(cat "$cpus/online")" 0-1
gathers /tmp/alone 20
kill -s TERM "$begun"
ends 130
equal "CPUs online afterwards" "$(cat "$cpus/online")" 0-2
at_least "datapoints" "$(datapoints /tmp/alone cpu 1)" 20
